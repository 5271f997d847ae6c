//! VS Code's trace of a language server as JSON, one entry a line, and the same without the bracketed clock (LSP
//! Inspector's form): `{"isLSPMessage":true,"type":"send-request","message":{…},"timestamp":1794962743669}`.

use crate::error::Result;
use crate::event::{Happening, Knows, Micros, Side};

use super::json::Fields;
use super::runs::Runs;
use super::{Importer, Reading, Sureness, time};

pub struct LspTraceJson;

impl Importer for LspTraceJson {
    fn name(&self) -> &'static str {
        "lsp-trace-json"
    }

    fn about(&self) -> &'static str {
        "VS Code's language server trace as JSON, and LSP Inspector's files"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let found = head.split(|byte| *byte == b'\n').filter_map(json_of).any(|json| entry(json).is_ok());
        if found { 95 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut runs = Runs::new(None, self.knows(), &[]);
        let mut others = 0u64;
        let mut last_at = 0;
        let mut lines = reading.lines();
        while let Some(line) = lines.next_line() {
            let Some(json) = json_of(line.text) else {
                others += u64::from(!line.text.trim_ascii().is_empty());
                continue;
            };
            match entry(json) {
                Ok((at, from, message)) if line.left_out == 0 => {
                    let at = at.unwrap_or(last_at);
                    last_at = at;
                    runs.message(reading, from, at, message);
                }
                Ok(_) => {
                    let bytes = line.text.len() as u64 + line.left_out;
                    reading.unread_line(line.number, bytes, "longer than a line may be, not read");
                }
                Err(why) => reading.unread_line(line.number, line.text.len() as u64, why),
            }
        }
        if others > 0 && runs.is_open() {
            let text = format!("{others} lines of the log are no trace entries and were passed over");
            runs.happening(reading, last_at, Happening::Note { text });
        }
        runs.finish(reading);
        Ok(())
    }
}

/// The JSON of a line, behind `[LSP   - 12:45:43 AM] ` or `2026-11-18 05:35:20.360 [trace] `, or from its start.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    if line.starts_with(b"{") {
        return Some(line);
    }
    let behind = memchr::memmem::find(line, b"] {")? + 2;
    let stamped = line.starts_with(b"[") || (line[0].is_ascii_digit() && line[..behind].ends_with(b" [trace] "));
    stamped.then_some(&line[behind..])
}

/// The time, who sent it, and the message.
fn entry(json: &[u8]) -> std::result::Result<(Option<Micros>, Side, &[u8]), &'static str> {
    let mut fields = Fields::of(json).ok_or("no JSON object")?;
    let (mut from, mut message, mut at) = (None, None, None);
    while let Some(key) = fields.next_key() {
        let value = fields.value().ok_or("broken JSON")?;
        match key {
            b"type" if value.starts_with(b"\"send-") => from = Some(Side::Client),
            b"type" if value.starts_with(b"\"receive-") => from = Some(Side::Server),
            b"message" => message = Some(value),
            b"timestamp" => at = time::from_number(value),
            _ => {}
        }
    }
    if !fields.whole() {
        return Err("broken JSON");
    }
    match (from, message) {
        (Some(from), Some(message)) => Ok((at, from, message)),
        _ => Err("no type or message in it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_behind_every_known_stamp() {
        for stamp in ["", "[LSP   - 12:45:43 AM] ", "2026-11-18 05:35:20.360 [trace] "] {
            assert_eq!(json_of(format!("{stamp}{{\"a\":1}}").as_bytes()), Some(&b"{\"a\":1}"[..]), "{stamp}");
        }
        assert_eq!(json_of(b"12 [x] {}"), None);
    }
}
