//! Neovim's `lsp.log` at level debug or trace.
//!
//! `[DEBUG][2026-11-18 00:48:57] …/rpc.lua:347 "rpc.send" { id = 2, … }`: the message as a Lua table, which is put
//! back into JSON. A null result vanishes in a Lua table: an answer without result and error is told as `null`. The clock
//! is local and has seconds. All language servers of one editor share the log, and nothing says which one is meant.

use crate::error::Result;
use crate::event::{Happening, Knows, Micros, Side};

use super::json::Fields;
use super::runs::Runs;
use super::{Importer, Reading, Sureness, lua, time};

pub struct Neovim;

const NOTES: &[&str] = &[
    "Neovim logs Lua tables: messages are put back into JSON, null results and empty lists are guessed",
    "the log has local time to the second, and does not tell several language servers apart",
];

impl Importer for Neovim {
    fn name(&self) -> &'static str {
        "neovim"
    }

    fn about(&self) -> &'static str {
        "Neovim's lsp.log, at level debug or trace"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = String::from_utf8_lossy(head);
        if text.lines().any(|line| entry(line).is_some_and(|(_, rest)| direction(rest).is_some())) {
            return 95;
        }
        if text.starts_with("[START][") { 60 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut runs = Runs::new(None, self.knows(), NOTES);
        let mut lines = reading.lines();
        let mut last_at = 0;
        let mut others = 0u64;
        while let Some(line) = lines.next_line() {
            let text = String::from_utf8_lossy(line.text);
            let Some((at, rest)) = entry(&text) else {
                others += u64::from(!text.trim().is_empty());
                continue;
            };
            last_at = at;
            if let Some((from, table)) = direction(rest) {
                match lua::to_json(table) {
                    Some((json, _)) if json.starts_with('{') && line.left_out == 0 => {
                        runs.message(reading, from, at, with_null_result(json).as_bytes());
                    }
                    _ => {
                        let bytes = line.text.len() as u64 + line.left_out;
                        reading.unread_line(line.number, bytes, "the Lua table in it cannot be read");
                    }
                }
            } else if let Some(text) = stderr(rest)
                && runs.is_open()
            {
                runs.stderr(reading, at, text.trim_end_matches('\n').as_bytes());
            }
        }
        if others > 0 && runs.is_open() {
            let text = format!("{others} lines of the log are no entries of their own and were passed over");
            runs.happening(reading, last_at, Happening::Note { text });
        }
        runs.finish(reading);
        Ok(())
    }
}

/// `[DEBUG][2026-11-18 00:48:57] place<tab>rest`.
fn entry(line: &str) -> Option<(Micros, &str)> {
    let (level, rest) = line.strip_prefix('[')?.split_once("][")?;
    if !level.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let (stamp, rest) = rest.split_once("] ")?;
    let at = time::from_text(stamp)?;
    Some((at, rest.split_once('\t').map_or("", |(_, rest)| rest)))
}

fn direction(rest: &str) -> Option<(Side, &str)> {
    if let Some(table) = rest.strip_prefix("\"rpc.send\"\t") {
        return Some((Side::Client, table));
    }
    rest.strip_prefix("\"rpc.receive\"\t").map(|table| (Side::Server, table))
}

/// `"rpc"<tab>"server command"<tab>"stderr"<tab>"text"`.
fn stderr(rest: &str) -> Option<String> {
    let (before, text) = rest.split_once("\"stderr\"\t")?;
    if !before.starts_with("\"rpc\"\t") {
        return None;
    }
    let (json, _) = lua::to_json(text)?;
    serde_json::from_str(&json).ok()
}

/// An answer whose result was null has lost it on its way through Lua.
fn with_null_result(json: String) -> String {
    let has = |key: &str| Fields::find(json.as_bytes(), key).is_some();
    if has("id") && !has("method") && !has("result") && !has("error") {
        return format!("{},\"result\":null}}", &json[..json.len() - 1]);
    }
    json
}
