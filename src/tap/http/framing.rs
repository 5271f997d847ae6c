//! Where the body of a message ends, and what of it is data.
//!
//! Comes in: the bytes behind a head, in any pieces. Goes out: how many of them belong to the body, what is to be passed
//! on for them, and the data in them. A chunked body passes with its chunks as they were cut; only trailers that could
//! change what the message means are taken out. Strict, where two readers could differ: whatever is not framed exactly
//! as it should be ends the connection.

use std::io::Write as _;

use super::fields;
use crate::wire::http_head::chunk_size;

/// A chunk's size and its extensions.
const LONGEST_CHUNK_LINE_BYTES: usize = 4 * 1024;
const LONGEST_TRAILERS_BYTES: usize = 16 * 1024;
const MOST_TRAILERS: usize = 64;

/// How the end of a body is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing more comes.
    Whole,
    /// So many bytes are still to come.
    Known(u64),
    Chunked(Chunks),
    /// It ends with the connection.
    UntilClose,
}

/// In which form a body goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    AsItCame,
    /// Without chunks, for a client that knows none.
    Bare,
    /// In chunks, although it came without.
    Chunks,
}

/// What a piece of a body was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fed<'a> {
    /// So many bytes belonged to it.
    pub(super) taken: usize,
    pub(super) data: &'a [u8],
    /// The fields behind the body, as they stood, with the empty line. Mostly empty.
    pub(super) trailers: Vec<u8>,
    /// What is wrong behind that.
    pub(super) fault: Option<&'static str>,
}

impl Body {
    pub(super) fn chunked() -> Body {
        Body::Chunked(Chunks { step: Step::Line, held: Vec::new() })
    }

    pub(super) fn is_whole(&self) -> bool {
        *self == Body::Whole
    }

    /// Takes what of `bytes` belongs to the body. What is to be passed on is appended to `out`; `gathered` is a place
    /// for data that came in several pieces.
    pub(super) fn feed<'a>(
        &mut self,
        bytes: &'a [u8],
        form: Form,
        out: &mut Vec<u8>,
        gathered: &'a mut Vec<u8>,
    ) -> Fed<'a> {
        let data = match self {
            Body::Whole => &bytes[..0],
            Body::UntilClose => bytes,
            Body::Known(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                if *left == 0 {
                    *self = Body::Whole;
                }
                &bytes[..taken]
            }
            Body::Chunked(chunks) => {
                gathered.clear();
                let begin = out.len();
                let (taken, trailers, fault) = chunks.feed(bytes, out, gathered);
                if chunks.step == Step::Whole {
                    *self = Body::Whole;
                }
                if form == Form::Bare {
                    out.truncate(begin);
                    out.extend_from_slice(gathered);
                }
                return Fed { taken, data: gathered, trailers, fault };
            }
        };
        if form == Form::Chunks && !data.is_empty() {
            let _ = write!(out, "{:x}\r\n", data.len());
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(data);
        }
        Fed { taken: data.len(), data, trailers: Vec::new(), fault: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunks {
    step: Step,
    /// The beginning of a line, or the trailers so far.
    held: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// In the line with a chunk's size.
    Line,
    /// So much of the chunk is still to come, its line end counted.
    Chunk(u64),
    Trailers,
    Whole,
}

impl Chunks {
    /// Gives how much was taken, the trailers when they are whole, and what is wrong with what was not taken.
    fn feed(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        gathered: &mut Vec<u8>,
    ) -> (usize, Vec<u8>, Option<&'static str>) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let taken = match self.step {
                Step::Whole => break,
                Step::Line => self.line(rest),
                Step::Chunk(left) => self.chunk(left, rest, gathered),
                Step::Trailers => {
                    out.extend_from_slice(&bytes[..at]);
                    return match self.trailers(rest, out) {
                        Ok((taken, trailers)) => (at + taken, trailers, None),
                        Err(why) => (at, Vec::new(), Some(why)),
                    };
                }
            };
            match taken {
                Ok(taken) => at += taken,
                Err(why) => {
                    out.extend_from_slice(&bytes[..at]);
                    return (at, Vec::new(), Some(why));
                }
            }
        }
        out.extend_from_slice(&bytes[..at]);
        (at, Vec::new(), None)
    }

    /// Reads on in the line with a chunk's size.
    fn line(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.hold(bytes, LONGEST_CHUNK_LINE_BYTES)?;
            return Ok(bytes.len());
        };
        let size = if self.held.is_empty() {
            size_of_chunk(&bytes[..=end])
        } else {
            self.hold(&bytes[..=end], LONGEST_CHUNK_LINE_BYTES)?;
            let size = size_of_chunk(&self.held);
            self.held.clear();
            size
        };
        self.step = match size.ok_or("a line that should hold the size of a chunk does not")? {
            0 => Step::Trailers,
            size => Step::Chunk(size.saturating_add(2)),
        };
        Ok(end + 1)
    }

    /// Reads on in a chunk. The last two bytes are the line end behind the data.
    fn chunk(&mut self, mut left: u64, bytes: &[u8], gathered: &mut Vec<u8>) -> Result<usize, &'static str> {
        let mut at = bytes.len().min(usize::try_from(left.saturating_sub(2)).unwrap_or(usize::MAX));
        gathered.extend_from_slice(&bytes[..at]);
        left -= at as u64;
        while left > 0 && left <= 2 && at < bytes.len() {
            if bytes[at] != if left == 2 { b'\r' } else { b'\n' } {
                return Err("a chunk is longer than it says");
            }
            at += 1;
            left -= 1;
        }
        self.step = if left == 0 { Step::Line } else { Step::Chunk(left) };
        Ok(at)
    }

    fn hold(&mut self, bytes: &[u8], limit: usize) -> Result<(), &'static str> {
        if self.held.len() + bytes.len() > limit {
            return Err("a line of a chunked body is too long");
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Holds trailers until they are whole, then passes on what may pass.
    fn trailers(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, Vec<u8>), &'static str> {
        self.step = Step::Trailers;
        let mut at = 0;
        while at < bytes.len() {
            let line = memchr::memchr(b'\n', &bytes[at..]).map_or(&bytes[at..], |end| &bytes[at..=at + end]);
            self.hold(line, LONGEST_TRAILERS_BYTES)?;
            at += line.len();
            if !line.ends_with(b"\n") {
                break;
            }
            let before = &self.held[..self.held.len() - 1];
            match &self.held[memchr::memrchr(b'\n', before).map_or(0, |end| end + 1)..] {
                b"\n" => return Err("the fields behind a chunked body cannot be read"),
                b"\r\n" => {
                    self.step = Step::Whole;
                    let held = std::mem::take(&mut self.held);
                    pass_trailers(&held, out)?;
                    return Ok((at, if held.len() > 2 { held } else { Vec::new() }));
                }
                _ => {}
            }
        }
        Ok((at, Vec::new()))
    }
}

/// The size of a chunk, from a line that nobody could read in another way.
fn size_of_chunk(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r\n")?;
    let harmless = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    chunk_size(line).filter(|_| line.iter().all(harmless))
}

/// The fields of a trailer section that ends in an empty line.
pub(super) fn read_trailers<T>(
    section: &[u8],
    read: impl FnOnce(&[httparse::Header<'_>]) -> T,
) -> Result<T, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    match httparse::parse_headers(section, &mut fields) {
        Ok(httparse::Status::Complete((_, fields))) => Ok(read(fields)),
        _ => Err("the fields behind a chunked body cannot be read"),
    }
}

fn pass_trailers(section: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    read_trailers(section, |trailers| {
        for field in trailers.iter().filter(|field| fields::may_trail(field.name)) {
            fields::write(field, section, out);
        }
        out.extend_from_slice(b"\r\n");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data, what was passed on and what was left, for the bytes in one piece; checks that single bytes give the same.
    fn read(mut body: Body, text: &str, form: Form) -> Result<(String, String, String), &'static str> {
        let (mut out, mut data, mut gathered) = (Vec::new(), Vec::new(), Vec::new());
        let mut again = body.clone();
        let fed = body.feed(text.as_bytes(), form, &mut out, &mut gathered);
        data.extend_from_slice(fed.data);
        let fed = fed.fault.map_or(Ok(fed.taken), Err);
        let (mut out_single, mut data_single, mut taken) = (Vec::new(), Vec::new(), 0);
        for byte in text.as_bytes().chunks(1) {
            let single = again.feed(byte, form, &mut out_single, &mut gathered);
            data_single.extend_from_slice(single.data);
            taken += single.taken;
            if let Some(why) = single.fault {
                assert_eq!(fed, Err(why), "{text:?}");
                return Err(why);
            }
        }
        assert_eq!(fed, Ok(taken), "{text:?}");
        assert_eq!(body.is_whole(), again.is_whole(), "{text:?}");
        assert_eq!(data, data_single, "{text:?}");
        if form != Form::Chunks {
            assert_eq!(out, out_single, "{text:?}");
        }
        let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ok((text_of(data), text_of(out), text[taken..].to_string()))
    }

    fn parts(data: &str, out: &str, left: &str) -> Result<(String, String, String), &'static str> {
        Ok((data.to_string(), out.to_string(), left.to_string()))
    }

    #[test]
    fn chunks_pass_as_they_were_cut() {
        let body = "5;x=\"1\"\r\nhello\r\n00C\r\n, wide\nworld\r\n0\r\n\r\n";
        assert_eq!(
            read(Body::chunked(), &format!("{body}GET /"), Form::AsItCame),
            parts("hello, wide\nworld", body, "GET /")
        );
        assert_eq!(read(Body::chunked(), body, Form::Bare), parts("hello, wide\nworld", "hello, wide\nworld", ""));
    }

    #[test]
    fn trailers_pass_but_for_those_that_say_where_a_message_ends() {
        let body = "1\r\na\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\nX-B:c\r\n\r\n";
        let passed = "1\r\na\r\n0\r\nX-Sum: 7\r\nX-B:c\r\n\r\n";
        assert_eq!(read(Body::chunked(), &format!("{body}rest"), Form::AsItCame), parts("a", passed, "rest"));
        let mut gathered = Vec::new();
        let mut whole = Body::chunked();
        let fed = whole.feed(body.as_bytes(), Form::AsItCame, &mut Vec::new(), &mut gathered);
        assert!(fed.trailers.starts_with(b"X-Sum") && fed.trailers.ends_with(b"\r\n\r\n"));
    }

    #[test]
    fn what_two_readers_could_take_differently_is_an_error() {
        for wrong in [
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhelloX\r\n",
            "+5\r\nhello\r\n",
            "0x5\r\nhello\r\n",
            " 5\r\nhello\r\n",
            "5 x\r\nhello\r\n",
            "\r\n",
            "11111111111111111\r\n",
            "5;a\rb\r\nhello\r\n",
            "0\r\nno field\r\n\r\n",
            "0\r\n Folded: 1\r\n\r\n",
            "0\r\n\n",
        ] {
            assert!(read(Body::chunked(), wrong, Form::AsItCame).is_err(), "{wrong:?}");
        }
        let endless = format!("5;{}", "x".repeat(LONGEST_CHUNK_LINE_BYTES));
        assert!(read(Body::chunked(), &endless, Form::AsItCame).is_err());
    }

    #[test]
    fn what_is_sound_before_that_passes() {
        let (mut out, mut gathered) = (Vec::new(), Vec::new());
        let mut body = Body::chunked();
        let fed = body.feed(b"2\r\nab\r\n3\r\ncde\r\nx\r\n", Form::AsItCame, &mut out, &mut gathered);
        assert_eq!((fed.data, fed.taken, fed.fault.is_some()), (&b"abcde"[..], 15, true));
        assert_eq!(out, b"2\r\nab\r\n3\r\ncde\r\n");
    }

    #[test]
    fn bodies_of_known_length_and_without_end() {
        assert_eq!(read(Body::Known(3), "abcd", Form::AsItCame), parts("abc", "abc", "d"));
        assert_eq!(read(Body::UntilClose, "abcd", Form::Bare), parts("abcd", "abcd", ""));
        assert_eq!(
            read(Body::UntilClose, "abcdefghijkl", Form::Chunks),
            parts("abcdefghijkl", "c\r\nabcdefghijkl\r\n", "")
        );
        assert_eq!(read(Body::Whole, "abcd", Form::AsItCame), parts("", "", "abcd"));
    }
}
