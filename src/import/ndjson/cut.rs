//! Lines cut and unescaped on a thread of their own, in batches.
//!
//! Comes in: the log. Goes out: for each line, in order, its time, its sender and the bytes it holds; or the line
//! itself where it is not of the usual form. Reading messages out of the bytes is as much work again, so that
//! two cores share it. What is held is bounded: a batch that has become long must come back before the next begins.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::error::{Doing, Result};
use crate::event::{Micros, Side};
use crate::import::json::Plain;
use crate::import::lines::{Line, Lines};
use crate::import::{Input, time};

/// Fits the cache of a core beside what else is at work there.
const BATCH_BYTES: usize = 256 * 1024;
const BATCHES_AHEAD: usize = 3;
/// Beyond this a batch waits for those before it, and its room is not kept.
const LONG_BATCH_BYTES: usize = 4 * BATCH_BYTES;

/// Some lines, one behind the other.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Plain,
    cuts: Vec<Cut>,
}

/// What lies in a batch up to `end`.
struct Cut {
    end: usize,
    what: Of,
}

enum Of {
    Usual { at: Micros, from: Side },
    Line { number: u64, left_out: u64, offset: u64 },
}

/// One line.
pub(super) enum Piece<'a> {
    /// Traffic: the bytes that its `raw` stands for.
    Usual { at: Micros, from: Side, bytes: &'a [u8] },
    /// Any other.
    Other(Line<'a>),
}

impl Batch {
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut start = 0;
        self.cuts.iter().map(move |cut| {
            let bytes = &self.bytes.as_bytes()[start..cut.end];
            start = cut.end;
            match cut.what {
                Of::Usual { at, from } => Piece::Usual { at, from, bytes },
                Of::Line { number, left_out, offset } => Piece::Other(Line { number, text: bytes, left_out, offset }),
            }
        })
    }

    fn add(&mut self, line: Line<'_>) {
        let usual = if line.left_out == 0 { add_usual(line.text, &mut self.bytes) } else { None };
        let what = match usual {
            Some((at, from)) => Of::Usual { at, from },
            None => {
                self.bytes.add_plain(line.text);
                Of::Line { number: line.number, left_out: line.left_out, offset: line.offset }
            }
        };
        self.cuts.push(Cut { end: self.len(), what });
    }

    fn len(&self) -> usize {
        self.bytes.as_bytes().len()
    }

    /// Room for others.
    fn emptied(mut self) -> Batch {
        if self.len() > LONG_BATCH_BYTES {
            return Batch::default();
        }
        self.bytes.clear();
        self.cuts.clear();
        self
    }
}

/// The thread, seen by who takes the batches.
pub(super) struct Cutting {
    batches: Receiver<Batch>,
    spent: SyncSender<Batch>,
}

impl Cutting {
    pub fn start(input: Input) -> Result<Cutting> {
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        let (spent, back) = sync_channel(BATCHES_AHEAD + 2);
        let lines = Lines::new(input.read_aside());
        // It ends with the log, or when nobody takes its batches any more.
        thread::Builder::new()
            .name("cut".to_string())
            .spawn(move || cut_all(lines, &sender, &back))
            .doing("starting a thread to cut lines")?;
        Ok(Cutting { batches, spent })
    }

    pub fn next(&mut self) -> Option<Batch> {
        self.batches.recv().ok()
    }

    pub fn give_back(&mut self, batch: Batch) {
        let _ = self.spent.send(batch.emptied());
    }
}

fn cut_all(mut lines: Lines<Input>, batches: &SyncSender<Batch>, back: &Receiver<Batch>) -> Option<()> {
    let mut batch = Batch::default();
    let mut away = 0;
    loop {
        let line = lines.next_line();
        let ended = line.is_none();
        if let Some(line) = line {
            batch.add(line);
        }
        if batch.len() < BATCH_BYTES && batch.cuts.len() < BATCH_BYTES / 64 && !ended {
            continue;
        }
        let is_long = batch.len() > LONG_BATCH_BYTES;
        batches.send(std::mem::take(&mut batch)).ok()?;
        if ended {
            return Some(());
        }
        away += 1;
        while away > BATCHES_AHEAD || (is_long && away > 0) {
            batch = back.recv().ok()?;
            away -= 1;
        }
    }
}

/// The one form nearly all lines have, `{"ts": 1.5, "dir": "c2s", "raw": "…"}`, with blanks or without: its `raw` goes behind
/// the others. `None` for any other line, and nothing is added.
#[inline]
fn add_usual(line: &[u8], plain: &mut Plain) -> Option<(Micros, Side)> {
    let rest = line.strip_prefix(b"{\"ts\":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    // Nearly always seconds with six decimals. What has a comma before that is no number, and a line of another form.
    let comma = match rest.get(17) {
        Some(b',') => 17,
        _ => rest.iter().take(24).position(|byte| *byte == b',')?,
    };
    let at = time::from_number(&rest[..comma])?;
    let rest = &rest[comma + 1..];
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"dir\":")?;
    let (dir, rest) = rest.strip_prefix(b" ").unwrap_or(rest).split_first_chunk::<6>()?;
    let from = match dir {
        b"\"c2s\"," => Side::Client,
        b"\"s2c\"," => Side::Server,
        _ => return None,
    };
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"raw\":")?;
    let text = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"")?;
    let before = plain.as_bytes().len();
    let end = plain.add(text, 0)?;
    if &text[end..] != b"}" {
        plain.truncate(before);
        return None;
    }
    Some((at, from))
}
