//! What the forwarding threads hand over: raw chunks and notes, in the order they happened.
//!
//! Comes in: records (channel, kind, time, bytes), from the threads that forward. Goes out: stretches of records, taken by the one thread that owns the store. The buffer is bounded
//! in bytes; what it cannot hold spills to a [`Spool`] beside the store, and only when the disk refuses that too
//! are records counted as lost. No wake-up per record: the reader looks by itself every few milliseconds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::redact::Veil;
use super::spool::{Reading, Spool};
use super::{Micros, Sink, Stamper};

/// The buffer's bound. Twice this (one half fills while the other is written) and a load for SQLite make the
/// memory of a busy tap.
pub const TAPE_BYTES: usize = 8 * 1024 * 1024;

/// Past this the reader is woken early.
const EARLY_BYTES: usize = 2 * 1024 * 1024;

/// How long a thread with a full buffer waits for a healthy reader before it spills: about what the spill costs.
const SPILL_AFTER: Duration = Duration::from_millis(40);

/// How much of a spool is read back at once.
const READ_BACK_BYTES: usize = 4 * 1024 * 1024;

const HEAD_BYTES: usize = 24;

/// The kind of record the tape itself writes where it had to drop some: two counts and why.
const LOST: u8 = u8::MAX;

/// One thing on the tape. What kinds and channels mean is between the tap and its [`Transcriber`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: u8,
    pub channel: u64,
    pub at: Micros,
    pub bytes: &'a [u8],
}

/// Turns the records of one tap into sessions, bytes and events.
pub trait Transcriber: Send {
    fn take(&mut self, record: Record<'_>, sink: &mut dyn Sink);
    /// Records were dropped before the one that comes next.
    fn lost(&mut self, at: Micros, records: u64, bytes: u64, why: &str, sink: &mut dyn Sink);
}

/// Where a tape spills to, and what is written at the top of that file for whoever finds it.
#[derive(Debug, Clone, Default)]
pub struct Spill {
    pub path: PathBuf,
    pub header: String,
    /// Nothing unredacted may reach the disk.
    pub veiled: bool,
}

pub struct Tape {
    state: Mutex<State>,
    news: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    /// The position on the tape of the buffer's first byte.
    start: u64,
    spill: Option<Spill>,
    spool: Option<Spool>,
    /// Up to where the reader has taken the tape.
    read: u64,
    lost: Lost,
    lost_at: Micros,
    all_lost: Lost,
    closed: bool,
    /// The reader sleeps until something comes.
    parked: bool,
    /// The reader keeps up; worth waiting for.
    healthy: bool,
    off: bool,
}

/// What had to be dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lost {
    pub records: u64,
    pub bytes: u64,
    pub why: String,
}

/// A stretch of the tape, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub start: u64,
    pub end: u64,
    /// It is in the spool as well.
    pub spooled: bool,
}

impl Tape {
    pub fn new(spill: Option<Spill>) -> Arc<Tape> {
        let state = State { spill, healthy: true, ..State::default() };
        Arc::new(Tape { state: Mutex::new(state), news: Condvar::new(), room: Condvar::new() })
    }

    /// Puts a copy of a chunk on the tape before it is passed on: an answer can then never stand before what it
    /// answers, nor an earlier time after a later one. A full buffer first gives a healthy reader a moment to swap
    /// it, since a spill takes as long. Gives whether the reader is to be woken, by [`Tape::tell`], once the chunk is
    /// out. For threads that forward one stream only.
    #[must_use]
    pub fn note(&self, kind: u8, channel: u64, stamper: &Stamper, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.is_full(bytes.len()) {
            if state.healthy && !state.off {
                self.news.notify_one();
                let full = |state: &mut State| state.healthy && !state.closed && state.is_full(bytes.len());
                let waited = self.room.wait_timeout_while(state, SPILL_AFTER, full);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_full(bytes.len()) {
                state.spill(io_reason);
            }
        }
        state.push(kind, channel, stamper.now(), bytes)
    }

    /// Wakes the reader.
    pub fn tell(&self) {
        self.news.notify_one();
    }

    /// Appends without ever waiting for the reader: a full buffer spills at once.
    pub fn append(&self, kind: u8, channel: u64, at: Micros, bytes: &[u8]) {
        let mut state = self.lock();
        if state.is_full(bytes.len()) {
            state.spill(io_reason);
        }
        let wake = state.push(kind, channel, at, bytes);
        drop(state);
        if wake {
            self.tell();
        }
    }

    /// No more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
        self.room.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// There is no store to read it: forget what is held and take no more.
    pub fn switch_off(&self) {
        let mut state = self.lock();
        state.off = true;
        state.buffer = Vec::new();
        state.healthy = false;
        self.room.notify_all();
    }

    /// Whether the reader keeps up: while it does not, a full buffer spills without waiting.
    pub fn set_healthy(&self, healthy: bool) {
        self.lock().healthy = healthy;
        self.room.notify_all();
    }

    /// What is written at the top of a spool made from now on.
    pub fn set_spill_header(&self, header: String) {
        if let Some(spill) = &mut self.lock().spill {
            spill.header = header;
        }
    }

    /// For the reader: sleeps until there is something and then a little longer, so that it comes in good
    /// stretches. Wakes early for a full buffer or the end, and at the latest after `at_most`; and at once for what
    /// waits on the disk, unless that is to wait on.
    pub fn wait(&self, gather: Duration, at_most: Duration, backlog_waits: bool) {
        let mut state = self.lock();
        if !state.has_news() {
            state.parked = true;
            let nothing = |state: &mut State| !state.has_news();
            let waited = self.news.wait_timeout_while(state, at_most, nothing);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.parked = false;
        }
        let few = |state: &mut State| {
            !state.closed && (backlog_waits || !state.has_backlog()) && state.buffer.len() < EARLY_BYTES
        };
        drop(self.news.wait_timeout_while(state, gather, few));
    }

    /// For the reader: the next stretch of whole records; `None` when there is nothing at the moment.
    pub fn next(&self, into: &mut Vec<u8>) -> io::Result<Option<Stretch>> {
        into.clear();
        let mut state = self.lock();
        let start = state.read;
        if let Some((from, reading)) = state.spool.as_ref().and_then(|spool| spool.next(start)) {
            drop(state);
            let end = from + read_whole_records(&reading, into)?;
            self.lock().read = end;
            return Ok(Some(Stretch { start: from, end, spooled: true }));
        }
        if state.closed && state.buffer.is_empty() {
            let at = state.lost_at;
            state.tell_lost(at);
        }
        if state.buffer.is_empty() {
            return Ok(None);
        }
        std::mem::swap(&mut state.buffer, into);
        let start = state.start;
        state.start += into.len() as u64;
        state.read = state.start;
        let end = state.start;
        drop(state);
        self.room.notify_all();
        Ok(Some(Stretch { start, end, spooled: false }))
    }

    /// For the reader, in a rush: puts what is in the buffer on disk, to be taken from there later. Those who append do
    /// not wait for the disk meanwhile. What the disk refuses stays in the buffer.
    pub fn set_aside(&self, spare: &mut Vec<u8>) -> io::Result<()> {
        spare.clear();
        let mut state = self.lock();
        let (start, len) = (state.start, state.buffer.len() as u64);
        if len == 0 || state.off {
            return Ok(());
        }
        let place = state.spool()?.reserve(start, len)?;
        std::mem::swap(&mut state.buffer, spare);
        state.start += len;
        drop(state);
        self.room.notify_all();
        let written = place.write(spare);
        let mut state = self.lock();
        let settled = state.spool()?.settle(&place, written);
        if settled.is_err() {
            if state.start == start + len {
                spare.append(&mut state.buffer);
                std::mem::swap(&mut state.buffer, spare);
                state.start = start;
            } else {
                // Others have spilled what came behind it: it cannot go back between.
                let dropped = records(spare).fold((0, 0), |(n, sum), record| (n + 1, sum + record.bytes.len() as u64));
                state.lost.records += dropped.0;
                state.lost.bytes += dropped.1;
            }
        }
        settled
    }

    /// Bytes in memory that nobody has taken.
    pub fn buffered(&self) -> usize {
        self.lock().buffer.len()
    }

    /// The reader has everything up to `position` safely in the store.
    pub fn done(&self, position: u64) {
        if let Some(spool) = &mut self.lock().spool {
            spool.forget_before(position);
        }
    }

    /// The reader could not store a stretch: it is kept in the spool, in case we die before it can.
    pub fn keep(&self, stretch: Stretch, bytes: &[u8]) -> io::Result<()> {
        if stretch.spooled {
            return Ok(());
        }
        self.lock().spool()?.keep(stretch.start, bytes)
    }

    /// Puts what is in the buffer on disk, in case we die.
    pub fn spill_now(&self) {
        let mut state = self.lock();
        if !state.buffer.is_empty() {
            state.spill(io_reason);
        }
        drop(state);
        self.room.notify_all();
    }

    /// The spool's name and path, once there is one.
    pub fn spool(&self) -> Option<(String, PathBuf)> {
        self.lock().spool.as_ref().map(|spool| (spool.name(), spool.path().to_path_buf()))
    }

    /// Bytes that wait, in memory and on disk.
    pub fn waiting(&self) -> u64 {
        let state = self.lock();
        state.buffer.len() as u64 + state.spool.as_ref().map_or(0, |spool| spool.waiting_after(state.read))
    }

    /// Everything that had to be dropped so far.
    pub fn lost(&self) -> Lost {
        let state = self.lock();
        let mut lost = state.all_lost.clone();
        lost.add(&state.lost);
        lost
    }

    /// Takes the spool's file away: it holds nothing any more.
    pub fn remove_spool(&self) {
        if let Some(spool) = self.lock().spool.take() {
            spool.remove();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lost {
    fn add(&mut self, more: &Lost) {
        self.records += more.records;
        self.bytes += more.bytes;
        if !more.why.is_empty() {
            self.why.clone_from(&more.why);
        }
    }
}

fn io_reason(path: &Path, cause: &io::Error) -> String {
    format!("writing {}: {cause}", path.display())
}

impl State {
    fn is_full(&self, more: usize) -> bool {
        !self.buffer.is_empty() && self.buffer.len() + HEAD_BYTES + more > TAPE_BYTES
    }

    fn has_backlog(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.next(self.read).is_some())
    }

    fn has_news(&self) -> bool {
        self.closed || !self.buffer.is_empty() || self.has_backlog()
    }

    /// Takes a record, or counts it as lost. Gives whether the reader should be woken.
    fn push(&mut self, kind: u8, channel: u64, at: Micros, bytes: &[u8]) -> bool {
        if self.off {
            return false;
        }
        if self.is_full(bytes.len()) {
            self.lost.records += 1;
            self.lost.bytes += bytes.len() as u64;
            self.lost_at = at;
            return false;
        }
        self.tell_lost(at);
        let before = self.buffer.len();
        self.put(kind, channel, at, bytes);
        self.parked || (before < EARLY_BYTES && self.buffer.len() >= EARLY_BYTES)
    }

    /// Puts a record where others are missing.
    fn tell_lost(&mut self, at: Micros) {
        if self.lost.records > 0 {
            let lost = std::mem::take(&mut self.lost);
            let mut text = lost.records.to_le_bytes().to_vec();
            text.extend_from_slice(&lost.bytes.to_le_bytes());
            text.extend_from_slice(lost.why.as_bytes());
            self.put(LOST, 0, at, &text);
            self.all_lost.add(&lost);
        }
    }

    fn put(&mut self, kind: u8, channel: u64, at: Micros, bytes: &[u8]) {
        let mut head = [0; HEAD_BYTES];
        head[0] = kind;
        head[4..8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[8..16].copy_from_slice(&channel.to_le_bytes());
        head[16..24].copy_from_slice(&at.to_le_bytes());
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(bytes);
    }

    fn spool(&mut self) -> io::Result<&mut Spool> {
        if self.spool.is_none() {
            let spill = self.spill.as_ref().ok_or_else(|| io::Error::other("there is no place to spill to"))?;
            let veil = spill.veiled.then(|| Arc::new(Veil::default()));
            self.spool = Some(Spool::create(&spill.path, &spill.header, veil)?);
        }
        self.spool.as_mut().ok_or_else(|| io::Error::other("there is no spool"))
    }

    /// Moves the buffer to the spool. When that fails the buffer stays, and what comes next is lost.
    fn spill(&mut self, reason: impl Fn(&Path, &io::Error) -> String) {
        if self.off || self.buffer.is_empty() {
            return;
        }
        let (start, buffer) = (self.start, std::mem::take(&mut self.buffer));
        let kept = self.spool().and_then(|spool| spool.keep(start, &buffer));
        self.buffer = buffer;
        match kept {
            Ok(()) => {
                self.start += self.buffer.len() as u64;
                self.buffer.clear();
            }
            Err(cause) => {
                let path = self.spill.as_ref().map(|spill| spill.path.clone()).unwrap_or_default();
                self.lost.why = reason(&path, &cause);
            }
        }
    }
}

/// The whole records at the beginning of some tape.
pub fn records(tape: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = tape;
    std::iter::from_fn(move || {
        let (record, after) = split(rest)?;
        rest = after;
        Some(record)
    })
}

/// Reads the next whole records of a stretch in a spool; gives how far that took us. The torn end of a stretch whose
/// writer died is passed over: nothing can be made of it.
pub fn read_whole_records(reading: &Reading, into: &mut Vec<u8>) -> io::Result<u64> {
    let mut size = READ_BACK_BYTES;
    loop {
        reading.read(size, into)?;
        let whole = whole_len(into);
        into.truncate(whole);
        if whole > 0 {
            return Ok(whole as u64);
        }
        if size as u64 >= reading.len {
            return Ok(reading.len);
        }
        size *= 2;
    }
}

/// Tells a stretch to a transcriber.
pub fn transcribe(tape: &[u8], transcriber: &mut dyn Transcriber, sink: &mut dyn Sink) {
    for record in records(tape) {
        if record.kind == LOST && record.bytes.len() >= 16 {
            let count = |at: usize| u64::from_le_bytes(record.bytes[at..at + 8].try_into().unwrap_or_default());
            let why = String::from_utf8_lossy(&record.bytes[16..]);
            transcriber.lost(record.at, count(0), count(8), &why, sink);
        } else {
            transcriber.take(record, sink);
        }
    }
}

fn split(tape: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let head = tape.get(..HEAD_BYTES)?;
    let len = u32::from_le_bytes(head[4..8].try_into().ok()?) as usize;
    let bytes = tape.get(HEAD_BYTES..HEAD_BYTES + len)?;
    let channel = u64::from_le_bytes(head[8..16].try_into().ok()?);
    let at = Micros::from_le_bytes(head[16..24].try_into().ok()?);
    Some((Record { kind: head[0], channel, at, bytes }, &tape[HEAD_BYTES + len..]))
}

fn whole_len(tape: &[u8]) -> usize {
    records(tape).map(|record| HEAD_BYTES + record.bytes.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(tape: &Tape) -> Vec<(u64, u8)> {
        let mut found = Vec::new();
        let mut raw = Vec::new();
        while let Some(stretch) = tape.next(&mut raw).unwrap() {
            found.extend(records(&raw).map(|record| (record.channel, record.bytes[0])));
            tape.done(stretch.end);
        }
        found
    }

    #[test]
    fn what_is_set_aside_is_read_in_its_turn() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        let tape = Tape::new(Some(Spill { path: path.clone(), header: "{}".to_string(), veiled: false }));
        let (mut spare, mut into) = (Vec::new(), Vec::new());
        let mut told = Vec::new();
        for number in 0..6u64 {
            tape.append(1, number, number as Micros, &[number as u8; 10]);
            if number % 2 == 0 {
                tape.set_aside(&mut spare).expect("room on the disk");
                assert_eq!(tape.buffered(), 0);
            }
        }
        while let Some(stretch) = tape.next(&mut into).expect("readable") {
            told.extend(records(&into).map(|record| (record.channel, record.bytes.to_vec())));
            tape.done(stretch.end);
        }
        assert_eq!(told, (0..6u64).map(|number| (number, vec![number as u8; 10])).collect::<Vec<_>>());
        assert_eq!(tape.waiting(), 0);
    }

    #[test]
    fn what_the_disk_refuses_stays_on_the_tape() {
        let tape = Tape::new(Some(Spill { path: "/nonexistent/spool".into(), header: String::new(), veiled: false }));
        tape.append(1, 7, 7, b"words");
        assert!(tape.set_aside(&mut Vec::new()).is_err());
        let mut into = Vec::new();
        assert!(tape.next(&mut into).expect("readable").is_some());
        assert_eq!(records(&into).map(|record| record.channel).collect::<Vec<_>>(), [7]);
        assert_eq!(tape.lost(), Lost::default());
    }

    #[test]
    fn what_does_not_fit_spills_and_comes_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let tape = Tape::new(Some(Spill { path: path.clone(), header: "h".to_string(), veiled: false }));
        tape.set_healthy(false);
        let chunk = vec![7; 1024 * 1024];
        for channel in 0..40 {
            if channel % 2 == 0 {
                tape.append(0, channel, 0, &chunk);
            } else {
                let _ = tape.note(0, channel, &Stamper::start(), &chunk);
            }
        }
        assert!(std::fs::metadata(&path).unwrap().len() > 30 * 1024 * 1024);
        assert_eq!(drain(&tape), (0..40).map(|channel| (channel, 7)).collect::<Vec<_>>());
        assert_eq!((tape.waiting(), tape.lost()), (0, Lost::default()));
        assert!(std::fs::metadata(&path).unwrap().len() < 100, "the disk was given back");
        tape.remove_spool();
        assert!(!path.exists());
    }

    #[test]
    fn a_stretch_the_store_refused_is_found_before_what_came_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let tape = Tape::new(Some(Spill { path: path.clone(), header: String::new(), veiled: false }));
        tape.append(0, 1, 0, b"a");
        let mut raw = Vec::new();
        let stretch = tape.next(&mut raw).unwrap().unwrap();
        tape.append(0, 2, 0, b"b");
        tape.spill_now();
        tape.keep(stretch, &raw).unwrap();
        tape.append(0, 3, 0, b"c");
        tape.spill_now();
        drop(tape);
        let (spool, _) = Spool::open_left_behind(&path).unwrap().unwrap();
        let (mut position, mut channels) = (0, Vec::new());
        while let Some((from, reading)) = spool.next(position) {
            reading.read(1000, &mut raw).unwrap();
            position = from + raw.len() as u64;
            channels.extend(records(&raw).map(|record| record.channel));
        }
        assert_eq!(channels, [1, 2, 3]);
    }

    #[test]
    fn what_even_the_disk_refuses_is_counted_and_told_in_its_place() {
        struct Told(Vec<String>);
        impl Transcriber for Told {
            fn take(&mut self, record: Record<'_>, _: &mut dyn Sink) {
                self.0.push(format!("{}", record.channel));
            }
            fn lost(&mut self, _: Micros, records: u64, bytes: u64, why: &str, _: &mut dyn Sink) {
                self.0.push(format!("lost {records} {bytes} {}", why.contains("/nowhere/spool")));
            }
        }
        let tape = Tape::new(Some(Spill { path: "/nowhere/spool".into(), ..Spill::default() }));
        tape.set_healthy(false);
        let chunk = vec![7; 3 * 1024 * 1024];
        for channel in 0..5 {
            tape.append(0, channel, 0, &chunk);
        }
        assert_eq!((tape.lost().records, tape.lost().bytes), (3, 9 * 1024 * 1024));
        let mut raw = Vec::new();
        let mut told = Told(Vec::new());
        for _ in 0..2 {
            tape.next(&mut raw).unwrap();
            transcribe(&raw, &mut told, &mut crate::event::Collected::default());
            tape.append(0, 9, 0, b"x");
        }
        assert_eq!(told.0, ["0", "1", "lost 3 9437184 true", "9"]);
        assert_eq!(tape.lost().records, 3);
    }

    #[test]
    fn a_tape_nobody_reads_takes_nothing() {
        let tape = Tape::new(None);
        tape.append(0, 1, 0, b"x");
        tape.switch_off();
        tape.append(0, 1, 0, b"x");
        assert!(!tape.note(0, 1, &Stamper::start(), &vec![0; TAPE_BYTES]));
        assert_eq!((tape.waiting(), tape.lost()), (0, Lost::default()));
    }
}
