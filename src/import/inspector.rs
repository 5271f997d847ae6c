//! MCP Inspector's exported history.
//!
//! The protocol export is an array of entries with time, direction, origin and message; an answered request carries its
//! answer and how long it took. The first Inspector kept pairs of texts (`{"request": "…", "response": "…"}`) without
//! times. Entries are told in the order of their times, answers where they fell.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::event::{Happening, Knows, Micros, Side};

use super::array::Elements;
use super::runs::Runs;
use super::{Importer, Reading, Sureness, time};

pub struct Inspector;

/// What waits to be told in order: an export lives in a browser's memory, this is far beyond it.
const MOST_WAITING_BYTES: usize = 32 * 1024 * 1024;

#[derive(Deserialize)]
struct Entry<'a> {
    timestamp: Option<String>,
    direction: Option<String>,
    origin: Option<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    duration: Option<f64>,
    #[serde(rename = "clientError")]
    client_error: Option<String>,
}

/// Messages by time, then by place in the file.
#[derive(Default)]
struct Waiting {
    told: BTreeMap<(Micros, u64), (Side, Vec<u8>)>,
    bytes: usize,
    next: u64,
}

impl Waiting {
    fn add(&mut self, at: Micros, from: Side, body: Vec<u8>) {
        self.next += 1;
        self.bytes += body.len() + 100;
        self.told.insert((at, self.next), (from, body));
    }

    fn tell(&mut self, runs: &mut Runs, reading: &mut Reading<'_>, down_to: usize) {
        while self.bytes > down_to {
            let Some(((at, _), (from, body))) = self.told.pop_first() else { break };
            self.bytes -= body.len() + 100;
            runs.message(reading, from, at, &body);
        }
    }
}

impl Importer for Inspector {
    fn name(&self) -> &'static str {
        "mcp-inspector"
    }

    fn about(&self) -> &'static str {
        "MCP Inspector's exported history"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let mut elements = Elements::new(head, &[]);
        if head.trim_ascii_start().first() != Some(&b'[') {
            return 0;
        }
        let Some(first) = elements.next_element() else { return 0 };
        match serde_json::from_slice::<Entry<'_>>(first.text) {
            Ok(entry) if entry.message.is_some() && entry.direction.is_some() => 95,
            Ok(entry) if entry.request.is_some() => 80,
            Err(_) if is_cut_entry(head) => 60,
            _ => 0,
        }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let head = reading.head();
        let timed = memchr::memmem::find(&head, b"\"timestamp\"").is_some();
        let notes: &[&str] = if timed { &[] } else { &["this history has no times"] };
        let mut runs = Runs::new(None, Knows { times: timed, ..self.knows() }, notes);
        let mut elements = Elements::new(reading.input(), &[]);
        let mut waiting = Waiting::default();
        let mut last_at = 0;
        while let Some(element) = elements.next_element() {
            let bytes = element.text.len() as u64 + element.left_out;
            let entry = match serde_json::from_slice::<Entry<'_>>(element.text) {
                Ok(entry) if entry.message.is_some() || entry.request.is_some() => entry,
                _ => {
                    reading.unread(bytes, format!("entry {}: not an entry of a history", element.number));
                    continue;
                }
            };
            let at = entry.timestamp.as_deref().and_then(time::from_text).unwrap_or(last_at + 1);
            last_at = at;
            let from = match (entry.origin.as_deref(), entry.direction.as_deref()) {
                (Some("server"), _) => Side::Server,
                (Some(_), _) => Side::Client,
                // Exports from before `origin`: what came without being asked for came from the server.
                (None, Some("notification")) if !from_client(entry.message) => Side::Server,
                (None, Some("response")) => Side::Client,
                (None, _) => Side::Client,
            };
            if let Some(body) = entry.message.or(entry.request).map(body_of) {
                waiting.add(at, from, body);
            }
            if let Some(answer) = entry.response.map(body_of) {
                let after = entry.duration.filter(|ms| ms.is_finite() && *ms >= 0.0 && *ms < 1e12).unwrap_or(0.0);
                waiting.add(at.saturating_add((after * 1_000.0) as Micros), from.other(), answer);
            }
            if let Some(why) = entry.client_error {
                let text = format!("entry {}: the client refused the answer: {why}", element.number);
                runs.happening(reading, at, Happening::Note { text });
            }
            waiting.tell(&mut runs, reading, MOST_WAITING_BYTES);
        }
        let cut = elements.found && !elements.closed;
        waiting.tell(&mut runs, reading, 0);
        if cut {
            reading.unread(0, "the file ends before the history does".to_string());
        }
        runs.finish(reading);
        Ok(())
    }
}

fn is_cut_entry(head: &[u8]) -> bool {
    memchr::memmem::find(head, b"\"direction\"").is_some() && memchr::memmem::find(head, b"\"message\"").is_some()
}

/// A message as an object, or as a text that holds one.
fn body_of(raw: &RawValue) -> Vec<u8> {
    match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => text.into_bytes(),
        Err(_) => raw.get().as_bytes().to_vec(),
    }
}

fn from_client(message: Option<&RawValue>) -> bool {
    let method = message.and_then(|raw| super::json::Fields::find(raw.get().as_bytes(), "method"));
    matches!(
        method,
        Some(
            b"\"notifications/initialized\"" | b"\"notifications/cancelled\"" | b"\"notifications/roots/list_changed\""
        )
    )
}
