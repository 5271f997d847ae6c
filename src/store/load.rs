//! Events and bytes on their way into rows: gathered as a sink, then written in one go.
//!
//! Comes in: what a [`Sink`] is told. Goes out: [`Load`]s, each of which becomes one transaction. Bytes are
//! copied once, into one run per stream; where a block is to end is only noted, on the edge of a frame where
//! possible, so that most bodies lie within one block.

use std::collections::HashMap;

use crate::event::{Event, Session, SessionKey, Sink, StreamId};

/// A block is closed at the first frame edge past this: big enough to be cheap, small enough to read one body.
const BLOCK_BYTES: usize = 128 * 1024;

/// A frame longer than this does not wait for its edge.
const LONGEST_BLOCK_BYTES: usize = 1024 * 1024;

/// Buffers kept for the next load, so that a busy tap does not ask the allocator for megabytes at each commit.
const SPARE_BUFFERS: usize = 4;

/// What one transaction writes.
#[derive(Debug, Default)]
pub struct Load {
    pub(super) sessions: Vec<Session>,
    pub(super) events: Vec<Event>,
    pub(super) runs: Vec<Run>,
    pub(super) taken: Option<Taken>,
    /// Sessions of which nothing more will come.
    pub(super) over: Vec<SessionKey>,
}

/// Up to where a spool is in the store with this load.
#[derive(Debug)]
pub(super) struct Taken {
    pub spool: String,
    pub session: SessionKey,
    pub position: u64,
}

/// New bytes of one stream and where to cut them into blocks.
#[derive(Debug)]
pub(super) struct Run {
    pub session: SessionKey,
    pub stream: StreamId,
    pub start: u64,
    pub bytes: Vec<u8>,
    pub cuts: Vec<usize>,
}

impl Run {
    /// The blocks, each with its place in the stream.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let ends = self.cuts.iter().copied().chain(std::iter::once(self.bytes.len()));
        let mut from = 0;
        ends.filter_map(move |end| {
            let block = (self.start + from as u64, &self.bytes[from..end]);
            from = end;
            (!block.1.is_empty()).then_some(block)
        })
    }

    fn open_bytes(&self) -> usize {
        self.bytes.len() - self.cuts.last().copied().unwrap_or(0)
    }
}

/// Gathers a load.
#[derive(Debug, Default)]
pub struct Gathered {
    load: Load,
    bytes: usize,
    /// Which run of the load belongs to a stream.
    places: HashMap<(SessionKey, StreamId), usize>,
    /// The places found last, for even and for odd streams: mostly the two sides of a conversation take turns.
    last: [Option<((SessionKey, StreamId), usize)>; 2],
    /// How far each stream has come.
    ends: HashMap<SessionKey, Vec<(StreamId, u64)>>,
    spare: Vec<Vec<u8>>,
    /// Room for the events of the next load.
    spare_events: Vec<Event>,
}

impl Gathered {
    pub fn is_empty(&self) -> bool {
        let load = &self.load;
        load.sessions.is_empty() && load.events.is_empty() && load.runs.is_empty() && load.taken.is_none()
    }

    /// Raw bytes waiting.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    pub fn held_events(&self) -> usize {
        self.load.events.len()
    }

    /// Goes on with a stream that already has `end` bytes in the store.
    pub fn continue_stream(&mut self, session: SessionKey, stream: StreamId, end: u64) {
        set_end(self.ends.entry(session).or_default(), stream, end);
    }

    pub(super) fn note_taken(&mut self, taken: Taken) {
        self.load.taken = Some(taken);
    }

    /// Everything gathered so far.
    pub fn take(&mut self) -> Load {
        for run in &self.load.runs {
            let ends = self.ends.entry(run.session).or_default();
            set_end(ends, run.stream, run.start + run.bytes.len() as u64);
        }
        self.load.over.iter().for_each(|session| drop(self.ends.remove(session)));
        self.places.clear();
        self.last = [None; 2];
        self.bytes = 0;
        let room = self.load.events.len();
        let taken = std::mem::take(&mut self.load);
        self.load.events = std::mem::take(&mut self.spare_events);
        self.load.events.reserve(room);
        taken
    }

    /// Takes back the buffers of a load that has been written.
    pub fn recycle(&mut self, mut load: Load) {
        if self.spare_events.capacity() == 0 {
            load.events.clear();
            self.spare_events = load.events;
        }
        for run in load.runs {
            if self.spare.len() < SPARE_BUFFERS {
                let mut bytes = run.bytes;
                bytes.clear();
                self.spare.push(bytes);
            }
        }
    }

    fn run(&mut self, session: SessionKey, stream: StreamId) -> &mut Run {
        let key = (session, stream);
        if let Some((known, place)) = self.last[stream as usize % 2]
            && known == key
        {
            return &mut self.load.runs[place];
        }
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                let ends = self.ends.get(&session).map_or(&[][..], Vec::as_slice);
                let start = ends.iter().find(|(known, _)| *known == stream).map_or(0, |(_, end)| *end);
                let bytes = self.spare.pop().unwrap_or_default();
                self.load.runs.push(Run { session, stream, start, bytes, cuts: Vec::new() });
                self.places.insert(key, self.load.runs.len() - 1);
                self.load.runs.len() - 1
            }
        };
        self.last[stream as usize % 2] = Some((key, place));
        &mut self.load.runs[place]
    }
}

impl Sink for Gathered {
    fn session(&mut self, session: &Session) {
        // A key that meant another session until now: this one's streams begin anew.
        self.ends.remove(&session.key);
        self.load.sessions.push(session.clone());
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len();
        let run = self.run(session, stream);
        for part in bytes.chunks(LONGEST_BLOCK_BYTES) {
            if run.open_bytes() >= LONGEST_BLOCK_BYTES {
                run.cuts.push(run.bytes.len());
            }
            run.bytes.extend_from_slice(part);
        }
    }

    fn event(&mut self, event: Event) {
        if let Some(span) = event.span().filter(|span| span.len > 0) {
            let run = self.run(event.session, span.stream);
            let edge = (span.start + span.len).saturating_sub(run.start) as usize;
            let cut = run.cuts.last().copied().unwrap_or(0);
            if edge >= cut + BLOCK_BYTES && edge <= run.bytes.len() {
                run.cuts.push(edge);
            }
        }
        self.load.events.push(event);
    }

    fn over(&mut self, session: SessionKey) {
        self.load.over.push(session);
    }
}

fn set_end(ends: &mut Vec<(StreamId, u64)>, stream: StreamId, end: u64) {
    match ends.iter_mut().find(|(known, _)| *known == stream) {
        Some(known) => known.1 = end,
        None => ends.push((stream, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Span, What};

    fn stderr(seq: u64, start: u64, len: u64) -> Event {
        Event { session: 1, seq, at: 0, carrier: None, what: What::Stderr { bytes: Span { stream: 2, start, len } } }
    }

    #[test]
    fn blocks_end_on_frame_edges_and_hold_everything() {
        let mut gathered = Gathered::default();
        let line = vec![b'x'; 1000];
        for seq in 0..600u64 {
            gathered.bytes(1, 2, &line);
            gathered.event(stderr(seq + 1, seq * 1000, 999));
        }
        let load = gathered.take();
        let blocks: Vec<_> = load.runs[0].blocks().map(|(start, bytes)| (start, bytes.len())).collect();
        assert_eq!(blocks.iter().map(|(_, len)| len).sum::<usize>(), 600_000);
        assert!(blocks.len() >= 4 && blocks[1..].iter().all(|(start, _)| start % 1000 == 999), "{blocks:?}");
        gathered.bytes(1, 2, b"more");
        assert_eq!(gathered.take().runs[0].start, 600_000);
    }

    #[test]
    fn streams_go_on_until_their_session_is_over() {
        let mut gathered = Gathered::default();
        for session in [1, 2] {
            gathered.bytes(session, 0, b"abc");
            gathered.bytes(session, 1, b"de");
        }
        gathered.over(1);
        assert_eq!(gathered.take().runs.len(), 4);
        assert_eq!(gathered.ends.keys().collect::<Vec<_>>(), [&2]);
        gathered.bytes(2, 1, b"f");
        gathered.bytes(2, 0, b"g");
        let starts: Vec<_> = gathered.take().runs.iter().map(|run| (run.stream, run.start)).collect();
        assert_eq!(starts, [(1, 2), (0, 3)]);
    }

    #[test]
    fn a_long_frame_is_cut_all_the_same() {
        let mut gathered = Gathered::default();
        for _ in 0..40 {
            gathered.bytes(1, 0, &[b'y'; 256 * 1024]);
        }
        let load = gathered.take();
        assert!(load.runs[0].blocks().all(|(_, bytes)| bytes.len() <= 2 * LONGEST_BLOCK_BYTES));
        assert_eq!(load.runs[0].blocks().map(|(_, bytes)| bytes.len()).sum::<usize>(), 40 * 256 * 1024);
    }
}
