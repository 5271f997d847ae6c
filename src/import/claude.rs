//! Claude Desktop's `mcp-server-*.log` and `mcp.log`.
//!
//! Three generations, told apart line by line: the whole JSON after `Message from client:`; JSON followed by
//! `{ metadata: undefined }`; and only `method="tools/call" id=3 params`, `id=3 result`, `id=3 error(code=-32603)`.
//! Lines without a time are the server's stderr. `mcp.log` has the lines of all servers, each a session of its own.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::event::{How, Knows, Micros, Party, Side};

use super::json::value_end;
use super::runs::{self, Runs};
use super::{Importer, Reading, Sureness, time};

pub struct ClaudeDesktop;

/// More servers than anyone configures: past it, lines are told as unread.
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
        let bare = {
            let input = reading.head();
            let text = String::from_utf8_lossy(&input);
            let mut messages = text.lines().filter_map(entry).filter_map(|entry| direction(entry.text));
            messages.next().is_some_and(|(_, payload)| !payload.starts_with('{'))
        };
        let (knows, note) = if bare { (Knows { payload: false, ..Knows::ALL }, BARE) } else { (Knows::ALL, WHOLE) };
        let mut servers: BTreeMap<String, Runs> = BTreeMap::new();
        let several = several_servers(&reading.head());
        let mut current: Option<String> = None;
        let mut inside_metadata = false;
        let mut last_at: Micros = 0;
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
                    reading.unread_line(line.number, line.text.len() as u64, "more servers than are read from one log");
                    continue;
                }
                let label = several.then(|| entry.server.to_string());
                servers.insert(entry.server.to_string(), Runs::new(label, knows, &[note]));
            }
            if current.as_deref() != Some(entry.server) {
                current = Some(entry.server.to_string());
            }
            let Some(runs) = servers.get_mut(entry.server) else { continue };
            match direction(entry.text) {
                Some((from, payload)) => match said(payload) {
                    Some(Said::Whole(body) | Said::Bare(body)) => runs.message(reading, from, entry.at, &body),
                    Some(Said::Cut) => {
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
