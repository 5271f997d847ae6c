//! rpctap's own event lines, as `rpctap export` writes them: read back without loss.
//!
//! Events are taken as they stand and not read anew from the bytes. In a file that was damaged or put together by hand,
//! lines that do not fit (an unknown session, a place past the end of a stream) are told as unread, and the numbering
//! goes on without gaps.

use std::collections::HashMap;

use crate::error::Result;
use crate::event::line::{self, Line};
use crate::event::{Event, Happening, Knows, Micros, SessionKey, StreamId, What};

use super::{Importer, Reading, Sureness};

pub struct EventLines;

/// Sessions of one file.
const MOST_SESSIONS: usize = 1_000_000;

struct Known {
    key: SessionKey,
    last_seq: u64,
    last_at: Micros,
    lengths: HashMap<StreamId, u64>,
}

impl Importer for EventLines {
    fn name(&self) -> &'static str {
        "rpctap"
    }

    fn about(&self) -> &'static str {
        "rpctap's own event lines (rpctap export)"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        if head.starts_with(b"{\"rpctap\":") { 100 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut known: HashMap<SessionKey, Known> = HashMap::new();
        let mut order: Vec<SessionKey> = Vec::new();
        let mut lines = reading.lines();
        while let Some(line) = lines.next_line() {
            if line.text.trim_ascii().is_empty() {
                continue;
            }
            let bytes = line.text.len() as u64 + line.left_out;
            match line::read(line.text) {
                Ok(Line::Session(mut session)) => {
                    if known.len() >= MOST_SESSIONS {
                        reading.unread_line(line.number, bytes, "more sessions than are read from one file");
                        continue;
                    }
                    let named = session.key;
                    session.key = reading.take_key();
                    reading.sink.session(&session);
                    let new =
                        Known { key: session.key, last_seq: 0, last_at: session.started_at, lengths: HashMap::new() };
                    known.insert(named, new);
                    order.push(named);
                }
                Ok(Line::Bytes { session, stream, bytes: raw }) => match known.get_mut(&session) {
                    Some(of) => {
                        *of.lengths.entry(stream).or_default() += raw.len() as u64;
                        reading.sink.bytes(of.key, stream, &raw);
                    }
                    None => reading.unread_line(line.number, bytes, "bytes of a session that was not begun"),
                },
                Ok(Line::Event(event)) => match fit(event, &mut known) {
                    Ok(event) => reading.sink.event(event),
                    Err(why) => reading.unread_line(line.number, bytes, why),
                },
                Err(why) => reading.unread_line(line.number, bytes, &why),
            }
        }
        let last = order.last().and_then(|named| known.get_mut(named));
        if let Some(of) = last {
            for (bytes, why) in reading.take_troubles() {
                of.last_seq += 1;
                let lost = Happening::Lost { from: None, events: 1, bytes, why };
                let what = What::Happening(lost);
                reading.sink.event(Event { session: of.key, seq: of.last_seq, at: of.last_at, carrier: None, what });
            }
        }
        Ok(())
    }
}

/// Gives an event its new session and number, where it fits what came before.
fn fit(mut event: Event, known: &mut HashMap<SessionKey, Known>) -> std::result::Result<Event, &'static str> {
    let of = known.get_mut(&event.session).ok_or("an event of a session that was not begun")?;
    if let Some(span) = event.span() {
        let length = of.lengths.get(&span.stream).copied().unwrap_or(0);
        if span.start.checked_add(span.len).is_none_or(|end| end > length) {
            return Err("an event that points past the end of its stream");
        }
    }
    of.last_seq += 1;
    of.last_at = event.at;
    event.session = of.key;
    event.seq = of.last_seq;
    Ok(event)
}
