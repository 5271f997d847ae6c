//! Neovim's `lsp.log` at level debug or trace.
//!
//! `[DEBUG][2026-11-18 00:48:57] …/rpc.lua:347 "rpc.send" { id = 2, … }`: the message as a Lua table, which is put
//! back into JSON. A null result vanishes in a Lua table: an answer without result and error is told as `null`. The clock
//! is local and has seconds. All language servers of one editor share the log, and nothing says which one is meant: see
//! [`servers`].

mod servers;

use crate::error::Result;
use crate::event::{Knows, Micros, Side};

use super::json::Fields;
use super::{Importer, Reading, Sureness, lua, time};
use servers::Servers;

pub struct Neovim;

const NOTES: &[&str] = &[
    "Neovim logs Lua tables: messages are put back into JSON, null results and empty lists are guessed",
    "the log has local time to the second; several language servers in it are told apart by guess",
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
        let mut servers = Servers::new(self.knows(), NOTES);
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
            if text.starts_with("[START]") {
                servers.all_gone();
            }
            if let Some((from, table)) = direction(rest) {
                match lua::to_json(table) {
                    Some((json, _)) if json.starts_with('{') && line.left_out == 0 => {
                        servers.message(reading, from, at, with_null_result(json).as_bytes());
                    }
                    _ => {
                        let bytes = line.text.len() as u64 + line.left_out;
                        reading.unread_line(line.number, bytes, "the Lua table in it cannot be read");
                    }
                }
            } else if let Some(name) = begins(rest) {
                servers.begins(name);
            } else if let Some(text) = stderr(rest)
                && servers.is_open()
            {
                servers.stderr(reading, at, text.trim_end_matches('\n').as_bytes());
            }
        }
        if others > 0 && servers.is_open() {
            let text = format!("{others} lines of the log are no entries of their own and were passed over");
            servers.note(reading, last_at, text);
        }
        servers.finish(reading);
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

/// `"LSP[name]"<tab>"initialize_params"<tab>…`, at level trace.
fn begins(rest: &str) -> Option<&str> {
    let (name, rest) = rest.strip_prefix("\"LSP[")?.split_once("]\"\t")?;
    rest.starts_with("\"initialize_params\"").then_some(name)
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

#[cfg(test)]
mod tests {
    use crate::event::{Collected, Event};
    use crate::import::{Input, Options, read};

    #[test]
    fn a_log_whose_beginning_is_gone_pairs_by_guess() {
        let mut text = String::new();
        for (way, table) in [
            ("send", "id = 2, method = \"textDocument/hover\""),
            ("send", "id = 2, method = \"textDocument/hover\""),
            ("receive", "id = 2, result = { a = 1 }"),
            ("receive", "id = 2, result = { b = 1 }"),
            ("send", "id = 1, method = \"initialize\""),
            ("receive", "id = 1, result = { c = 1 }"),
        ] {
            text += &format!("[DEBUG][2026-11-18 05:45:54] .../rpc.lua:347\t\"rpc.{way}\"\t{{ {table} }}\n");
        }
        let known = |text: &str| -> Vec<bool> {
            let mut collected = Collected::default();
            let text = std::io::Cursor::new(text.to_string());
            let input = Input::from_reader("lsp.log", Box::new(text), None).expect("readable");
            read(input, &Options::default(), &mut 1, &mut collected).expect("a log");
            collected.sessions.iter().map(|session| session.knows.ids).collect()
        };
        // A server that is begun is another one than those before.
        assert_eq!(known(&text), [false, false]);
        let begun = text.lines().skip(4).collect::<Vec<_>>().join("\n");
        assert_eq!(known(&format!("[START][2026-11-18 05:45:53] LSP logging initiated\n{begun}\n")), [true]);
    }

    #[test]
    fn two_servers_in_one_log_are_two_sessions() {
        let lines = [
            ("send", "id = 1, method = \"initialize\""),
            ("send", "id = 1, method = \"initialize\""),
            ("receive", "id = 1, result = { a = 1 }"),
            ("send", "method = \"initialized\""),
            ("receive", "id = 1, result = { b = 1 }"),
            ("send", "method = \"initialized\""),
            ("send", "id = 2, method = \"textDocument/hover\""),
            ("send", "id = 3, method = \"slow\""),
            ("send", "method = \"$/cancelRequest\", params = { id = 3 }"),
            ("send", "id = 2, method = \"textDocument/hover\""),
            ("receive", "id = 2, result = { a = 1 }"),
            ("receive", "error = { code = -32800, message = \"cancelled\" }, id = 3"),
            ("receive", "id = 2"),
        ];
        let mut text = String::new();
        for (way, table) in lines {
            text += &format!(
                "[DEBUG][2026-11-18 05:45:54] .../rpc.lua:347\t\"rpc.{way}\"\t{{ jsonrpc = \"2.0\", {table} }}\n"
            );
        }
        let mut collected = Collected::default();
        let input = Input::from_reader("lsp.log", Box::new(std::io::Cursor::new(text)), None).expect("readable");
        read(input, &Options::default(), &mut 1, &mut collected).expect("a log");
        let names: Vec<&str> = collected.sessions.iter().map(|session| session.name.as_str()).collect();
        assert_eq!(names, ["lsp", "lsp server 2"]);
        let of = |session| {
            let events = collected.events.iter().filter(move |event| event.session == session);
            let messages = events.filter_map(Event::message);
            messages.map(|(_, message)| message.id.as_ref().map(ToString::to_string)).collect::<Vec<_>>()
        };
        let ids = |ids: &[&str]| {
            let id = |id: &&str| (!id.is_empty()).then(|| id.to_string());
            ids.iter().map(id).collect::<Vec<_>>()
        };
        assert_eq!(of(1), ids(&["1", "1", "", "2", "3", "", "2", "3"]));
        assert_eq!(of(2), ids(&["1", "1", "", "2", "2"]));
    }
}
