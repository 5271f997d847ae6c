//! What a store that refused until the end does not hold, and the little room that is set aside to say so.
//!
//! Comes in: what could not be written. Goes out: one event in each session it belonged to, that so much of it is lost.
//! A disk that is full to the last byte would not take even that; so a few pages are held by a file without a name, and
//! given up when they are needed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{Refusal, Tried, Writer};
use crate::event::{Event, Happening, Micros, Session, SessionKey, Sink, StreamId, What};

/// A commit of a few rows touches half a dozen pages, which go to the log and, when the store is closed, to the file.
const RESERVE_BYTES: usize = 128 * 1024;

/// A commit of more sessions would not find room.
const MOST_SESSIONS: usize = 100;

/// Room on the store's disk. Given back when it is dropped.
pub(super) struct Reserve {
    _file: File,
}

impl Reserve {
    pub fn set_aside(store: &Path) -> Option<Reserve> {
        let mut path = store.as_os_str().to_owned();
        path.push(format!(".reserve-{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        // Without a name it goes when we go, however that is.
        fs::remove_file(&path).ok()?;
        file.write_all(&[0xa5; RESERVE_BYTES]).ok()?;
        Some(Reserve { _file: file })
    }
}

/// Counts what it is told.
#[derive(Default)]
pub(super) struct Missing {
    /// Sessions of which the store knows nothing.
    fresh: Vec<Session>,
    gone: BTreeMap<SessionKey, Gone>,
}

#[derive(Default)]
struct Gone {
    events: u64,
    bytes: u64,
    /// From when on.
    at: Option<Micros>,
}

impl Sink for Missing {
    fn session(&mut self, session: &Session) {
        self.fresh.push(session.clone());
    }

    fn bytes(&mut self, session: SessionKey, _: StreamId, bytes: &[u8]) {
        self.gone.entry(session).or_default().bytes += bytes.len() as u64;
    }

    fn event(&mut self, event: Event) {
        let gone = self.gone.entry(event.session).or_default();
        gone.at.get_or_insert(event.at);
        match event.what {
            What::Happening(Happening::Lost { events, bytes, .. }) => {
                gone.events += events;
                gone.bytes += bytes;
            }
            _ => gone.events += 1,
        }
    }
}

impl Writer {
    /// Lets go of what could not be written.
    pub(super) fn give_up(&mut self, missing: &mut Missing) {
        let last = self.gathered.take();
        for load in std::mem::take(&mut self.waiting).into_iter().chain([last]) {
            load.sessions.iter().for_each(|session| missing.session(session));
            for run in &load.runs {
                missing.bytes(run.session, run.stream, &run.bytes);
            }
            load.events.into_iter().for_each(|event| missing.event(event));
        }
    }

    /// Says in each session what is missing of it.
    pub(super) fn tell_missing(&mut self, missing: Missing, why: &str) -> Tried<()> {
        for session in missing.fresh.iter().take(MOST_SESSIONS) {
            self.session(session);
        }
        for (session, gone) in missing.gone.into_iter().take(MOST_SESSIONS) {
            let last_seq = match self.number(session) {
                Some(number) => {
                    self.store().tail(number).map_err(|cause| Refusal::lasting(cause.to_string()))?.last_seq
                }
                None => 0,
            };
            let Gone { events, bytes, at } = gone;
            let what = Happening::Lost { from: None, events, bytes, why: why.to_string() };
            let (seq, at) = (last_seq + 1, at.unwrap_or_default());
            self.event(Event { session, seq, at, carrier: None, what: What::Happening(what) });
        }
        self.try_commit()
    }
}
