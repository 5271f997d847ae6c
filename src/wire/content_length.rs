//! Content-Length: a block of headers, a blank line, and a body of as many bytes as the header said.
//!
//! Comes in: bytes in any pieces. Goes out: a frame per body, and a fault for all that is none. Where the announced
//! length is wrong the framer finds its feet by a fact about JSON: the text `Content-Length: 12` followed by a raw
//! line end can stand in no JSON value, inside a string or out of it. So a header line found within a body begins
//! the next frame. Held in memory: one header block, or the few bytes of a body that may begin a header line.

use memchr::{memchr, memchr_iter, memchr2_iter};

use super::header::{self, LONGEST_TRACE_BYTES, Line, Trace};
use super::{Fault, Piece};

/// Real header blocks have some 20 to 100 bytes; peers stop reading at about as much as this.
pub const LONGEST_HEADER_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a header block or within one.
    Header,
    Body {
        announced: u64,
        taken: u64,
    },
    /// Within a line too long for a header, until it ends or a header begins.
    Skip {
        fault: Fault,
        start: u64,
    },
}

#[derive(Debug, Clone)]
pub struct ContentLength {
    state: State,
    /// Offset of the next byte to come.
    at: u64,
    block: Vec<u8>,
    block_start: u64,
    /// Where in the block the line being read begins.
    line_from: usize,
    /// What the block's Content-Length said so far; `Some(None)` is a length that makes no sense.
    length: Option<Option<u64>>,
    body_start: u64,
    told: u64,
    /// The last byte of the current or last body that is not white space.
    last_byte: u8,
    last_end: Option<u64>,
    /// The end of what came of a body (or of skipped bytes), while it may be the beginning of a header line.
    held: Vec<u8>,
    /// How many of the held bytes lie beyond the announced end of the body.
    beyond: usize,
    /// A whole line of JSON stood where a header should: this may be no Content-Length stream (any more).
    json_line: bool,
}

impl Default for ContentLength {
    fn default() -> Self {
        ContentLength::starting_at(0)
    }
}

impl ContentLength {
    /// A framer whose first byte lies at `offset` of its stream.
    pub fn starting_at(offset: u64) -> ContentLength {
        ContentLength {
            state: State::Header,
            at: offset,
            block: Vec::new(),
            block_start: offset,
            line_from: 0,
            length: None,
            body_start: offset,
            told: 0,
            last_byte: 0,
            last_end: None,
            held: Vec::new(),
            beyond: 0,
            json_line: false,
        }
    }

    pub fn feed(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        self.feed_until_json_line(bytes, false, tell);
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Whether a line of JSON stood where a header should; asking forgets it.
    pub(super) fn take_json_line(&mut self) -> bool {
        std::mem::take(&mut self.json_line)
    }

    /// Feeds all, or up to the end of a JSON line outside of any frame; gives how many bytes were taken.
    pub(super) fn feed_until_json_line(
        &mut self,
        bytes: &[u8],
        stop: bool,
        tell: &mut (impl FnMut(Piece<'_>) + ?Sized),
    ) -> usize {
        let mut from = 0;
        while from < bytes.len() {
            let rest = &bytes[from..];
            from += match self.state {
                State::Header => self.read_header(rest, tell),
                State::Body { .. } if self.held.is_empty() => self.read_body(rest, tell),
                State::Body { .. } => self.read_held(rest[0], tell),
                State::Skip { .. } => self.skip(rest, tell),
            };
            if stop && self.json_line {
                return from;
            }
        }
        from
    }

    fn read_header(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        if self.block.is_empty() {
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t')).count();
            if blank > 0 {
                self.at += blank as u64;
                return blank;
            }
            self.block_start = self.at;
            self.line_from = 0;
            self.length = None;
        }
        let found = memchr(b'\n', bytes);
        let wanted = found.map_or(bytes.len(), |at| at + 1);
        let taken = wanted.min(LONGEST_HEADER_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        self.at += taken as u64;
        if found.is_some() && taken == wanted {
            self.end_header_line(tell);
        }
        if self.block.len() >= LONGEST_HEADER_BYTES {
            self.give_up_block(tell);
        }
        taken
    }

    fn end_header_line(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        if self.line_from == 0 && self.block.starts_with(b"\xef\xbb\xbf") {
            tell(Piece::Fault { fault: Fault::ByteOrderMark, start: self.block_start, len: 3 });
            self.block.drain(..3);
            self.block_start += 3;
        }
        // Text that was printed without a line end, right before a header.
        if let Some(at) = header::length_within(&self.block[self.line_from..]) {
            let cut = self.line_from + at;
            self.tell_stray(self.block_start, cut as u64, self.block[0], tell);
            self.block.drain(..cut);
            self.block_start += cut as u64;
            self.line_from = 0;
            self.length = None;
        }
        match header::read_line(&self.block[self.line_from..]) {
            Line::Blank => {
                let length = self.length;
                let (start, len) = (self.block_start, self.block.len() as u64);
                self.block.clear();
                match length {
                    Some(Some(announced)) => self.begin_body(announced, tell),
                    // A block of nothing but a byte order mark and a line end is no header at all.
                    _ if self.line_from == 0 => {}
                    _ => tell(Piece::Fault { fault: Fault::BadHeader, start, len }),
                }
            }
            Line::Length(length) => {
                let agrees = self.length.is_none_or(|known| known == length);
                self.length = Some(if agrees { length } else { None });
                self.line_from = self.block.len();
            }
            Line::Other => self.line_from = self.block.len(),
            Line::Continued if self.line_from > 0 => self.line_from = self.block.len(),
            Line::Continued | Line::NoHeader => {
                let before = self.line_from as u64;
                if before > 0 {
                    tell(Piece::Fault { fault: Fault::BadHeader, start: self.block_start, len: before });
                }
                let line = &self.block[self.line_from..];
                self.json_line = header::looks_like_json(line);
                let (first, len) = (line[0], line.len() as u64);
                self.tell_stray(self.block_start + before, len, first, tell);
                self.block.clear();
            }
        }
    }

    /// The block has reached the limit.
    fn give_up_block(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let in_header = self.line_from > 0 || header::may_be_header(&self.block);
        let fault = if in_header { Fault::HeaderTooLong } else { self.stray_fault(self.block_start, self.block[0]) };
        let line = self.block.split_off(self.line_from);
        self.block.clear();
        self.at -= line.len() as u64;
        self.state = State::Skip { fault, start: self.block_start };
        self.feed_until_json_line(&line, false, tell);
    }

    /// Bytes outside of any frame. Right behind a body that did not look finished they are the rest of it.
    fn stray_fault(&self, start: u64, first: u8) -> Fault {
        let adjoins = self.last_end == Some(start);
        let unfinished = !matches!(self.last_byte, b'}' | b']') || matches!(first, b'}' | b']' | b',' | b':' | b'"');
        if adjoins && unfinished { Fault::WrongLength } else { Fault::Garbage }
    }

    fn tell_stray(&self, start: u64, len: u64, first: u8, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        tell(Piece::Fault { fault: self.stray_fault(start, first), start, len });
    }

    fn begin_body(&mut self, announced: u64, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        self.body_start = self.at;
        self.told = 0;
        self.last_byte = 0;
        self.beyond = 0;
        self.state = State::Body { announced, taken: 0 };
        if announced == 0 {
            self.end_body(tell);
        }
    }

    fn tell_body(&mut self, body: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        if body.is_empty() {
            return;
        }
        if let Some(last) = body.iter().rev().find(|byte| !byte.is_ascii_whitespace()) {
            self.last_byte = *last;
        }
        self.told += body.len() as u64;
        tell(Piece::Body(body));
    }

    fn end_body(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let end = self.body_start + self.told;
        tell(Piece::End { body_start: self.body_start, body_len: self.told, end });
        self.last_end = Some(end);
        self.state = State::Header;
    }

    /// A header line begins within the body: it is over, whatever was announced.
    fn end_body_early(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let looks_whole = matches!(self.last_byte, b'}' | b']');
        let fault = if looks_whole { Fault::WrongLength } else { Fault::CutShort };
        tell(Piece::Fault { fault, start: self.body_start, len: self.told });
        self.end_body(tell);
    }

    fn read_body(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        let State::Body { announced, taken } = self.state else { return 0 };
        let room = usize::try_from(announced - taken).unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(room)];
        let mut line_from = 0;
        for line_end in memchr_iter(b'\n', part) {
            let from = line_from.max((line_end + 1).saturating_sub(LONGEST_TRACE_BYTES));
            let line = &part[from..=line_end];
            let begins = memchr2_iter(b'c', b'C', line).find(|at| header::trace(&line[*at..]) == Trace::Header);
            if let Some(at) = begins {
                self.tell_body(&part[..from + at], tell);
                self.end_body_early(tell);
                self.at += (from + at) as u64;
                return from + at;
            }
            line_from = line_end + 1;
        }
        let from = line_from.max(part.len().saturating_sub(LONGEST_TRACE_BYTES));
        let tail = &part[from..];
        let hold = memchr2_iter(b'c', b'C', tail).find(|at| header::trace(&tail[*at..]) == Trace::Maybe);
        let keep = hold.map_or(part.len(), |at| from + at);
        self.tell_body(&part[..keep], tell);
        self.held.extend_from_slice(&part[keep..]);
        self.at += part.len() as u64;
        let taken = taken + part.len() as u64;
        self.state = State::Body { announced, taken };
        if taken == announced && self.held.is_empty() {
            self.end_body(tell);
        }
        part.len()
    }

    /// One more byte behind what may be the beginning of a header line.
    fn read_held(&mut self, byte: u8, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        let State::Body { announced, taken } = self.state else { return 0 };
        self.held.push(byte);
        self.at += 1;
        if taken < announced {
            self.state = State::Body { announced, taken: taken + 1 };
        } else {
            self.beyond += 1;
        }
        while !self.held.is_empty() {
            match header::trace(&self.held) {
                Trace::Maybe => return 1,
                Trace::Header => {
                    self.end_body_early(tell);
                    self.feed_again(tell);
                    return 1;
                }
                Trace::No => {
                    let own = self.held.len() - self.beyond;
                    let next = memchr2_iter(b'c', b'C', &self.held[1..]).next().map_or(own, |at| at + 1);
                    self.release(next.min(own), tell);
                    if own <= next {
                        break;
                    }
                }
            }
        }
        let State::Body { announced, taken } = self.state else { return 1 };
        if taken == announced {
            self.end_body(tell);
            self.feed_again(tell);
        }
        1
    }

    /// The first held bytes are body after all.
    fn release(&mut self, count: usize, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let body: Vec<u8> = self.held.drain(..count).collect();
        self.tell_body(&body, tell);
    }

    /// What is held belongs to what comes after the body.
    fn feed_again(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        let held = std::mem::take(&mut self.held);
        self.beyond = 0;
        self.at -= held.len() as u64;
        // A held text is shorter than its limit and holds one line at most, so this does not nest any deeper
        // than a few frames of no length.
        self.feed_until_json_line(&held, false, tell);
    }

    fn skip(&mut self, bytes: &[u8], tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) -> usize {
        let State::Skip { fault, start } = self.state else { return 0 };
        for (taken, &byte) in bytes.iter().enumerate() {
            self.at += 1;
            if !self.held.is_empty() || byte | 0x20 == b'c' {
                self.held.push(byte);
                while !self.held.is_empty() {
                    match header::trace(&self.held) {
                        Trace::Maybe => break,
                        Trace::Header => {
                            let begins = self.at - self.held.len() as u64;
                            tell(Piece::Fault { fault, start, len: begins - start });
                            self.state = State::Header;
                            self.feed_again(tell);
                            return taken + 1;
                        }
                        Trace::No => {
                            let next = memchr2_iter(b'c', b'C', &self.held[1..]).next();
                            self.held.drain(..next.map_or(self.held.len(), |at| at + 1));
                        }
                    }
                }
            }
            if byte == b'\n' {
                tell(Piece::Fault { fault, start, len: self.at - start });
                self.state = State::Header;
                return taken + 1;
            }
        }
        bytes.len()
    }

    /// The stream is over.
    pub fn finish(&mut self, tell: &mut (impl FnMut(Piece<'_>) + ?Sized)) {
        match self.state {
            State::Header if self.block.is_empty() => {}
            State::Header => {
                let (start, len) = (self.block_start, self.block.len() as u64);
                if self.line_from > 0 || (self.block.contains(&b':') && header::may_be_header(&self.block)) {
                    tell(Piece::Fault { fault: Fault::BadHeader, start, len });
                } else {
                    self.tell_stray(start, len, self.block[0], tell);
                }
                self.block.clear();
            }
            State::Body { announced, taken } => {
                self.release(self.held.len() - self.beyond, tell);
                if taken < announced {
                    tell(Piece::Fault { fault: Fault::CutShort, start: self.body_start, len: self.told });
                }
                self.end_body(tell);
                if !self.held.is_empty() {
                    self.feed_again(tell);
                    self.finish(tell);
                }
            }
            State::Skip { fault, start } => {
                tell(Piece::Fault { fault, start, len: self.at - start });
                self.held.clear();
                self.state = State::Header;
            }
        }
    }
}

#[cfg(test)]
#[path = "content_length_tests.rs"]
mod tests;
