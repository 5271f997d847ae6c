//! Bytes → lines, numbered, each at most [`MOST_LINE_BYTES`] long in memory.
//!
//! Lines end at LF; a CR before it and a byte order mark at the very start are left out. A longer line is given with
//! its beginning, and how much of it was left out.

use std::io::Read;

/// A line is held whole, and twice while it is unescaped: 16 MiB keeps that well within 100 MiB.
pub const MOST_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Big enough that splitting costs next to nothing, small enough for the cache.
const BLOCK_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Counts from 1.
    pub number: u64,
    pub text: &'a [u8],
    /// Bytes of an overlong line that are not in `text`.
    pub left_out: u64,
    /// Where the line starts in the (unpacked) file.
    pub offset: u64,
}

pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    number: u64,
    /// Where `buffer[start]` lies in the file.
    offset: u64,
    ended: bool,
    most: usize,
}

impl<R: Read> Lines<R> {
    pub fn new(input: R) -> Lines<R> {
        Lines::with_limit(input, MOST_LINE_BYTES)
    }

    pub fn with_limit(input: R, most: usize) -> Lines<R> {
        Lines { input, buffer: Vec::new(), start: 0, end: 0, number: 0, offset: 0, ended: false, most }
    }

    pub fn input(&self) -> &R {
        &self.input
    }

    /// The next line, or `None` at the end.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let mut searched = 0;
        let offset = self.offset;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                let (from, to) = (self.start, self.start + searched + found);
                self.take(to + 1 - from);
                return Some(self.line(from, to, 0, offset));
            }
            searched = self.end - self.start;
            if searched >= self.most {
                return Some(self.overlong(offset));
            }
            if self.ended {
                if searched == 0 {
                    return None;
                }
                let (from, to) = (self.start, self.end);
                self.take(searched);
                return Some(self.line(from, to, 0, offset));
            }
            self.fetch();
        }
    }

    fn take(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
    }

    fn line(&mut self, from: usize, to: usize, left_out: u64, offset: u64) -> Line<'_> {
        self.number += 1;
        let mut text = &self.buffer[from..to];
        if let [head @ .., b'\r'] = text {
            text = head;
        }
        if self.number == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        Line { number: self.number, text, left_out, offset }
    }

    /// Keeps the first bytes of a line that does not end in time, and passes over the rest.
    fn overlong(&mut self, offset: u64) -> Line<'_> {
        let kept = self.most.min(self.end - self.start);
        let head = self.buffer[self.start..self.start + kept].to_vec();
        let mut left_out = 0u64;
        self.take(kept);
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                left_out += found as u64;
                self.take(found + 1);
                break;
            }
            left_out += (self.end - self.start) as u64;
            self.take(self.end - self.start);
            if self.ended {
                break;
            }
            self.fetch();
        }
        // What follows is moved behind the kept beginning, so that the line can be lent out.
        let rest = self.end - self.start;
        let mut buffer = head;
        buffer.extend_from_slice(&self.buffer[self.start..self.end]);
        self.buffer = buffer;
        self.start = kept;
        self.end = kept + rest;
        self.line(0, kept, left_out, offset)
    }

    fn fetch(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + BLOCK_BYTES {
            let longer = (self.buffer.len() * 2).clamp(self.end + BLOCK_BYTES, self.most + 2 * BLOCK_BYTES);
            self.buffer.resize(longer.max(self.end + BLOCK_BYTES), 0);
        } else if self.buffer.len() > 8 * BLOCK_BYTES && self.end < BLOCK_BYTES {
            // One long line does not hold its memory for the rest of the file.
            self.buffer.truncate(2 * BLOCK_BYTES);
            self.buffer.shrink_to_fit();
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) | Err(_) => self.ended = true,
            Ok(len) => self.end += len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(bytes: &[u8], most: usize) -> Vec<(u64, Vec<u8>, u64, u64)> {
        let mut lines = Lines::with_limit(bytes, most);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line() {
            found.push((line.number, line.text.to_vec(), line.left_out, line.offset));
        }
        found
    }

    #[test]
    fn lines_are_numbered_and_bare() {
        let found = lines_of(b"\xef\xbb\xbfa\r\n\nbc\nd", 100);
        assert_eq!(
            found,
            [(1, b"a".to_vec(), 0, 0), (2, b"".to_vec(), 0, 6), (3, b"bc".to_vec(), 0, 7), (4, b"d".to_vec(), 0, 10)]
        );
        assert_eq!(lines_of(b"", 100), []);
    }

    #[test]
    fn a_line_without_end_keeps_its_beginning_and_the_next_is_whole() {
        let mut bytes = vec![b'x'; 3_000_000];
        bytes.extend_from_slice(b"\nnext\n");
        let found = lines_of(&bytes, 1_000);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].1.len(), found[0].2), (1_000, 2_999_000));
        assert_eq!((found[1].0, found[1].1.as_slice(), found[1].3), (2, &b"next"[..], 3_000_001));
        assert_eq!(lines_of(&vec![b'x'; 5_000], 1_000)[0].2, 4_000);
    }
}
