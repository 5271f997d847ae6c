//! The tape of one tapped process → its session.
//!
//! Comes in: records of a stdio tap: chunks of the three streams, their ends, and happenings. Goes out, through a
//! [`Scribe`]: one session and its events. After a crash it goes on where the store stands.

use serde::{Deserialize, Serialize};

use super::scribe::Scribe;
use super::tape::{Record, Transcriber};
use super::{Happening, How, Micros, Party, Session, Side, Sink, StreamId};

/// Kinds of records. The first three are raw bytes.
pub const FROM_CLIENT: u8 = 0;
pub const FROM_SERVER: u8 = 1;
pub const FROM_STDERR: u8 = 2;
/// An [`End`], as JSON.
pub const END: u8 = 3;
/// A [`Happening`], as JSON.
pub const HAPPENING: u8 = 4;
/// stderr is over.
pub const END_STDERR: u8 = 5;

/// One direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub from: Side,
    pub by: Party,
    pub how: How,
}

pub struct StdioScribe {
    session: Session,
    scribe: Scribe,
    begun: bool,
    /// Bytes the store has that were not yet cut into events when the tap died.
    tails: Vec<(StreamId, Vec<u8>)>,
}

impl StdioScribe {
    pub fn new(session: Session) -> StdioScribe {
        let scribe = Scribe::new(session.key);
        StdioScribe { session, scribe, begun: false, tails: Vec::new() }
    }

    /// Goes on with a session the sink already knows: `tails` are its streams, each with the place up to which it has
    /// become events and the bytes behind that.
    pub fn resume(session: Session, last_seq: u64, tails: Vec<(StreamId, u64, Vec<u8>)>) -> StdioScribe {
        let mut scribe = Scribe::resume(session.key, last_seq);
        for (stream, place, _) in &tails {
            scribe.resume_stream(*stream, *place);
        }
        let tails = tails.into_iter().map(|(stream, _, tail)| (stream, tail)).collect();
        StdioScribe { session, scribe, begun: true, tails }
    }

    fn begin(&mut self, at: Micros, sink: &mut dyn Sink) {
        for (stream, tail) in std::mem::take(&mut self.tails) {
            self.scribe.recall(stream, at, &tail, sink);
        }
        if !self.begun {
            self.begun = true;
            sink.session(&self.session);
        }
    }
}

impl Transcriber for StdioScribe {
    fn take(&mut self, record: Record<'_>, sink: &mut dyn Sink) {
        let (at, bytes) = (record.at, record.bytes);
        self.begin(at, sink);
        match record.kind {
            FROM_CLIENT => self.scribe.bytes(Side::Client, at, bytes, sink),
            FROM_SERVER => self.scribe.bytes(Side::Server, at, bytes, sink),
            FROM_STDERR => self.scribe.stderr(at, bytes, sink),
            END_STDERR => self.scribe.end_stderr(at, sink),
            END => {
                if let Ok(End { from, by, how }) = serde_json::from_slice(bytes) {
                    self.scribe.end(from, at, by, how, sink);
                }
            }
            HAPPENING => {
                if let Ok(happening) = serde_json::from_slice::<Happening>(bytes) {
                    self.scribe.happening(at, None, happening, sink);
                }
            }
            _ => {}
        }
    }

    fn lost(&mut self, at: Micros, records: u64, bytes: u64, why: &str, sink: &mut dyn Sink) {
        self.begin(at, sink);
        let why = why.to_string();
        self.scribe.happening(at, None, Happening::Lost { from: None, events: records, bytes, why }, sink);
    }
}
