//! Gives the sessions of an HTTP scribe keys of their own, where other sessions are told beside them.

use std::collections::HashMap;

use crate::event::{Event, Session, SessionKey, Sink, StreamId};

use super::Reading;

/// Which key stands for which.
#[derive(Debug, Default)]
pub(super) struct Keys {
    map: HashMap<SessionKey, SessionKey>,
}

pub(super) struct Renumbering<'r, 'a> {
    pub reading: &'r mut Reading<'a>,
    pub keys: &'r mut Keys,
}

impl Sink for Renumbering<'_, '_> {
    fn session(&mut self, session: &Session) {
        let mut session = session.clone();
        let key = self.reading.take_key();
        self.keys.map.insert(session.key, key);
        session.key = key;
        self.reading.sink.session(&session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        if let Some(key) = self.keys.map.get(&session) {
            self.reading.sink.bytes(*key, stream, bytes);
        }
    }

    fn event(&mut self, mut event: Event) {
        if let Some(key) = self.keys.map.get(&event.session) {
            event.session = *key;
            self.reading.sink.event(event);
        }
    }

    fn over(&mut self, session: SessionKey) {
        if let Some(key) = self.keys.map.remove(&session) {
            self.reading.sink.over(key);
        }
    }
}
