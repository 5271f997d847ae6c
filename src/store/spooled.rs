//! Spools that a tap left behind: found, taken in, and taken away.
//!
//! Comes in: files beside the store whose tap is dead. Goes out: their records, in the session they belong to. Each
//! commit notes how far it came, so that a second crash neither doubles nor drops anything.

use std::path::{Path, PathBuf};

use super::recorder::Heading;
use super::writer::Tail;
use super::{Store, Writer};
use crate::error::{Doing, Result};
use crate::event::spool::Spool;
use crate::event::tape::{Transcriber, read_whole_records, transcribe};
use crate::event::{Bodies, Event, Happening, SessionKey, Sink, Span, Stamper, StreamId, What};

/// Makes the transcriber that reads a spool: a new one, or one that goes on where the store's session stands.
pub type Revive = fn(&Heading, SessionKey, Option<Standing>) -> Option<Box<dyn Transcriber>>;

/// Where a session that is in the store stands.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    pub last_seq: u64,
    pub streams: Vec<StandingStream>,
}

/// A stream that goes on: up to where it has become events, and the bytes behind that.
#[derive(Debug, Clone, Default)]
pub struct StandingStream {
    pub stream: StreamId,
    pub place: u64,
    pub tail: Vec<u8>,
}

/// The key under which a spool's session is told; the writer of a take-in has no other.
const KEY: SessionKey = 1;

/// A frame begun before the crash and longer than this is not gone on with: it will be told as broken.
const LONGEST_TAIL_BYTES: u64 = 16 * 1024 * 1024;

/// The spools beside a store, of living taps and dead ones.
pub fn beside(store: &Path) -> Vec<PathBuf> {
    let Some(name) = store.file_name() else { return Vec::new() };
    let prefix = format!("{}.spool-", name.to_string_lossy());
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Takes in every spool beside the store whose tap is dead. Gives how many there were.
pub fn take_in_left_behind(store: &Path, revive: &Revive) -> Result<usize> {
    let mut taken = 0;
    for path in beside(store) {
        if let Some((spool, header)) = Spool::open_left_behind(&path).doing("reading a spool")?
            && let Ok(heading) = serde_json::from_str::<Heading>(&header)
        {
            take_in(store, spool, &heading, revive)?;
            taken += 1;
        }
    }
    Ok(taken)
}

fn take_in(store: &Path, spool: Spool, heading: &Heading, revive: &Revive) -> Result<()> {
    let mut writer = Store::open(store)?.writer().commit_when_told();
    let name = spool.name();
    let noted = writer.taken(&name)?;
    let number = noted.and_then(|(session, _)| session).or(heading.number);
    let mut position = noted.map_or(0, |(_, position)| position);
    let standing = match number {
        None => None,
        Some(number) => {
            let tail = writer.continue_session(KEY, number)?;
            Some(standing(writer.store(), number, &tail)?)
        }
    };
    if heading.veiled {
        if let Some(standing) = &standing {
            tell_unreadable(&mut writer, standing, spool.waiting_after(position));
            writer.commit()?;
        }
    } else if let Some(mut transcriber) = revive(heading, KEY, standing) {
        let mut raw = Vec::new();
        while let Some((from, reading)) = spool.next(position) {
            let read = read_whole_records(&reading, &mut raw).doing("reading a spool")?;
            transcribe(&raw, transcriber.as_mut(), &mut writer);
            position = from + read;
            writer.note_taken(&name, KEY, position);
            writer.commit()?;
        }
    }
    spool.remove();
    writer.forget_spool(&name)
}

/// A spool that was veiled for redaction died with its key.
fn tell_unreadable(writer: &mut Writer, standing: &Standing, bytes: u64) {
    let why = "a redacted recording was cut off, and what waited cannot be read".to_string();
    writer.event(Event {
        session: KEY,
        seq: standing.last_seq + 1,
        at: Stamper::start().now(),
        carrier: None,
        what: What::Happening(Happening::Lost { from: None, events: 0, bytes, why }),
    });
}

/// Reads back what the transcriber must know to go on.
fn standing(store: &Store, number: u32, tail: &Tail) -> Result<Standing> {
    let mut standing = Standing { last_seq: tail.last_seq, streams: Vec::new() };
    for (stream, end) in &tail.streams {
        let place = store.framed_up_to(number, *stream)?.min(*end);
        let span = Span { stream: *stream, start: place, len: end - place };
        let mut bodies = store.bodies();
        let tail = match span.len <= LONGEST_TAIL_BYTES {
            true => bodies.read(number, span, span.len as usize).map(|bytes| bytes.into_owned()),
            false => None,
        };
        let place = if tail.is_some() { place } else { *end };
        standing.streams.push(StandingStream { stream: *stream, place, tail: tail.unwrap_or_default() });
    }
    Ok(standing)
}

impl Store {
    /// Where the last frame of a stream ends.
    fn framed_up_to(&self, session: u32, stream: StreamId) -> Result<u64> {
        // Spans of one stream only grow, so that the last row that points into it is the furthest.
        self.conn
            .query_row(
                "SELECT start + len FROM events WHERE key >= ? << 40 AND key < (? + 1) << 40 AND stream = ? \
                 ORDER BY key DESC LIMIT 1",
                (session, session, stream as i64),
                |row| row.get::<_, i64>(0),
            )
            .map(|end| end as u64)
            .or_else(|cause| match cause {
                rusqlite::Error::QueryReturnedNoRows => Ok(0),
                other => Err(other),
            })
            .doing("finding the end of the session")
    }
}
