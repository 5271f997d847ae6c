//! One door for "a store or a recording": gives sessions and events in order, with their bodies at hand.
//!
//! Comes in: what the user named (a store, a file in any known format, a folder, `-`). Goes out: calls to a
//! [`Reader`]. A recording is read straight through and nothing is written; of its raw bytes only the latest are
//! kept, so bodies can be asked for while their event is told, and not later.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use clap::Args;

use crate::error::{Doing, Error, Result};
use crate::event::{Bodies, Event, Session, SessionKey, Side, Sink, Span, StreamId};
use crate::import::input::HEAD_BYTES;
use crate::import::{self, Input, Options};
use crate::store::foreign::read_rows;
use crate::store::{Recorded, Store};

/// Takes what happened, in order.
pub trait Reader {
    /// A session begins. Its key stands for it until another session of the same key begins (of the next argument).
    fn session(&mut self, session: &Session);
    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies);
    /// Nothing more comes of the sessions that the file told of.
    fn file_ends(&mut self) {}
}

/// How to read recordings: flattened into every command that takes one.
#[derive(Args, Debug, Clone, Default)]
pub struct RecordingArgs {
    /// Read the recording as this format (see `rpctap formats`) [default: recognised from the content]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Who sent the messages of a log that does not say: `client` or `server`
    #[arg(long, value_name = "SIDE", value_parser = side)]
    pub direction: Option<Side>,
    /// What the client sent, where a `tee` kept each direction in a file of its own
    #[arg(long, value_name = "FILE", requires = "server")]
    pub client: Option<PathBuf>,
    /// What the server sent, beside --client
    #[arg(long, value_name = "FILE", requires = "client")]
    pub server: Option<PathBuf>,
}

fn side(word: &str) -> std::result::Result<Side, String> {
    match word {
        "client" | "c2s" => Ok(Side::Client),
        "server" | "s2c" => Ok(Side::Server),
        _ => Err("it is `client` or `server`".to_string()),
    }
}

impl RecordingArgs {
    pub fn options(&self) -> Options {
        let pair = self.client.clone().zip(self.server.clone());
        Options { format: self.format.clone(), direction: self.direction, pair, name: None, read_rows: Some(read_rows) }
    }
}

/// What an argument names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Store(PathBuf),
    Recording(PathBuf),
}

/// Every SQLite file begins so.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

impl Place {
    /// Looks at the first bytes: a store of ours, or a recording (which another program's SQLite file is too).
    pub fn of(path: &Path) -> Place {
        let mut head = Vec::new();
        let is_store = path.is_file()
            && File::open(path).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head)).is_ok()
            && head.starts_with(SQLITE_MAGIC)
            && import::recognise(&head).is_none();
        if is_store { Place::Store(path.to_path_buf()) } else { Place::Recording(path.to_path_buf()) }
    }
}

/// Reads everything named, one after another: stores, files, folders, `-`. `session` picks one of a store's. Gives a
/// sentence for each file of a folder that could not be read.
pub fn read(
    paths: &[PathBuf],
    session: Option<&str>,
    options: &Options,
    reader: &mut dyn Reader,
) -> Result<Vec<String>> {
    let mut next_key: SessionKey = 1;
    let mut left_out = Vec::new();
    if let Some((client, server)) = &options.pair {
        let mut passing = Passing { reader, window: Window::default() };
        import::bare::read_pair(Input::open(client)?, Input::open(server)?, options, next_key, &mut passing)?;
        next_key += 1;
    }
    for path in paths {
        if let Place::Store(path) = Place::of(path) {
            read_store(&Store::open_readonly(&path)?, session, reader)?;
            continue;
        }
        let files = import::files_of(path)?;
        left_out.extend(import::passed_over(path));
        let from_folder = files.len() > 1 || files.first() != Some(path);
        let mut read = 0;
        let mut first_trouble = None;
        for file in files {
            match Input::open(&file).and_then(|input| read_file(input, options, &mut next_key, reader)) {
                Ok(_) => {
                    reader.file_ends();
                    read += 1;
                }
                Err(trouble) if from_folder => {
                    left_out.push(trouble.to_string());
                    first_trouble.get_or_insert(trouble);
                }
                Err(trouble) => return Err(trouble),
            }
        }
        if let (0, Some(trouble)) = (read, first_trouble) {
            return Err(Error::new(format!("nothing in {} can be read; first: {trouble}", path.display())));
        }
    }
    Ok(left_out)
}

/// Reads one file on a thread of its own, so that reading and judging share the work.
fn read_file(input: Input, options: &Options, next_key: &mut SessionKey, reader: &mut dyn Reader) -> Result<()> {
    let mut passing = Passing { reader, window: Window::default() };
    let (batches, incoming) = sync_channel(BATCHES_IN_FLIGHT);
    let (done, used) = sync_channel(BATCHES_IN_FLIGHT + 2);
    thread::scope(|scope| {
        let importing = thread::Builder::new().name("import".to_string()).spawn_scoped(scope, move || {
            let mut relay = Relay { batch: Batch::default(), batches, used };
            let read = import::read(input, options, next_key, &mut relay);
            relay.hand_over();
            read
        });
        let importing = importing.doing("starting a thread")?;
        for mut batch in incoming {
            batch.tell(&mut passing);
            let _ = done.try_send(batch);
        }
        match importing.join() {
            Ok(read) => read.map(drop),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Enough in flight to keep both threads busy, little enough to stay small.
const BATCHES_IN_FLIGHT: usize = 2;
const BATCH_ITEMS: usize = 4_096;
const BATCH_BYTES: usize = 1024 * 1024;

/// What a sink was told, to be told again on another thread.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    bytes: Vec<u8>,
}

enum Item {
    Session(Box<Session>),
    /// The next so many of the batch's bytes.
    Bytes(SessionKey, StreamId, usize),
    Event(Event),
}

impl Batch {
    fn tell(&mut self, sink: &mut dyn Sink) {
        let mut at = 0;
        for item in self.items.drain(..) {
            match item {
                Item::Session(session) => sink.session(&session),
                Item::Bytes(session, stream, len) => {
                    sink.bytes(session, stream, &self.bytes[at..at + len]);
                    at += len;
                }
                Item::Event(event) => sink.event(event),
            }
        }
        self.bytes.clear();
    }
}

struct Relay {
    batch: Batch,
    batches: SyncSender<Batch>,
    /// Batches that have been told, to be filled again.
    used: Receiver<Batch>,
}

impl Relay {
    fn hand_over(&mut self) {
        let next = self.used.try_recv().unwrap_or_default();
        // The other side only goes away by a panic, which ends this thread's work too.
        let _ = self.batches.send(std::mem::replace(&mut self.batch, next));
    }

    fn add(&mut self, item: Item) {
        self.batch.items.push(item);
        if self.batch.items.len() >= BATCH_ITEMS || self.batch.bytes.len() >= BATCH_BYTES {
            self.hand_over();
        }
    }
}

impl Sink for Relay {
    fn session(&mut self, session: &Session) {
        self.add(Item::Session(Box::new(session.clone())));
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.batch.bytes.extend_from_slice(bytes);
        self.add(Item::Bytes(session, stream, bytes.len()));
    }

    fn event(&mut self, event: Event) {
        self.add(Item::Event(event));
    }
}

/// Reads one session of a store, or all of them.
pub fn read_store(store: &Store, session: Option<&str>, reader: &mut dyn Reader) -> Result<()> {
    let sessions = match session {
        Some(wanted) => vec![store.find_session(wanted)?],
        None => store.sessions()?,
    };
    let mut bodies = store.bodies();
    for recorded in sessions {
        reader.session(&recorded.session);
        match store.path().filter(|_| recorded.events >= WORTH_A_THREAD) {
            Some(path) => read_beside(path, recorded.number(), &mut |event| reader.event(event, &mut bodies))?,
            None => store.for_each_event(recorded.number(), &mut |event| {
                reader.event(&event, &mut bodies);
                ControlFlow::Continue(())
            })?,
        }
    }
    Ok(())
}

/// From here on a thread for reading pays: below it, opening the file once more costs as much as it saves.
const WORTH_A_THREAD: u64 = 50_000;

/// Reads a session's events on a thread (and a connection) of its own, so that reading and judging share the work.
fn read_beside(path: &Path, number: SessionKey, each: &mut dyn FnMut(&Event)) -> Result<()> {
    let store = Store::open_readonly(path)?;
    let (batches, incoming) = sync_channel::<Vec<Event>>(BATCHES_IN_FLIGHT);
    thread::scope(|scope| {
        let reading = thread::Builder::new().name("read".to_string()).spawn_scoped(scope, move || {
            let mut batch = Vec::with_capacity(BATCH_ITEMS);
            let read = store.for_each_event(number, &mut |event| {
                batch.push(event);
                if batch.len() == BATCH_ITEMS {
                    let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_ITEMS));
                    // The other side only goes away by a panic, which ends this thread's work too.
                    if batches.send(full).is_err() {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            let _ = batches.send(batch);
            read
        });
        let reading = reading.doing("starting a thread")?;
        for batch in incoming {
            batch.iter().for_each(&mut *each);
        }
        match reading.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Tells a stored session to a sink as it was told to the store: bytes before the events that point at them, framing and
/// all.
pub fn copy(store: &Store, recorded: &Recorded, sink: &mut dyn Sink) -> Result<()> {
    let number = recorded.number();
    sink.session(&recorded.session);
    let lengths: HashMap<StreamId, u64> = store.tail(number)?.streams.into_iter().collect();
    let mut given: HashMap<StreamId, u64> = HashMap::new();
    let mut bodies = store.bodies();
    let mut give = |stream: StreamId, end: u64, sink: &mut dyn Sink| {
        let end = end.min(lengths.get(&stream).copied().unwrap_or(0));
        let at = given.entry(stream).or_insert(0);
        while *at < end {
            let span = Span { stream, start: *at, len: (end - *at).min(COPIED_BYTES) };
            match bodies.read(number, span, COPIED_BYTES as usize) {
                Some(bytes) if !bytes.is_empty() => {
                    *at += bytes.len() as u64;
                    sink.bytes(number, stream, &bytes);
                }
                // A hole in the store: what points behind it cannot be told.
                _ => break,
            }
        }
    };
    store.for_each_event(number, &mut |event| {
        if let Some(span) = event.span() {
            give(span.stream, span.start + span.len, sink);
        }
        sink.event(event);
        ControlFlow::Continue(())
    })?;
    let mut streams: Vec<StreamId> = lengths.keys().copied().collect();
    streams.sort_unstable();
    for stream in streams {
        give(stream, u64::MAX, sink);
    }
    Ok(())
}

/// How much of a stream is held while it is copied.
const COPIED_BYTES: u64 = 256 * 1024;

/// A sink that hands events on with the latest bytes.
struct Passing<'a> {
    reader: &'a mut dyn Reader,
    window: Window,
}

impl Sink for Passing<'_> {
    fn session(&mut self, session: &Session) {
        self.reader.session(session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.window.push(session, stream, bytes);
    }

    fn event(&mut self, event: Event) {
        self.reader.event(&event, &mut self.window);
    }
}

/// Per stream: enough for the body of nearly every event at the moment it is told.
const KEPT_BYTES: usize = 256 * 1024;
/// Over all streams of a file with very many of them.
const KEPT_STREAMS: usize = 64;

/// The latest bytes of each stream.
#[derive(Default)]
struct Window {
    streams: HashMap<(SessionKey, StreamId), Kept>,
    /// How long the streams are whose bytes were forgotten.
    forgotten: HashMap<(SessionKey, StreamId), u64>,
    turn: u64,
}

#[derive(Default)]
struct Kept {
    /// Where `bytes[0]` lies in the stream.
    start: u64,
    bytes: Vec<u8>,
    turn: u64,
}

impl Window {
    fn push(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.turn += 1;
        let key = (session, stream);
        if self.streams.len() >= KEPT_STREAMS && !self.streams.contains_key(&key) {
            self.forget_quietest();
        }
        let forgotten = &mut self.forgotten;
        let kept = self
            .streams
            .entry(key)
            .or_insert_with(|| Kept { start: forgotten.remove(&key).unwrap_or(0), ..Kept::default() });
        kept.turn = self.turn;
        if bytes.len() >= KEPT_BYTES {
            let dropped = bytes.len() - KEPT_BYTES;
            kept.start += (kept.bytes.len() + dropped) as u64;
            kept.bytes.clear();
            kept.bytes.extend_from_slice(&bytes[dropped..]);
            return;
        }
        if kept.bytes.len() + bytes.len() > 2 * KEPT_BYTES {
            let dropped = kept.bytes.len() + bytes.len() - KEPT_BYTES;
            kept.bytes.drain(..dropped);
            kept.start += dropped as u64;
        }
        kept.bytes.extend_from_slice(bytes);
    }

    fn forget_quietest(&mut self) {
        let quietest = self.streams.iter().min_by_key(|(_, kept)| kept.turn).map(|(key, _)| *key);
        if let Some((key, kept)) = quietest.and_then(|key| self.streams.remove_entry(&key)) {
            self.forgotten.insert(key, kept.start + kept.bytes.len() as u64);
        }
    }
}

impl Bodies for Window {
    fn read(&mut self, session: SessionKey, span: Span, limit: usize) -> Option<Cow<'_, [u8]>> {
        let kept = self.streams.get(&(session, span.stream))?;
        let from = usize::try_from(span.start.checked_sub(kept.start)?).ok()?;
        let len = usize::try_from(span.len).unwrap_or(usize::MAX).min(limit);
        kept.bytes.get(from..from.checked_add(len)?).map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_keeps_the_latest_bytes_of_each_stream() {
        let mut window = Window::default();
        let all: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut at = 0;
        for len in (1..2_000).cycle() {
            let end = (at + len).min(all.len());
            window.push(1, 0, &all[at..end]);
            let span = Span { stream: 0, start: at as u64, len: (end - at) as u64 };
            assert_eq!(window.read(1, span, usize::MAX).as_deref(), Some(&all[at..end]));
            at = end;
            if at == all.len() {
                break;
            }
        }
        assert_eq!(window.read(1, Span { stream: 0, start: 0, len: 1 }, 10), None);
        assert_eq!(window.read(1, Span { stream: 1, start: 0, len: 1 }, 10), None);
        window.push(2, 0, &all);
        let tail = Span { stream: 0, start: all.len() as u64 - 9, len: 9 };
        assert_eq!(window.read(2, tail, 4).as_deref(), Some(&all[all.len() - 9..all.len() - 5]));
        for stream in 0..500 {
            window.push(3, stream, b"abc");
        }
        assert!(window.streams.len() <= KEPT_STREAMS);
        window.push(3, 0, b"def");
        assert_eq!(window.read(3, Span { stream: 0, start: 3, len: 3 }, 10).as_deref(), Some(&b"def"[..]));
        assert_eq!(window.read(3, Span { stream: 499, start: 0, len: 3 }, 10).as_deref(), Some(&b"abc"[..]));
    }
}
