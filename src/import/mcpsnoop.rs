//! mcpsnoop's session logs: one envelope a line, with session, server, time, direction and the message.
//!
//! `direction` is `c2s`, `s2c`, `stderr` or `meta` (the command that was tapped). mcpsnoop drops frames when it falls
//! behind and shows that only by a gap in `seq`, which is told here as a loss.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::event::{Happening, Knows, Micros, Side};

use super::json::{Fields, text_of};
use super::runs::Runs;
use super::{Importer, Reading, Sureness, time};

pub struct Mcpsnoop;

/// Sessions held open at once; past it, lines are told as unread.
const MOST_SESSIONS: usize = 1_000;

#[derive(Default)]
struct Envelope<'a> {
    session: &'a [u8],
    label: &'a [u8],
    seq: Option<u64>,
    at: Option<Micros>,
    direction: &'a [u8],
    raw: Option<&'a [u8]>,
    text: Option<&'a [u8]>,
    truncated: bool,
    redacted: bool,
}

impl Importer for Mcpsnoop {
    fn name(&self) -> &'static str {
        "mcpsnoop"
    }

    fn about(&self) -> &'static str {
        "mcpsnoop's JSONL session logs"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let mut lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        if lines.next().is_some_and(|line| envelope(line).is_ok()) { 95 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut sessions: BTreeMap<Vec<u8>, (Runs, Option<u64>)> = BTreeMap::new();
        let mut last_at = 0;
        let mut past_lines = 0u64;
        let mut lines = reading.lines();
        while let Some(line) = lines.next_line() {
            if line.text.trim_ascii().is_empty() {
                continue;
            }
            let envelope = match envelope(line.text) {
                Ok(envelope) if line.left_out == 0 => envelope,
                Ok(_) | Err(_) if line.left_out > 0 => {
                    let bytes = line.text.len() as u64 + line.left_out;
                    reading.unread_line(line.number, bytes, "longer than a line may be, not read");
                    continue;
                }
                Ok(_) => continue,
                Err(why) => {
                    reading.unread_line(line.number, line.text.len() as u64, why);
                    continue;
                }
            };
            let at = envelope.at.unwrap_or(last_at);
            last_at = at;
            if sessions.len() >= MOST_SESSIONS && !sessions.contains_key(envelope.session) {
                past_lines += 1;
                continue;
            }
            let (runs, next_seq) = sessions.entry(envelope.session.to_vec()).or_insert_with(|| {
                let label = text_of(envelope.label);
                (Runs::new((!label.is_empty()).then_some(label), Knows { ends: false, ..Knows::ALL }, &[]), None)
            });
            if let (Some(expected), Some(seq)) = (*next_seq, envelope.seq)
                && seq > expected
            {
                let why = format!("line {}: mcpsnoop dropped frames here (seq {expected} to {})", line.number, seq - 1);
                runs.happening(reading, at, Happening::Lost { from: None, events: seq - expected, bytes: 0, why });
            }
            *next_seq = envelope.seq.map(|seq| seq.saturating_add(1)).or(*next_seq);
            let from = match envelope.direction {
                b"\"c2s\"" => Some(Side::Client),
                b"\"s2c\"" => Some(Side::Server),
                _ => None,
            };
            match (from, envelope.raw, envelope.text) {
                (Some(from), Some(raw), _) => runs.message(reading, from, at, raw),
                (Some(from), None, Some(text)) => runs.message(reading, from, at, text_of(text).as_bytes()),
                (Some(from), None, None) => {
                    let why = format!("line {}: an envelope without its message", line.number);
                    runs.happening(reading, at, Happening::Lost { from: Some(from), events: 1, bytes: 0, why });
                }
                (None, _, Some(text)) if envelope.direction == b"\"stderr\"" => {
                    runs.stderr(reading, at, text_of(text).as_bytes());
                }
                (None, raw, _) if envelope.direction == b"\"meta\"" => {
                    runs.happening(reading, at, Happening::Opened { pid: None });
                    if let Some(command) = raw.and_then(|raw| Fields::find(raw, "command")) {
                        let text = format!("tapped by mcpsnoop: {}", String::from_utf8_lossy(command));
                        runs.happening(reading, at, Happening::Note { text });
                    }
                }
                _ => {}
            }
            if envelope.truncated {
                let why = format!("line {}: mcpsnoop cut this message", line.number);
                runs.happening(reading, at, Happening::Lost { from, events: 0, bytes: 0, why });
            }
            if envelope.redacted {
                let text = format!("line {}: mcpsnoop redacted this message", line.number);
                runs.happening(reading, at, Happening::Note { text });
            }
        }
        if past_lines > 0
            && let Some(runs) = sessions.values_mut().map(|(runs, _)| runs).find(|runs| runs.is_open())
        {
            let text = format!(
                "{MOST_SESSIONS} sessions were read, which is the most of one log: {past_lines} lines of others were not"
            );
            let at = runs.last_at().unwrap_or(last_at);
            runs.happening(reading, at, Happening::Note { text });
        }
        for (runs, _) in sessions.values_mut() {
            runs.finish(reading);
        }
        Ok(())
    }
}

fn envelope(line: &[u8]) -> std::result::Result<Envelope<'_>, &'static str> {
    let mut fields = Fields::of(line).ok_or("not a JSON object")?;
    let mut found = Envelope::default();
    while let Some(key) = fields.next_key() {
        let value = fields.value().ok_or("broken JSON")?;
        match key {
            b"session_id" => found.session = value,
            b"server_label" => found.label = value,
            b"seq" => found.seq = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            b"ts" => found.at = time::from_text(&text_of(value)),
            b"direction" => found.direction = value,
            b"raw" => found.raw = Some(value),
            b"text" => found.text = Some(value),
            b"truncated" => found.truncated = value == b"true",
            b"redacted" => found.redacted = value == b"true",
            _ => {}
        }
    }
    if !fields.whole() {
        return Err("broken JSON");
    }
    if found.session.is_empty() || found.direction.is_empty() || found.seq.is_none() {
        return Err("no mcpsnoop envelope");
    }
    Ok(found)
}
