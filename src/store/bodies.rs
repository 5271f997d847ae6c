//! Raw bytes of a span, put together from blocks.

use std::borrow::Cow;

use super::Store;
use crate::event::{Bodies, SessionKey, Span, StreamId};

/// Reads spans; remembers the block read last, since neighbours are asked for one after another.
pub struct StoredBodies<'a> {
    store: &'a Store,
    at: Option<(SessionKey, StreamId, u64)>,
    block: Vec<u8>,
    whole: Vec<u8>,
}

impl Store {
    pub fn bodies(&self) -> StoredBodies<'_> {
        StoredBodies { store: self, at: None, block: Vec::new(), whole: Vec::new() }
    }
}

impl StoredBodies<'_> {
    /// Makes `block` the one that holds this byte; gives the place in it.
    fn seek(&mut self, session: SessionKey, stream: StreamId, place: u64) -> Option<usize> {
        let within = |start: u64, len: usize| place >= start && place - start < len as u64;
        match self.at {
            Some((known, of, start)) if (known, of) == (session, stream) && within(start, self.block.len()) => {
                return Some((place - start) as usize);
            }
            _ => self.at = None,
        }
        let mut select = self
            .store
            .conn
            .prepare_cached(
                "SELECT start, bytes FROM blocks WHERE session = ? AND stream = ? AND start <= ? \
                 ORDER BY start DESC LIMIT 1",
            )
            .ok()?;
        let mut rows = select.query((session, stream as i64, place as i64)).ok()?;
        let row = rows.next().ok()??;
        let start = row.get::<_, i64>(0).ok()? as u64;
        self.block.clear();
        self.block.extend_from_slice(row.get_ref(1).ok()?.as_blob().ok()?);
        if !within(start, self.block.len()) {
            return None;
        }
        self.at = Some((session, stream, start));
        Some((place - start) as usize)
    }
}

impl Bodies for StoredBodies<'_> {
    fn read(&mut self, session: SessionKey, span: Span, limit: usize) -> Option<Cow<'_, [u8]>> {
        let wanted = usize::try_from(span.len).unwrap_or(usize::MAX).min(limit);
        if wanted == 0 {
            return Some(Cow::Borrowed(&[]));
        }
        let from = self.seek(session, span.stream, span.start)?;
        if from + wanted <= self.block.len() {
            return Some(Cow::Borrowed(&self.block[from..from + wanted]));
        }
        self.whole.clear();
        while self.whole.len() < wanted {
            let from = self.seek(session, span.stream, span.start + self.whole.len() as u64)?;
            let to = self.block.len().min(from + wanted - self.whole.len());
            self.whole.extend_from_slice(&self.block[from..to]);
        }
        Some(Cow::Borrowed(&self.whole))
    }
}
