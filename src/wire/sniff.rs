//! Recognises by itself whether a stream is lines or Content-Length frames, and follows when that changes.
//!
//! Comes in: the bytes of a stream in any pieces. Goes out: what the framer that fits tells of them. A stream is
//! lines until a line is a Content-Length header; stray lines before it are frames, for the next room to find
//! unreadable. A header found in lines, or a line of JSON where a header should stand, changes the framing again,
//! so that a wrong guess costs one frame and not the recording.

use memchr::memchr;

use super::content_length::ContentLength;
use super::header::{self, Line, Trace};
use super::lines::{Lines, Watch};
use super::{Framing, Piece};

/// How much of a header block is held before the line with the length has come.
pub const LONGEST_SNIFF_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone)]
pub struct Sniff {
    framing: Framing,
    /// Something of this framing has been seen.
    sure: bool,
    lines: Lines,
    headers: ContentLength,
    /// Lines that may be the beginning of a header block.
    held: Vec<u8>,
    line_from: usize,
    /// Nothing but white space has come of the current line.
    fresh: bool,
}

impl Default for Sniff {
    fn default() -> Self {
        Sniff::starting_at(0)
    }
}

impl Sniff {
    /// A framer whose first byte lies at `offset` of its stream, and at the beginning of a frame.
    pub fn starting_at(offset: u64) -> Sniff {
        Sniff {
            framing: Framing::Lines,
            sure: false,
            lines: Lines::starting_at(offset),
            headers: ContentLength::starting_at(offset),
            held: Vec::new(),
            line_from: 0,
            fresh: true,
        }
    }

    /// Which framing it is; `None` until something of it has come.
    pub fn framing(&self) -> Option<Framing> {
        self.sure.then_some(self.framing)
    }

    pub fn feed(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let mut from = 0;
        while from < bytes.len() {
            let rest = &bytes[from..];
            if self.framing == Framing::ContentLength {
                from += self.headers.feed_until_json_line(rest, true, tell);
                if self.headers.take_json_line() {
                    self.framing = Framing::Lines;
                    self.lines = Lines::starting_at(self.headers.at());
                    self.fresh = true;
                }
                continue;
            }
            if !self.held.is_empty() {
                from += self.hold(rest, tell);
                continue;
            }
            let watch = if self.sure { Watch::HeaderOfOurs } else { Watch::AnyHeader };
            let taken = self.feed_lines(rest, watch, tell);
            from += taken;
            // The watch may have become narrower meanwhile: only if nothing was taken is this line the one.
            if taken == 0 {
                from += self.hold(rest, tell);
            }
        }
    }

    fn feed_lines(&mut self, bytes: &[u8], watch: Watch, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        if self.sure {
            return self.lines.feed_watching(bytes, watch, tell);
        }
        let (fresh, sure) = (&mut self.fresh, &mut self.sure);
        self.lines.feed_watching(bytes, watch, &mut |piece: Piece<'_>| {
            match piece {
                Piece::Body(part) if *fresh => {
                    if let Some(first) = part.iter().find(|byte| !byte.is_ascii_whitespace()) {
                        *fresh = false;
                        *sure = *sure || matches!(first, b'{' | b'[');
                    }
                }
                Piece::End { .. } => *fresh = true,
                _ => {}
            }
            tell(piece);
        })
    }

    /// Takes up to the end of the line, and decides as soon as that can be done.
    fn hold(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        let found = memchr(b'\n', bytes);
        let wanted = found.map_or(bytes.len(), |at| at + 1);
        for (taken, byte) in bytes[..wanted].iter().enumerate() {
            self.held.push(*byte);
            let line = &self.held[self.line_from..];
            let over = *byte == b'\n';
            let ours = header::trace(line);
            let goes_on = match over {
                true => match header::read_line(line) {
                    Line::Length(Some(_)) => {
                        self.take_for_headers(tell);
                        return taken + 1;
                    }
                    Line::Other => !self.sure || ours == Trace::Header,
                    _ => false,
                },
                false => ours == Trace::Maybe || (!self.sure && header::may_be_header(line)),
            };
            if !goes_on || self.held.len() >= LONGEST_SNIFF_BYTES {
                self.release(tell);
                return taken + 1;
            }
            if over {
                self.line_from = self.held.len();
            }
        }
        wanted
    }

    fn take_for_headers(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        self.framing = Framing::ContentLength;
        self.sure = true;
        self.headers = ContentLength::starting_at(self.lines.at());
        let held = std::mem::take(&mut self.held);
        self.line_from = 0;
        self.headers.feed(&held, tell);
    }

    /// What is held are lines after all.
    fn release(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let held = std::mem::take(&mut self.held);
        self.line_from = 0;
        self.feed_lines(&held, Watch::Nothing, tell);
    }

    /// The stream is over.
    pub fn finish(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        if self.framing == Framing::ContentLength {
            return self.headers.finish(tell);
        }
        self.release(tell);
        self.lines.finish(tell);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fault;
    use super::super::told::{self, Told};
    use super::*;

    fn cut(text: &str) -> (Vec<String>, Vec<Fault>) {
        let told = told::every_split::<Sniff>(text.as_bytes());
        let (mut bodies, mut faults) = (Vec::new(), Vec::new());
        for one in told {
            match one {
                Told::Frame { body, .. } => bodies.push(String::from_utf8(body).unwrap()),
                Told::Fault { fault, .. } => faults.push(fault),
            }
        }
        (bodies, faults)
    }

    fn assert_cut(text: &str, bodies: &[&str], faults: &[Fault]) {
        let (found, told) = cut(text);
        assert_eq!(found, bodies, "{text:?}");
        assert_eq!(told, faults, "{text:?}");
    }

    #[test]
    fn both_framings_are_recognised() {
        assert_cut("{\"a\":1}\n[2]\n", &["{\"a\":1}", "[2]"], &[]);
        assert_cut("Content-Length: 2\r\n\r\n{}content-length:2\n\n[]", &["{}", "[]"], &[]);
        assert_cut("\r\n\n  \nContent-Length: 2\r\n\r\n{}", &["{}"], &[]);
        assert_cut("\u{feff}Content-Length: 2\r\n\r\n{}", &["{}"], &[Fault::ByteOrderMark]);
        assert_cut("\u{feff}{}\n", &["{}"], &[Fault::ByteOrderMark]);
        assert_cut("X-First: 1\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\n{}", &["{}"], &[]);
    }

    #[test]
    fn the_framing_can_be_asked_for() {
        let of = |text: &str| {
            let mut sniff = Sniff::default();
            sniff.feed(text.as_bytes(), &mut |_| {});
            sniff.framing()
        };
        assert_eq!(of("hello\n"), None);
        assert_eq!(of("{\"a"), Some(Framing::Lines));
        assert_eq!(of("hello\nContent-Length: 5\r\n"), Some(Framing::ContentLength));
    }

    #[test]
    fn stray_lines_come_before_either() {
        assert_cut(
            "Listening: yes\nINFO: a\n\nready to go\nContent-Length: 2\r\n\r\n{}",
            &["Listening: yes", "INFO: a", "ready to go", "{}"],
            &[],
        );
        assert_cut("INFO: a\n{}\nConnected\n{}\n", &["INFO: a", "{}", "Connected", "{}"], &[]);
        assert_cut("Content-Length is fun\n{}\n", &["Content-Length is fun", "{}"], &[]);
        assert_cut("C", &["C"], &[Fault::NoFinalNewline]);
    }

    #[test]
    fn a_stream_may_change_its_mind() {
        assert_cut("{\"level\":\"info\"}\nContent-Length: 2\r\n\r\n{}", &["{\"level\":\"info\"}", "{}"], &[]);
        // A line of text that looked like a header: one frame is lost to it, then the lines go on.
        assert_cut(
            "{}\nContent-Length: 12\n{\"a\":1}\n{\"b\":2}\n",
            &["{}", "{\"b\":2}"],
            &[Fault::BadHeader, Fault::Garbage],
        );
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut sniff = Sniff::default();
        let mut told = 0;
        for _ in 0..10_000 {
            sniff.feed(b"Name: value\n", &mut |_| told += 1);
            assert!(sniff.held.len() <= LONGEST_SNIFF_BYTES);
        }
        assert!(told > 10_000);
    }
}
