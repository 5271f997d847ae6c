//! One session in memory, message by message with its text: what replay plays and fixtures are cut from.
//!
//! Comes in: the events of a session and where its bodies lie. Goes out: [`Line`]s in order, each with the raw
//! text of its message (the item itself, where it came in a batch), and the happenings between them.

use super::{Bodies, CLIENT_STREAM, Event, Happening, Micros, SERVER_STREAM, Session, Side, Span, What};
use crate::rpc::{Kind, Message, Oddity};
use crate::wire::Framing;

/// A longer body is not replayed: no peer that was ever recorded sends one in good faith.
pub const LONGEST_BODY_BYTES: usize = 256 * 1024 * 1024;

/// One message of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub seq: u64,
    pub at: Micros,
    pub carrier: Option<u64>,
    pub from: Side,
    pub message: Message,
    /// The raw text of the message; `None` where the recording does not hold it.
    pub body: Option<String>,
    /// The messages of one batch share the `seq` of its first.
    pub batch: Option<u64>,
}

impl Line {
    /// Its text, or the least that the envelope gives.
    pub fn text(&self) -> String {
        if let Some(body) = &self.body {
            return body.clone();
        }
        let id = self.message.id.as_ref().map_or(String::new(), |id| format!(",\"id\":{}", id.to_raw()));
        match self.message.kind {
            Kind::Result => format!("{{\"jsonrpc\":\"2.0\"{id},\"result\":{{}}}}"),
            Kind::Error => {
                format!("{{\"jsonrpc\":\"2.0\"{id},\"error\":{{\"code\":-32603,\"message\":\"not on record\"}}}}")
            }
            _ => {
                let method = serde_json::Value::from(self.message.method());
                format!("{{\"jsonrpc\":\"2.0\"{id},\"method\":{method}}}")
            }
        }
    }

    pub fn is_request(&self) -> bool {
        self.message.is_request()
    }

    pub fn is_response(&self) -> bool {
        self.message.is_response()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub session: Session,
    pub lines: Vec<Line>,
    /// Happenings, stderr and faults, with the spans they had.
    pub others: Vec<Event>,
    pub framing: Framing,
    /// Messages whose text is missing, and losses on record.
    pub bodies_missing: u64,
    pub losses: u64,
}

impl Recording {
    pub fn new(session: &Session) -> Recording {
        Recording {
            session: session.clone(),
            lines: Vec::new(),
            others: Vec::new(),
            framing: Framing::Lines,
            bodies_missing: 0,
            losses: 0,
        }
    }

    /// Takes the next event, in the order of `seq`.
    pub fn take(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        let What::Message { from, message, body } = &event.what else {
            if matches!(&event.what, What::Happening(Happening::Lost { .. })) {
                self.losses += 1;
            }
            self.others.push(event.clone());
            return;
        };
        if self.lines.is_empty() && event.carrier.is_none() && has_header(event, bodies) {
            self.framing = Framing::ContentLength;
        }
        let batch = message.batch_index.map(|index| match self.lines.last() {
            Some(last) if index > 0 && last.batch.is_some() && last.from == *from => last.batch.unwrap_or(event.seq),
            _ => event.seq,
        });
        let mut text = None;
        if body.len as usize <= LONGEST_BODY_BYTES
            && body.len > 0
            && !message.oddities.has(Oddity::PayloadCut)
            && let Some(raw) = bodies.read(event.session, *body, LONGEST_BODY_BYTES)
        {
            let raw = String::from_utf8_lossy(&raw);
            text = match message.batch_index {
                None => Some(raw.into_owned()),
                Some(index) => serde_json::from_str::<Vec<&serde_json::value::RawValue>>(&raw)
                    .ok()
                    .and_then(|items| items.get(index as usize).map(|item| item.get().to_string())),
            };
        }
        if text.is_none() {
            self.bodies_missing += 1;
        }
        self.lines.push(Line {
            seq: event.seq,
            at: event.at,
            carrier: event.carrier,
            from: *from,
            message: message.clone(),
            body: text,
            batch,
        });
    }

    /// When the first and the last thing happened.
    pub fn bounds(&self) -> Option<(Micros, Micros)> {
        let times = || self.lines.iter().map(|line| line.at).chain(self.others.iter().map(|event| event.at));
        Some((times().min()?, times().max()?))
    }

    pub fn client_lines(&self) -> usize {
        self.lines.iter().filter(|line| line.from == Side::Client).count()
    }
}

/// Does a Content-Length header stand before this message?
fn has_header(event: &Event, bodies: &mut dyn Bodies) -> bool {
    let Some(span) =
        event.span().filter(|span| matches!(span.stream, CLIENT_STREAM | SERVER_STREAM) && span.start >= 16)
    else {
        return false;
    };
    let start = span.start.saturating_sub(200);
    let before = Span { stream: span.stream, start, len: span.start - start };
    bodies.read(event.session, before, 200).is_some_and(|header| {
        let header = header.to_ascii_lowercase();
        header.ends_with(b"\n") && memchr::memmem::find(&header, b"content-length:").is_some()
    })
}
