//! A file of framed messages → its frames, as they stand in it.

use std::collections::VecDeque;
use std::io::Read;

use crate::event::scribe::Scribe;
use crate::event::{Micros, Side};
use crate::import::{Input, Reading};
use crate::wire::{Framing, Piece, sniff::Sniff};

/// How much of a message is kept to see what it is; the rest only passes through.
const PEEK_BYTES: usize = 64 * 1024;

/// One frame with its framing, as it stood in the file.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// The beginning of its body.
    pub(super) peek: Vec<u8>,
    /// The file ends before the frame does.
    pub(super) cut: bool,
}

/// Cuts a file into frames without altering a byte. A frame past the limit is given in parts, each as it comes.
pub(super) struct Frames {
    pub(super) input: Input,
    framer: Sniff,
    block: Vec<u8>,
    held: Vec<u8>,
    /// Where `held[0]` lies in the file.
    start: u64,
    peek: Vec<u8>,
    ready: VecDeque<Frame>,
    ended: bool,
}

/// A frame longer than this is handed on before its end.
const MOST_HELD_BYTES: usize = 8 * 1024 * 1024;

impl Frames {
    pub(super) fn new(input: Input) -> Frames {
        Frames {
            input,
            framer: Sniff::default(),
            block: vec![0; 64 * 1024],
            held: Vec::new(),
            start: 0,
            peek: Vec::new(),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            let len = self.input.read(&mut self.block).unwrap_or(0);
            self.held.extend_from_slice(&self.block[..len]);
            let mut ends = Vec::new();
            let mut faulty = false;
            let peek = &mut self.peek;
            let mut tell = |piece: Piece<'_>| match piece {
                Piece::Body(part) => {
                    let room = PEEK_BYTES.saturating_sub(peek.len());
                    peek.extend_from_slice(&part[..part.len().min(room)]);
                }
                Piece::End { end, .. } => ends.push((end, std::mem::take(peek))),
                Piece::Fault { .. } => faulty = true,
            };
            if len == 0 {
                self.ended = true;
                self.framer.finish(&mut tell);
            } else {
                self.framer.feed(&self.block[..len], &mut tell);
            }
            // Without this the last frame would be called badly framed for where the file was cut.
            let cut = self.ended && faulty;
            for (end, peek) in ends {
                let len = (end.saturating_sub(self.start) as usize).min(self.held.len());
                let bytes = self.held.drain(..len).collect();
                self.start += len as u64;
                self.ready.push_back(Frame { bytes, peek, cut });
            }
            let rest = self.held.len() > MOST_HELD_BYTES || (self.ended && !self.held.is_empty());
            if rest {
                let bytes = std::mem::take(&mut self.held);
                self.start += bytes.len() as u64;
                self.ready.push_back(Frame { bytes, peek: self.peek.clone(), cut: self.ended });
            }
        }
    }
}

/// Tells a frame of which nobody but its sender is known. That a file ends is no fault of who spoke: a last line without its
/// end is given one where it is whole, and is a loss where it is not.
pub(super) fn tell(frame: &Frame, from: Side, at: Micros, scribe: &mut Scribe, reading: &mut Reading<'_>) {
    scribe.bytes(from, at, &frame.bytes, reading.sink);
    if !frame.cut {
        return;
    }
    let whole = serde_json::from_slice::<serde::de::IgnoredAny>(&frame.peek).is_ok();
    if whole && scribe.framing(from) == Some(Framing::Lines) {
        scribe.bytes(from, at, b"\n", reading.sink);
    } else {
        scribe.cut(from, at, 0, "the file ends within a message", reading.sink);
    }
}
