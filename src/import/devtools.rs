//! The SQLite files of acp-devtools and of lsp-devtools.
//!
//! acp-devtools keeps each message as it came (`messages.raw`). lsp-devtools keeps its parts in one table, `protocol`, and
//! drops what Python takes for false: empty params, null, empty and zero results vanish there, and are put back as null. How
//! rows are read is not known here: the caller brings it along in the options.

use std::path::Path;

use crate::error::{Error, Result};
use crate::event::{Knows, Side};

use super::runs::{self, Runs};
use super::{Importer, Reading, Sureness, time};

/// Reads the rows of a query out of a SQLite file.
pub type ReadRows = fn(&Path, &str, &mut dyn FnMut(&[Option<String>])) -> Result<()>;

pub struct AcpDevtools;
pub struct LspDevtools;

const MAGIC: &[u8] = b"SQLite format 3\0";

/// The text of the tables stands on the first pages.
fn is_sqlite_with(head: &[u8], words: &[&str]) -> Sureness {
    let all = words.iter().all(|word| memchr::memmem::find(head, word.as_bytes()).is_some());
    if head.starts_with(MAGIC) && all { 100 } else { 0 }
}

fn rows(reading: &mut Reading<'_>, sql: &str, each: &mut dyn FnMut(&mut Reading<'_>, &[Option<String>])) -> Result<()> {
    let read = reading.options.read_rows.ok_or_else(|| Error::new("SQLite files cannot be read here"))?;
    let path = reading.input().path().map(Path::to_path_buf);
    let path = path.ok_or_else(|| Error::new("a SQLite file must be a plain file: unpack it first"))?;
    let done = read(&path, sql, &mut |cells| each(reading, cells));
    if let Err(cause) = done {
        reading.unread(0, cause.to_string());
    }
    Ok(())
}

impl Importer for AcpDevtools {
    fn name(&self) -> &'static str {
        "acp-devtools"
    }

    fn about(&self) -> &'static str {
        "the SQLite file of acp-devtools"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        is_sqlite_with(head, &["CREATE TABLE sessions", "CREATE TABLE messages", "agent_command", "parse_error"])
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let sql = "SELECT m.session_id, coalesce(s.name, s.agent_command), m.timestamp, m.direction, m.raw \
                   FROM messages m LEFT JOIN sessions s ON s.id = m.session_id ORDER BY m.session_id, m.seq";
        let mut current: Option<(Option<String>, Runs)> = None;
        let knows = self.knows();
        rows(reading, sql, &mut |reading, cells| {
            let [session, name, at, direction, raw] = cells else { return };
            if current.as_ref().is_none_or(|(known, _)| known != session) {
                if let Some((_, mut runs)) = current.take() {
                    runs.finish(reading);
                }
                current = Some((session.clone(), Runs::new(name.clone(), knows, &[])));
            }
            let Some((_, runs)) = &mut current else { return };
            let from = match direction.as_deref() {
                Some("editor-to-agent") => Side::Client,
                Some("agent-to-editor") => Side::Server,
                other => {
                    reading.unread(0, format!("a message of the unknown direction {other:?}"));
                    return;
                }
            };
            let at = at.as_deref().and_then(|text| time::from_number(text.as_bytes())).unwrap_or(0);
            runs.message(reading, from, at, raw.as_deref().unwrap_or("").trim_end().as_bytes());
        })?;
        if let Some((_, mut runs)) = current {
            runs.finish(reading);
        }
        Ok(())
    }
}

const LOST_IN_PYTHON: &str = "lsp-devtools drops empty params and results: an answer without one is told as null";

impl Importer for LspDevtools {
    fn name(&self) -> &'static str {
        "lsp-devtools"
    }

    fn about(&self) -> &'static str {
        "the SQLite file of lsp-devtools"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        is_sqlite_with(head, &["CREATE TABLE protocol", "session TEXT", "source TEXT"])
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let sql = "SELECT session, timestamp, source, id, method, params, result, error FROM protocol ORDER BY session, rowid";
        let mut current: Option<(Option<String>, Runs)> = None;
        let mut last_at = 0;
        let knows = self.knows();
        rows(reading, sql, &mut |reading, cells| {
            let [session, at, source, id, method, params, result, error] = cells else { return };
            if current.as_ref().is_none_or(|(known, _)| known != session) {
                if let Some((_, mut runs)) = current.take() {
                    runs.finish(reading);
                }
                current = Some((session.clone(), Runs::new(None, knows, &[LOST_IN_PYTHON])));
                last_at = 0;
            }
            let Some((_, runs)) = &mut current else { return };
            let from = if source.as_deref() == Some("server") { Side::Server } else { Side::Client };
            let at =
                at.as_deref().and_then(|text| time::from_number(text.as_bytes()).or_else(|| time::from_text(text)));
            let at = at.unwrap_or(last_at);
            last_at = at;
            let id = id.as_deref().map(runs::printed_id);
            let body = match (method, &id, error) {
                (Some(method), id, _) => runs::call(id.as_deref(), method, params.as_deref()),
                (None, Some(id), Some(error)) => {
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}").into_bytes()
                }
                (None, Some(id), None) => runs::result(id, result.as_deref().unwrap_or("null")),
                (None, None, _) => {
                    reading.unread(0, "a row with neither method nor id".to_string());
                    return;
                }
            };
            runs.message(reading, from, at, &body);
        })?;
        if let Some((_, mut runs)) = current {
            runs.finish(reading);
        }
        Ok(())
    }
}
