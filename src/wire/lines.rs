//! Lines: one frame per line, ended by LF or CRLF.
//!
//! Comes in: bytes in any pieces. Goes out: a frame per line that is not blank. A byte order mark before a line is
//! left out of its body and told; blank lines stay in the stream and give nothing. Of a line still to end nothing
//! is kept but its first bytes while they are undecided (blank? a mark?) and whether a CR is waiting for its LF.

use memchr::memchr;

use super::{Fault, Piece};

/// A line of white space longer than this is no longer taken for a blank one: what is undecided must be held.
pub const LONGEST_BLANK_LINE_BYTES: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// At which first bytes of a line [`Lines::feed_watching`] stops, for someone else to look at the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    Nothing,
    /// `C` or `c`: it may be a Content-Length header in a stream of lines.
    HeaderOfOurs,
    /// Any letter: it may be a header of any name.
    AnyHeader,
}

impl Watch {
    fn stops_at(self, byte: u8) -> bool {
        match self {
            Watch::Nothing => false,
            Watch::HeaderOfOurs => byte | 0x20 == b'c',
            Watch::AnyHeader => byte.is_ascii_alphabetic(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Lines {
    /// Offset of the next byte to come.
    at: u64,
    body_start: u64,
    /// Bytes of the current line's body told so far.
    told: u64,
    /// The undecided beginning of a line: white space, or part of a byte order mark.
    head: [u8; LONGEST_BLANK_LINE_BYTES],
    head_len: usize,
    /// The line has begun to be told.
    open: bool,
    /// A CR was seen at the end of a piece; it is body unless an LF follows.
    carriage: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Lines::starting_at(0)
    }
}

impl Lines {
    /// A framer whose first byte lies at `offset` of its stream.
    pub fn starting_at(offset: u64) -> Lines {
        Lines {
            at: offset,
            body_start: offset,
            told: 0,
            head: [0; LONGEST_BLANK_LINE_BYTES],
            head_len: 0,
            open: false,
            carriage: false,
        }
    }

    pub fn feed(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        self.feed_watching(bytes, Watch::Nothing, tell);
    }

    /// Where the next byte lies.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Feeds until a line begins with a byte that is watched for; gives how many bytes were taken.
    pub(super) fn feed_watching(
        &mut self,
        bytes: &[u8],
        watch: Watch,
        tell: &mut (impl FnMut(Piece<'_>) + ?Sized),
    ) -> usize {
        let mut from = 0;
        while from < bytes.len() {
            if !self.open && self.head_len == 0 {
                if watch.stops_at(bytes[from]) {
                    return from;
                }
                // The common case: a line that begins plainly and ends within these bytes.
                if bytes[from] > b' '
                    && bytes[from] != 0xef
                    && let Some(length) = memchr(b'\n', &bytes[from..])
                {
                    let line = &bytes[from..from + length];
                    let body = line.strip_suffix(b"\r").unwrap_or(line);
                    tell(Piece::Body(body));
                    let end = self.at + length as u64 + 1;
                    tell(Piece::End { body_start: self.at, body_len: body.len() as u64, end });
                    self.at = end;
                    self.body_start = end;
                    from += length + 1;
                    continue;
                }
            }
            from += self.feed_slowly(&bytes[from..], tell);
        }
        from
    }

    /// Takes at least one byte and at most to the end of the line.
    fn feed_slowly(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        if !self.open {
            return self.feed_head(bytes, tell);
        }
        let found = memchr(b'\n', bytes);
        let rest = &bytes[..found.unwrap_or(bytes.len())];
        if self.carriage && !rest.is_empty() {
            self.carriage = false;
            self.tell_body(b"\r", tell);
        }
        match found {
            Some(length) => {
                let body = rest.strip_suffix(b"\r").unwrap_or(rest);
                self.tell_body(body, tell);
                self.at += length as u64 + 1;
                self.end_line(tell);
                length + 1
            }
            None => {
                let body = rest.strip_suffix(b"\r").unwrap_or(rest);
                self.carriage = body.len() < rest.len();
                self.tell_body(body, tell);
                self.at += rest.len() as u64;
                rest.len()
            }
        }
    }

    /// Takes bytes into the undecided head, one by one; they are few.
    fn feed_head(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        for (taken, &byte) in bytes.iter().enumerate() {
            let marking = self.head_len > 0 && self.head[0] == BYTE_ORDER_MARK[0];
            if marking || (self.head_len == 0 && byte == BYTE_ORDER_MARK[0]) {
                if byte == BYTE_ORDER_MARK[self.head_len] {
                    self.head[self.head_len] = byte;
                    self.head_len += 1;
                    self.at += 1;
                    if self.head_len == BYTE_ORDER_MARK.len() {
                        self.head_len = 0;
                        self.body_start = self.at;
                        tell(Piece::Fault { fault: Fault::ByteOrderMark, start: self.at - 3, len: 3 });
                        return taken + 1;
                    }
                    continue;
                }
                self.open_line(tell);
                return taken;
            }
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.head_len = 0;
                    self.body_start = self.at;
                    return taken + 1;
                }
                b' ' | b'\t' | b'\r' if self.head_len < self.head.len() => {
                    self.head[self.head_len] = byte;
                    self.head_len += 1;
                    self.at += 1;
                }
                _ => {
                    self.open_line(tell);
                    return taken;
                }
            }
        }
        bytes.len()
    }

    /// The head turned out to belong to a body.
    fn open_line(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        self.open = true;
        let (head, mut length) = (self.head, self.head_len);
        self.head_len = 0;
        // The last CR may still be the line's end.
        if length > 0 && head[length - 1] == b'\r' {
            length -= 1;
            self.carriage = true;
        }
        self.tell_body(&head[..length], tell);
    }

    fn tell_body(&mut self, body: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        if !body.is_empty() {
            self.told += body.len() as u64;
            tell(Piece::Body(body));
        }
    }

    fn end_line(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        tell(Piece::End { body_start: self.body_start, body_len: self.told, end: self.at });
        self.body_start = self.at;
        self.told = 0;
        self.open = false;
        self.carriage = false;
    }

    /// The stream is over. A last line without its end is a frame all the same, and told as such.
    pub fn finish(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let broken_mark = self.head_len > 0 && self.head[0] == BYTE_ORDER_MARK[0];
        if !self.open && broken_mark {
            self.open_line(tell);
        }
        self.head_len = 0;
        if !self.open {
            self.body_start = self.at;
            return;
        }
        if self.carriage {
            self.tell_body(b"\r", tell);
        }
        tell(Piece::Fault { fault: Fault::NoFinalNewline, start: self.body_start, len: self.told });
        self.end_line(tell);
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::{self, Told};
    use super::*;

    fn cut(text: &[u8]) -> Vec<Told> {
        told::every_split::<Lines>(text)
    }

    fn frame(body: &[u8], start: u64, end: u64) -> Told {
        Told::Frame { body: body.to_vec(), start, end }
    }

    #[test]
    fn ends_of_lines_are_no_part_of_them() {
        assert_eq!(cut(b"{}\n[1]\r\n"), [frame(b"{}", 0, 3), frame(b"[1]", 3, 8)]);
        assert_eq!(cut(b"a\r\r\n"), [frame(b"a\r", 0, 4)]);
        assert_eq!(cut(b"a\rb\n"), [frame(b"a\rb", 0, 4)]);
    }

    #[test]
    fn blank_lines_give_nothing() {
        assert_eq!(cut(b"\n\r\n \t\r\n{}\n\n"), [frame(b"{}", 7, 10)]);
        assert_eq!(cut(b"  {}\n"), [frame(b"  {}", 0, 5)]);
        let mut long = vec![b' '; LONGEST_BLANK_LINE_BYTES + 9];
        long.push(b'\n');
        assert_eq!(cut(&long), [frame(&long[..long.len() - 1], 0, long.len() as u64)]);
    }

    #[test]
    fn a_mark_is_left_out_and_told() {
        let mark = |start| Told::Fault { fault: Fault::ByteOrderMark, start, len: 3 };
        assert_eq!(cut(b"\xef\xbb\xbf{}\n"), [mark(0), frame(b"{}", 3, 6)]);
        assert_eq!(cut(b"a\n\xef\xbb\xbf\n"), [frame(b"a", 0, 2), mark(2)]);
        assert_eq!(cut(b"\xef\xbbx\n"), [frame(b"\xef\xbbx", 0, 4)]);
        assert_eq!(cut(b"\xef\n"), [frame(b"\xef", 0, 2)]);
    }

    #[test]
    fn a_last_line_without_its_end_is_given_and_told() {
        let open = |start, len| Told::Fault { fault: Fault::NoFinalNewline, start, len };
        assert_eq!(cut(b"a\nbc"), [frame(b"a", 0, 2), open(2, 2), frame(b"bc", 2, 4)]);
        assert_eq!(cut(b"bc\r"), [open(0, 3), frame(b"bc\r", 0, 3)]);
        assert_eq!(cut(b"\xef"), [open(0, 1), frame(b"\xef", 0, 1)]);
        assert_eq!(cut(b"a\n  "), [frame(b"a", 0, 2)]);
    }

    #[test]
    fn nothing_inside_a_line_matters() {
        assert_eq!(cut(b"\0\xff\xfe{\n"), [frame(b"\0\xff\xfe{", 0, 5)]);
    }
}
