//! HTTP/1.1: the messages of one direction of a connection, read from a copy of its bytes.
//!
//! Comes in: the bytes that one side sent, in any pieces, also with holes. Goes out: [`Told`]: the head of each
//! message, its body in parts and without transfer coding, its end. What is broken or could be read in two ways
//! is told as a [`Fault`]; where the place in the stream is lost, the next line that begins a message is looked
//! for. Held in memory: one head, one chunk line or the trailers, each up to a limit.

use std::collections::VecDeque;

use memchr::memchr;

pub use super::http_fault::Fault;
use super::http_head::{self, Head, Length, Start};

/// Servers refuse heads of 8 to 64 KiB.
pub const LONGEST_HEAD_BYTES: usize = 64 * 1024;
/// A chunk's size and its extensions.
pub const LONGEST_CHUNK_LINE_BYTES: usize = 4 * 1024;
/// Requests whose responses are awaited: pipelining deeper than this is not seen.
const MOST_AWAITED: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told<'a> {
    /// The head of a message. After a 1xx head other than 101 the head of the response proper follows.
    Head(&'a Head),
    /// A further part of the body, without its transfer coding.
    Body(&'a [u8]),
    /// The fields behind a chunked body.
    Trailers(&'a [(String, String)]),
    /// The message is over. It is not whole if the connection ended, or bytes are missing, within it.
    End {
        whole: bool,
    },
    /// The connection has changed its protocol: all that follows is told as `Raw`.
    Upgraded,
    Raw(&'a [u8]),
    Fault(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// A body of known length.
    Body {
        left: u64,
    },
    /// A body that lasts as long as the connection.
    UntilClose,
    ChunkLine,
    Chunk {
        left: u64,
    },
    /// The line end behind a chunk.
    ChunkEnd,
    Trailers,
    /// Somewhere in a chunked body: looking for the line with a chunk's size.
    LostChunk,
    Raw,
    /// Looking for a line that begins a message.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Client,
    Server,
}

pub struct Http1 {
    sender: Sender,
    state: State,
    held: Vec<u8>,
    /// Where in the held head the line being read begins.
    line_from: usize,
    /// Some of the current body is missing.
    torn: bool,
    awaited: VecDeque<Asked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Head,
    Connect,
    Other,
}

impl Http1 {
    /// Reads what the client sends.
    pub fn requests() -> Http1 {
        Http1::of(Sender::Client)
    }

    /// Reads what the server sends. [`Http1::asked`] must be told of each request first.
    pub fn responses() -> Http1 {
        Http1::of(Sender::Server)
    }

    fn of(sender: Sender) -> Http1 {
        Http1 { sender, state: State::Head, held: Vec::new(), line_from: 0, torn: false, awaited: VecDeque::new() }
    }

    /// A request went the other way: whether its response has a body hangs on its method.
    pub fn asked(&mut self, method: &str) {
        if self.awaited.len() < MOST_AWAITED {
            self.awaited.push_back(match method {
                "HEAD" => Asked::Head,
                "CONNECT" => Asked::Connect,
                _ => Asked::Other,
            });
        }
    }

    /// The other side agreed to change the protocol: what follows is told as it comes.
    pub fn upgrade(&mut self, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        if self.state != State::Raw {
            self.state = State::Raw;
            tell(Told::Upgraded);
            let held = std::mem::take(&mut self.held);
            if !held.is_empty() {
                tell(Told::Raw(&held));
            }
        }
    }

    pub fn feed(&mut self, mut bytes: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        // The rest of a lost body has no line end; a message seldom begins within a piece.
        if matches!(self.state, State::Lost | State::LostChunk) && self.begins_message(bytes) {
            self.held.clear();
        }
        while !bytes.is_empty() {
            let taken = match self.state {
                State::Head => self.read_head(bytes, tell),
                State::Body { left } => {
                    let part = first_of(bytes, left);
                    tell(Told::Body(part));
                    self.state = State::Body { left: left - part.len() as u64 };
                    if part.len() as u64 == left {
                        self.end_message(tell);
                    }
                    part.len()
                }
                State::UntilClose => {
                    tell(Told::Body(bytes));
                    bytes.len()
                }
                State::Chunk { left } => {
                    let part = first_of(bytes, left);
                    tell(Told::Body(part));
                    let left = left - part.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk { left } };
                    part.len()
                }
                State::ChunkLine | State::ChunkEnd => self.read_chunk_line(bytes, tell),
                State::Trailers => self.read_trailers(bytes, tell),
                State::Raw => {
                    tell(Told::Raw(bytes));
                    bytes.len()
                }
                State::LostChunk => self.look_for_chunk(bytes, tell),
                State::Lost => self.look_for_head(bytes),
            };
            bytes = &bytes[taken..];
        }
    }

    /// Takes up to the end of a line, as far as the limit allows. Gives how much, and whether the line is whole.
    fn hold_line(&mut self, bytes: &[u8], limit: usize) -> (usize, bool) {
        let found = memchr(b'\n', bytes);
        let wanted = found.map_or(bytes.len(), |at| at + 1);
        let taken = wanted.min(limit.saturating_sub(self.held.len()));
        self.held.extend_from_slice(&bytes[..taken]);
        (taken, found.is_some() && taken == wanted)
    }

    fn read_head(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) -> usize {
        let (taken, whole) = self.hold_line(bytes, LONGEST_HEAD_BYTES);
        if !whole {
            if self.held.len() >= LONGEST_HEAD_BYTES {
                self.lose(Fault::HeadTooLong, tell);
            }
            return taken;
        }
        let line = &self.held[self.line_from..];
        let blank = matches!(line, b"\n" | b"\r\n");
        if self.line_from == 0 {
            if blank {
                // Line ends before a message are passed over, as servers do.
                self.held.clear();
                return taken;
            }
            if !http_head::is_start(line, self.sender == Sender::Client) {
                self.lose(Fault::BadHead, tell);
                return taken;
            }
        }
        self.line_from = self.held.len();
        if blank {
            let held = std::mem::take(&mut self.held);
            self.line_from = 0;
            match Head::read(&held) {
                Some(head) => self.begin_message(&head, tell),
                None => self.lose(Fault::BadHead, tell),
            }
        }
        taken
    }

    fn begin_message(&mut self, head: &Head, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        tell(Told::Head(head));
        self.torn = false;
        let mut length = head.length();
        if let Start::Response { status, .. } = head.start {
            if status == 101 {
                self.awaited.pop_front();
                return self.upgrade(tell);
            }
            if (100..200).contains(&status) {
                return;
            }
            let asked = self.awaited.pop_front().unwrap_or(Asked::Other);
            if asked == Asked::Connect && (200..300).contains(&status) {
                return self.upgrade(tell);
            }
            if asked == Asked::Head || status == 204 || status == 304 {
                length = Length::Known(0);
            }
        }
        if matches!(length, Length::Chunked { ambiguous: true } | Length::Unclear) {
            tell(Told::Fault(Fault::AmbiguousLength));
        }
        let is_request = self.sender == Sender::Client;
        match length {
            Length::Known(0) => self.end_message(tell),
            Length::Known(left) => self.state = State::Body { left },
            Length::Chunked { .. } => self.state = State::ChunkLine,
            Length::Absent if is_request => self.end_message(tell),
            Length::Absent => self.state = State::UntilClose,
            Length::Unclear if !is_request => self.state = State::UntilClose,
            Length::Unclear => self.give_up_message(tell),
            Length::Bad => {
                tell(Told::Fault(Fault::BadLength));
                if is_request {
                    self.give_up_message(tell);
                } else {
                    self.state = State::UntilClose;
                }
            }
        }
    }

    fn end_message(&mut self, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        tell(Told::End { whole: !self.torn });
        self.torn = false;
        self.state = State::Head;
    }

    /// Where the message ends cannot be known.
    fn give_up_message(&mut self, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        tell(Told::End { whole: false });
        self.held.clear();
        self.line_from = 0;
        self.state = State::Lost;
    }

    /// Outside of a message, or in its head.
    fn lose(&mut self, fault: Fault, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        tell(Told::Fault(fault));
        self.held.clear();
        self.line_from = 0;
        self.state = State::Lost;
    }

    fn read_chunk_line(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) -> usize {
        let (taken, whole) = self.hold_line(bytes, LONGEST_CHUNK_LINE_BYTES);
        if !whole && self.held.len() < LONGEST_CHUNK_LINE_BYTES {
            return taken;
        }
        let line = std::mem::take(&mut self.held);
        let read = match self.state {
            _ if !whole => None,
            State::ChunkEnd => matches!(&line[..], b"\r\n" | b"\n").then_some(State::ChunkLine),
            _ => http_head::chunk_size(&line).map(|size| match size {
                0 => State::Trailers,
                left => State::Chunk { left },
            }),
        };
        match read {
            Some(next) => self.state = next,
            // Behind a gap what was taken for a chunk may have been none.
            None if self.torn => self.state = State::LostChunk,
            None => {
                tell(Told::Fault(Fault::BadChunk));
                self.give_up_message(tell);
                // The line may itself begin a message.
                if whole {
                    self.look_for_head(&line);
                }
            }
        }
        taken
    }

    fn read_trailers(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) -> usize {
        let (taken, whole) = self.hold_line(bytes, LONGEST_HEAD_BYTES);
        if !whole {
            if self.held.len() >= LONGEST_HEAD_BYTES {
                tell(Told::Fault(Fault::HeadTooLong));
                self.give_up_message(tell);
            }
            return taken;
        }
        let blank = matches!(&self.held[self.line_from..], b"\n" | b"\r\n");
        self.line_from = self.held.len();
        if blank {
            let held = std::mem::take(&mut self.held);
            self.line_from = 0;
            match http_head::read_fields(&held) {
                Some(fields) if fields.is_empty() => {}
                Some(fields) => tell(Told::Trailers(&fields)),
                None => tell(Told::Fault(Fault::BadHead)),
            }
            self.end_message(tell);
        }
        taken
    }

    fn begins_message(&self, bytes: &[u8]) -> bool {
        let is_start = |line: &[u8]| http_head::is_start(line, self.sender == Sender::Client);
        let line = memchr(b'\n', bytes).map(|end| &bytes[..=end]);
        line.is_some_and(|line| is_start(line) && !is_start(&[&self.held[..], line].concat()))
    }

    /// Behind a gap in a chunked body: what lies before the next chunk is given up.
    fn look_for_chunk(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Told<'_>) + ?Sized)) -> usize {
        let (taken, whole) = self.hold_line(bytes, LONGEST_CHUNK_LINE_BYTES);
        if !whole && self.held.len() < LONGEST_CHUNK_LINE_BYTES {
            return taken;
        }
        let line = std::mem::take(&mut self.held);
        if whole && http_head::is_start(&line, self.sender == Sender::Client) {
            self.give_up_message(tell);
            self.look_for_head(&line);
        } else if whole && line.ends_with(b"\r\n") {
            match http_head::chunk_size(&line) {
                Some(0) => self.state = State::Trailers,
                Some(left) => self.state = State::Chunk { left },
                None => {}
            }
        }
        taken
    }

    fn look_for_head(&mut self, bytes: &[u8]) -> usize {
        let (taken, whole) = self.hold_line(bytes, LONGEST_HEAD_BYTES);
        if whole && http_head::is_start(&self.held, self.sender == Sender::Client) {
            self.state = State::Head;
            self.line_from = self.held.len();
        } else if whole || self.held.len() >= LONGEST_HEAD_BYTES {
            // The rest of a line that long is looked at as a line of its own, which does no harm.
            self.held.clear();
        }
        taken
    }

    /// `missing` bytes were not captured. Within a body of known length the place is known; elsewhere it is lost.
    pub fn gap(&mut self, missing: u64, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        tell(Told::Fault(Fault::Gap));
        self.torn = true;
        match self.state {
            State::Body { left } if missing < left => self.state = State::Body { left: left - missing },
            State::Body { left } if missing == left => self.end_message(tell),
            State::Chunk { left } if missing < left => self.state = State::Chunk { left: left - missing },
            State::Chunk { left } if missing == left => self.state = State::ChunkEnd,
            State::UntilClose | State::Raw => {}
            State::Lost => self.held.clear(),
            State::Chunk { .. } | State::ChunkLine | State::ChunkEnd | State::LostChunk => {
                self.held.clear();
                self.state = State::LostChunk;
            }
            State::Head => {
                self.held.clear();
                self.line_from = 0;
                self.state = State::Lost;
            }
            _ => self.give_up_message(tell),
        }
    }

    /// Whether a message has begun and not ended.
    pub fn within_message(&self) -> bool {
        match self.state {
            State::Head => !self.held.is_empty(),
            State::Lost | State::Raw => false,
            _ => true,
        }
    }

    /// The connection is over.
    pub fn finish(&mut self, tell: &mut (impl FnMut(Told<'_>) + ?Sized)) {
        match self.state {
            State::UntilClose => self.end_message(tell),
            State::Head if self.held.is_empty() => {}
            State::Head => tell(Told::Fault(Fault::CutShort)),
            State::Lost | State::Raw => {}
            _ => {
                tell(Told::Fault(Fault::CutShort));
                tell(Told::End { whole: false });
            }
        }
        self.held.clear();
        self.line_from = 0;
        self.state = State::Lost;
    }
}

fn first_of(bytes: &[u8], left: u64) -> &[u8] {
    &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))]
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
