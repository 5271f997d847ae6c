//! Where events go, and where their raw bytes can be had again.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Event, Session, SessionKey, Span, StreamId};

/// Accepts what happened: the recorder, a `Vec`, a live fold.
///
/// For each session: `session` once, first. Bytes of a stream come in order and before the events that point at
/// them. `event` comes in the order of `seq`.
pub trait Sink {
    fn session(&mut self, session: &Session);
    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]);
    fn event(&mut self, event: Event);
    /// Nothing more comes of this session, which need not be remembered. Not told of every session.
    fn over(&mut self, _: SessionKey) {}
}

/// Gives back raw bytes that went into a sink. Asked rarely: for gauges, transcripts, replay.
pub trait Bodies {
    /// The bytes of a span, at most `limit` of them; `None` when they are not to be had (any more).
    fn read(&mut self, session: SessionKey, span: Span, limit: usize) -> Option<Cow<'_, [u8]>>;
}

/// For those that have no bodies at hand.
pub struct NoBodies;

impl Bodies for NoBodies {
    fn read(&mut self, _: SessionKey, _: Span, _: usize) -> Option<Cow<'_, [u8]>> {
        None
    }
}

/// Keeps everything in memory: for tests, fixtures and small files.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Collected {
    pub sessions: Vec<Session>,
    pub events: Vec<Event>,
    pub streams: HashMap<(SessionKey, StreamId), Vec<u8>>,
}

impl Sink for Collected {
    fn session(&mut self, session: &Session) {
        self.sessions.push(session.clone());
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.streams.entry((session, stream)).or_default().extend_from_slice(bytes);
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

impl Bodies for Collected {
    fn read(&mut self, session: SessionKey, span: Span, limit: usize) -> Option<Cow<'_, [u8]>> {
        let stream = self.streams.get(&(session, span.stream))?;
        let start = usize::try_from(span.start).ok()?;
        let end = start.checked_add(usize::try_from(span.len).ok()?.min(limit))?;
        stream.get(start..end).map(Cow::Borrowed)
    }
}
