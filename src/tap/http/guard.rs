//! Watches the raw bytes of a client's connection on their way to hyper.
//!
//! Three things are lost once hyper has read a request: that its framing was ambiguous (it silently prefers
//! Transfer-Encoding and folds equal lengths into one, where the next server may choose otherwise: request
//! smuggling), that its body came at once although it asked whether it may, and whether a client went away in order
//! or was torn off. Comes in: bytes as read. Goes out: the number of the first request that must be refused and why,
//! of the last one that did not wait, and how reading ended. Changes no byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pulse::Pulse;

/// A head longer than this is hyper's to refuse; we stop looking.
const LONGEST_HEAD_BYTES: usize = 256 * 1024;

const NEVER: u64 = u64::MAX;

/// Why the framing of a request is refused.
const REASONS: [&str; 2] = [
    "the request says in two ways how long it is",
    "the request has a transfer coding that this proxy does not pass on",
];
const TWO_LENGTHS: u8 = 0;
const STRANGE_CODING: u8 = 1;

/// What is known of a client's connection from below hyper.
pub(super) struct Ground {
    /// The number (from 0) of the first request that must be refused for its framing.
    refused: AtomicU64,
    /// Why, as the place of a reason in [`REASONS`].
    reason: AtomicU8,
    /// The number of the last request that asked whether its body may come, and did not wait for the answer.
    eager: AtomicU64,
    ended: AtomicU8,
    pub(super) pulse: Pulse,
}

/// How a connection's reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    NotYet,
    Eof,
    Torn,
}

impl Ground {
    pub(super) fn new(pulse: Pulse) -> Ground {
        Ground {
            refused: AtomicU64::new(NEVER),
            reason: AtomicU8::new(TWO_LENGTHS),
            eager: AtomicU64::new(NEVER),
            ended: AtomicU8::new(0),
            pulse,
        }
    }

    /// Why this request must go no further, if it must not.
    pub(super) fn refuses(&self, request: u64) -> Option<&'static str> {
        let refused = self.refused.load(Ordering::Relaxed) <= request;
        refused.then(|| REASONS[usize::from(self.reason.load(Ordering::Relaxed))])
    }

    /// Whether the body of a request that expects `100 Continue` has begun to come without it.
    pub(super) fn is_eager(&self, request: u64) -> bool {
        self.eager.load(Ordering::Relaxed) == request
    }

    pub(super) fn ended(&self) -> Ended {
        match self.ended.load(Ordering::Relaxed) {
            0 => Ended::NotYet,
            1 => Ended::Eof,
            _ => Ended::Torn,
        }
    }
}

/// A stream that tells [`Ground`] what passes.
pub(super) struct Watched<I> {
    inner: I,
    framing: Framing,
    ground: Arc<Ground>,
}

impl<I> Watched<I> {
    pub(super) fn new(inner: I, ground: Arc<Ground>) -> Watched<I> {
        Watched { inner, framing: Framing::default(), ground }
    }

    fn torn<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.ground.ended.store(2, Ordering::Relaxed);
        }
        result
    }

    fn written(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.ground.pulse.writes(result.is_ready());
        Poll::Ready(self.torn(ready!(result)))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let room = buf.remaining();
        let result = ready!(Pin::new(&mut self.inner).poll_read(context, buf));
        self.torn(result)?;
        let this = &mut *self;
        let read = &buf.filled()[before..];
        if read.is_empty() {
            if room > 0 {
                this.ground.ended.store(1, Ordering::Relaxed);
            }
        } else {
            if let Some((number, reason)) = this.framing.feed(read) {
                this.ground.reason.store(reason, Ordering::Relaxed);
                this.ground.refused.fetch_min(number, Ordering::Relaxed);
            }
            if let Some(number) = this.framing.eager.take() {
                this.ground.eager.store(number, Ordering::Relaxed);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, buf);
        self.written(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, bufs);
        self.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// Where in the stream of requests we are.
#[derive(Debug)]
enum Place {
    Head,
    /// Bytes of the body still to come.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    Trailer,
    /// Upgraded, or not to be followed any more.
    Open,
}

/// Follows the framing of requests, just well enough to find each head.
#[derive(Debug)]
struct Framing {
    place: Place,
    /// The beginning of a head or a line that came in pieces.
    held: Vec<u8>,
    requests: u64,
    /// A request that expects `100 Continue` and whose body came with its head.
    eager: Option<u64>,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing { place: Place::Head, held: Vec::new(), requests: 0, eager: None }
    }
}

impl Framing {
    /// Takes the next bytes; gives the number of a request to be refused whose head ended in them, and why. Nothing is
    /// followed behind it.
    fn feed(&mut self, mut bytes: &[u8]) -> Option<(u64, u8)> {
        while !bytes.is_empty() {
            match &mut self.place {
                Place::Open => return None,
                Place::Body(left) | Place::Chunk(left) => {
                    let here = (bytes.len() as u64).min(*left);
                    *left -= here;
                    bytes = &bytes[here as usize..];
                    if *left == 0 {
                        self.place = match self.place {
                            Place::Chunk(_) => Place::ChunkSize,
                            _ => Place::Head,
                        };
                    }
                }
                Place::Head => {
                    let (head, rest) = self.upto(bytes, end_of_head)?;
                    bytes = rest;
                    let number = self.requests;
                    self.requests += 1;
                    let seen = judge(&head);
                    self.place = seen.place;
                    if let Some(reason) = seen.refused {
                        self.place = Place::Open;
                        return Some((number, reason));
                    }
                    if seen.expects && !bytes.is_empty() {
                        self.eager = Some(number);
                    }
                }
                Place::ChunkSize => {
                    let (line, rest) = self.upto(bytes, end_of_line)?;
                    bytes = rest;
                    let digits = line.split(|byte| !byte.is_ascii_hexdigit()).next().unwrap_or_default();
                    let size = std::str::from_utf8(digits).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
                    self.place = match size {
                        // The line end behind the chunk counts as part of it.
                        Some(size) if size > 0 => Place::Chunk(size.saturating_add(2)),
                        Some(_) => Place::Trailer,
                        None => Place::Open,
                    };
                }
                Place::Trailer => {
                    let (line, rest) = self.upto(bytes, end_of_line)?;
                    bytes = rest;
                    if line.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
                        self.place = Place::Head;
                    }
                }
            }
        }
        None
    }

    /// Cuts off what ends where `end` says, also when it began in earlier bytes.
    fn upto<'a>(
        &mut self,
        bytes: &'a [u8],
        end: fn(&[u8]) -> Option<usize>,
    ) -> Option<(std::borrow::Cow<'a, [u8]>, &'a [u8])> {
        if self.held.is_empty() {
            if let Some(at) = end(bytes) {
                return Some((bytes[..at].into(), &bytes[at..]));
            }
            self.held.extend_from_slice(bytes);
        } else {
            let known = self.held.len();
            self.held.extend_from_slice(bytes);
            if let Some(at) = end(&self.held) {
                let rest = &bytes[at - known..];
                self.held.truncate(at);
                return Some((std::mem::take(&mut self.held).into(), rest));
            }
        }
        if self.held.len() > LONGEST_HEAD_BYTES {
            self.place = Place::Open;
            self.held = Vec::new();
        }
        None
    }
}

fn end_of_line(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes).map(|at| at + 1)
}

/// Behind the empty line that ends a head; empty lines before the request line belong to it.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let mut at = begin;
    while let Some(found) = memchr::memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

struct Seen {
    refused: Option<u8>,
    expects: bool,
    place: Place,
}

fn judge(head: &[u8]) -> Seen {
    let mut lengths = 0u32;
    let mut codings = 0u32;
    let mut strange_coding = false;
    let mut length = 0u64;
    let mut upgrades = false;
    let mut expects = false;
    let mut rest = head;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        rest = &rest[end + 1..];
        // Only lines that can be one of the four, told by their first letter.
        let Some(b'c' | b'C' | b't' | b'T' | b'u' | b'U' | b'e' | b'E') = rest.first() else { continue };
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let name = line[..colon].trim_ascii();
        let value = line[colon + 1..].trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths += 1;
            length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            codings += 1;
            strange_coding |= !value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            upgrades |= value.eq_ignore_ascii_case(b"websocket");
        } else if name.eq_ignore_ascii_case(b"expect") {
            expects = true;
        }
    }
    let refused = if lengths + codings > 1 { Some(TWO_LENGTHS) } else { strange_coding.then_some(STRANGE_CODING) };
    Seen {
        refused,
        expects,
        place: if upgrades {
            Place::Open
        } else if codings > 0 {
            Place::ChunkSize
        } else if length > 0 {
            Place::Body(length)
        } else {
            Place::Head
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first request to be refused, for the bytes in one piece and in pieces of one byte.
    fn found(text: &str) -> Option<u64> {
        refused(text).map(|(number, _)| number)
    }

    fn refused(text: &str) -> Option<(u64, u8)> {
        let whole = Framing::default().feed(text.as_bytes());
        let mut framing = Framing::default();
        let mut single = None;
        for byte in text.as_bytes() {
            single = single.or(framing.feed(&[*byte]));
        }
        assert_eq!(whole, single, "{text:?}");
        whole
    }

    #[test]
    fn ambiguous_framing_is_found_wherever_it_stands() {
        assert_eq!(found("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(0));
        assert_eq!(found("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 3\r\n\r\n"), Some(0));
        assert_eq!(found("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), Some(0));
        assert_eq!(found("POST / HTTP/1.1\nContent-Length: 3\nTransfer-Encoding: chunked\n\n"), Some(0));
        let coded = "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
        assert_eq!(refused(coded), Some((0, STRANGE_CODING)));
        assert_eq!(refused(&coded.replace("gzip, ", "")), None);
        assert_eq!(found("POST / HTTP/1.1\r\nContent-Length: 3\r\nHost: a\r\n\r\nabc"), None);
    }

    #[test]
    fn later_requests_are_found_behind_bodies_of_all_kinds() {
        let bad = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        // Inside a body, the same text is only text.
        let body = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{bad}", bad.len());
        assert_eq!(found(&body), None);
        assert_eq!(found(&format!("{body}GET / HTTP/1.1\r\n\r\n{bad}")), Some(2));
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\nTrailer: a\r\n\r\n";
        assert_eq!(found(&format!("{chunked}\r\n{bad}")), Some(1));
    }

    #[test]
    fn a_body_that_does_not_wait_is_seen() {
        let head = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        let mut framing = Framing::default();
        framing.feed(b"GET / HTTP/1.1\r\n\r\n");
        framing.feed(format!("{head}hi").as_bytes());
        assert_eq!(framing.eager.take(), Some(1));
        framing.feed(head.as_bytes());
        framing.feed(b"hi");
        assert_eq!(framing.eager, None);
    }

    #[test]
    fn an_endless_head_is_let_go() {
        let mut framing = Framing::default();
        for _ in 0..LONGEST_HEAD_BYTES {
            assert_eq!(framing.feed(b"aaaa"), None);
        }
        assert!(framing.held.len() <= LONGEST_HEAD_BYTES + 4);
    }
}
