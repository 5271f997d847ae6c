//! Claude Desktop's `mcp-server-*.log` and `mcp.log`.
//!
//! Three generations, told apart line by line: the whole JSON after `Message from client:`; JSON followed by
//! `{ metadata: undefined }`; and only `method="tools/call" id=3 params`, `id=3 result`, `id=3 error(code=-32603)`. A log may
//! have runs of several.
//! Lines without a time are the server's stderr. `mcp.log` has the lines of all servers, each a session of its own.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::event::{Happening, How, Knows, Micros, Party, Side};

use super::json::{Fields, value_end};
use super::runs::{self, Runs};
use super::{Importer, Reading, Sureness, time};

pub struct ClaudeDesktop;

/// More servers than anyone configures: past it, lines are counted as unread.
const MOST_SERVERS: usize = 500;

const WHOLE: &str = "Claude Desktop logs what it sends and takes in, not when bytes reach the server";
const BARE: &str =
    "this Claude Desktop logs methods and ids only: what was cancelled, and with what result, is not known";

struct Entry<'a> {
    at: Micros,
    server: &'a str,
    text: &'a str,
}

enum Said {
    Whole(Vec<u8>),
    /// Only method and id were logged.
    Bare(Vec<u8>),
    Cut,
}

impl Importer for ClaudeDesktop {
    fn name(&self) -> &'static str {
        "claude-desktop"
    }

    fn about(&self) -> &'static str {
        "Claude Desktop's mcp-server-*.log and mcp.log, all generations"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = String::from_utf8_lossy(head);
        let entries = text.lines().filter_map(entry);
        let (mut messages, mut other) = (0, 0);
        for entry in entries.take(200) {
            match direction(entry.text) {
                Some(_) => messages += 1,
                None if entry.text.starts_with("Initializing server") || entry.text.starts_with("Server ") => {
                    other += 1
                }
                None => {}
            }
        }
        if messages > 0 {
            95
        } else if other > 0 {
            70
        } else {
            0
        }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut servers: BTreeMap<String, Runs> = BTreeMap::new();
        let several = several_servers(&reading.head());
        let mut current: Option<String> = None;
        let mut inside_metadata = false;
        let mut last_at: Micros = 0;
        let mut past_lines = 0u64;
        let mut lines = reading.lines();
        while let Some(line) = lines.next_line() {
            let text = String::from_utf8_lossy(line.text);
            let Some(entry) = entry(&text) else {
                if inside_metadata {
                    inside_metadata = !text.starts_with('}');
                } else if !text.trim().is_empty()
                    && let Some(runs) = current.as_ref().and_then(|name| servers.get_mut(name))
                    && runs.is_open()
                {
                    runs.stderr(reading, last_at, line.text);
                }
                continue;
            };
            last_at = entry.at;
            inside_metadata = text.trim_end().ends_with('{') && direction(entry.text).is_none();
            if !servers.contains_key(entry.server) {
                if servers.len() >= MOST_SERVERS {
                    past_lines += 1;
                    continue;
                }
                let label = several.then(|| entry.server.to_string());
                servers.insert(entry.server.to_string(), Runs::new(label, Knows::ALL, &[WHOLE]));
            }
            if current.as_deref() != Some(entry.server) {
                current = Some(entry.server.to_string());
            }
            let Some(runs) = servers.get_mut(entry.server) else { continue };
            match direction(entry.text) {
                Some((from, payload)) => match said(payload) {
                    Some(Said::Whole(body)) => {
                        runs.knowing(reading, Knows::ALL, &[WHOLE]);
                        runs.message(reading, from, entry.at, &body);
                    }
                    Some(Said::Bare(body)) => {
                        runs.knowing(reading, Knows { payload: false, ..Knows::ALL }, &[BARE]);
                        runs.message(reading, from, entry.at, &body);
                        if Fields::find(&body, "method") == Some(b"\"notifications/cancelled\"") {
                            // Any request that is open now may be the one, and is left unjudged.
                            let why = format!("line {}: which request is cancelled is not logged", line.number);
                            let lost = Happening::Lost { from: None, events: 0, bytes: 0, why };
                            runs.happening(reading, entry.at, lost);
                        }
                    }
                    Some(Said::Cut) => {
                        runs.knowing(reading, Knows::ALL, &[WHOLE]);
                        // It breaks off in the log; what is there is kept, and read as far as it goes.
                        runs.message(reading, from, entry.at, payload.as_bytes());
                    }
                    None => reading.unread_line(line.number, line.text.len() as u64, "a message in no known form"),
                },
                None if entry.text.starts_with("Initializing server") => runs.started(reading, entry.at),
                None if entry.text.starts_with("Server transport closed") => {
                    let how = if entry.text.contains("unexpectedly") { How::Error } else { How::Eof };
                    runs.ended(reading, entry.at, Side::Server, Party::Server, how);
                }
                None if entry.text.starts_with("Client transport closed") => {
                    runs.ended(reading, entry.at, Side::Client, Party::Client, How::Eof);
                }
                None => {}
            }
        }
        if past_lines > 0
            && let Some(runs) = servers.values_mut().find(|runs| runs.is_open())
        {
            let text = format!(
                "{MOST_SERVERS} servers were read, which is the most of one log: {past_lines} lines of others were not"
            );
            let at = runs.last_at().unwrap_or(last_at);
            runs.happening(reading, at, Happening::Note { text });
        }
        for runs in servers.values_mut() {
            runs.finish(reading);
        }
        Ok(())
    }
}

/// `2025-03-07T09:43:34.691Z [coolify] [info] text`, the brackets in either order, or the level alone.
fn entry(line: &str) -> Option<Entry<'_>> {
    let (stamp, mut rest) = line.split_once(' ')?;
    let at = time::from_text(stamp)?;
    let mut server = "";
    for _ in 0..2 {
        let Some((word, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once("] ")) else { break };
        if !matches!(word, "info" | "error" | "warn" | "debug") {
            server = word;
        }
        rest = after;
    }
    Some(Entry { at, server, text: rest })
}

fn direction(text: &str) -> Option<(Side, &str)> {
    if let Some(payload) = text.strip_prefix("Message from client: ") {
        return Some((Side::Client, payload));
    }
    text.strip_prefix("Message from server: ").map(|payload| (Side::Server, payload))
}

fn several_servers(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut names = text.lines().filter_map(entry).map(|entry| entry.server);
    let first = names.next().unwrap_or("");
    names.any(|name| name != first)
}

fn said(payload: &str) -> Option<Said> {
    if payload.starts_with(['{', '[']) {
        return Some(match value_end(payload.as_bytes(), 0) {
            Some(end) => Said::Whole(payload.as_bytes()[..end].to_vec()),
            None => Said::Cut,
        });
    }
    let mut rest = payload;
    let mut method = None;
    if let Some(inner) = rest.strip_prefix("method=\"") {
        let (name, after) = inner.split_once('"')?;
        method = Some(name);
        rest = after.trim_start();
    }
    let mut id = None;
    if let Some(after) = rest.strip_prefix("id=") {
        let (word, after) = after.split_once(' ').unwrap_or((after, ""));
        id = Some(runs::printed_id(word));
        rest = after;
    }
    let body = match (method, id) {
        (Some(method), id) => runs::call(id.as_deref(), method, None),
        (None, Some(id)) if rest.starts_with("error") => {
            let code = rest.split_once("code=").and_then(|(_, tail)| {
                let end = tail.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(tail.len());
                tail[..end].parse().ok()
            });
            runs::error(&id, code.unwrap_or(0), "", None)
        }
        (None, Some(id)) => runs::result(&id, "{}"),
        (None, None) => return None,
    };
    Some(Said::Bare(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Collected, What};
    use crate::import::{Input, Options, read};

    fn import(text: String) -> Collected {
        let mut collected = Collected::default();
        let input = Input::from_reader("log", Box::new(std::io::Cursor::new(text)), None).expect("readable");
        assert_eq!(read(input, &Options::default(), &mut 1, &mut collected).expect("a log"), "claude-desktop");
        collected
    }

    fn lost(collected: &Collected) -> Vec<&str> {
        let told = collected.events.iter().filter_map(|event| match &event.what {
            What::Happening(Happening::Lost { why, .. }) => Some(why.as_str()),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn what_is_known_is_known_of_each_run() {
        let line = |second: u32, text: &str| format!("2026-09-12T12:00:{second:02}.000Z [notes] [info] {text}\n");
        let text = [
            line(0, "Initializing server..."),
            "listening\n".to_string(),
            line(1, r#"Message from client: {"method":"initialize","jsonrpc":"2.0","id":0}"#),
            line(2, "Initializing server... { metadata: undefined }"),
            "listening again\n".to_string(),
            line(3, "Message from client: method=\"initialize\" id=0 params { metadata: undefined }"),
            line(4, "Message from client: method=\"notifications/cancelled\" params { metadata: undefined }"),
            line(5, "Initializing server... { metadata: undefined }"),
        ];
        let collected = import(text.concat());
        let knows: Vec<bool> = collected.sessions.iter().map(|session| session.knows.payload).collect();
        assert_eq!(knows, [true, false, false]);
        assert_eq!(lost(&collected), ["line 7: which request is cancelled is not logged"]);
        let stderr = |key| {
            let lines = collected.events.iter().filter(move |event| event.session == key);
            lines.filter(|event| matches!(event.what, What::Stderr { .. })).count()
        };
        assert_eq!((stderr(1), stderr(2), stderr(3)), (1, 1, 0));
    }

    #[test]
    fn past_the_most_servers_it_says_how_many_were_read() {
        let text: String = (0..MOST_SERVERS + 7)
            .map(|number| {
                format!(
                    "2026-09-12T12:00:00.000Z [n{number}] [info] Message from client: {{\"id\":0,\"method\":\"a\"}}\n"
                )
            })
            .collect();
        let collected = import(text);
        assert_eq!(collected.sessions.len(), MOST_SERVERS);
        let wanted = "500 servers were read, which is the most of one log: 7 lines of others were not";
        let is_told = |what: &What| matches!(what, What::Happening(Happening::Note { text }) if text == wanted);
        assert!(collected.events.iter().any(|event| is_told(&event.what)));
    }
}
