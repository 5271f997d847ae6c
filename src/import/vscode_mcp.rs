//! VS Code's output channel of an MCP server.
//!
//! `2026-07-24 02:03:14.089 [debug] [editor -> server] {…}` and its answer, with `[Client Says]` and `[Server Says]` in
//! the first versions. The log has traffic only where its level is set to trace or debug. Times are local, without a
//! zone.

use crate::error::{Error, Result};
use crate::event::{How, Knows, Micros, Party, Side};

use super::input::HEAD_BYTES;
use super::json::value_end;
use super::runs::Runs;
use super::{Importer, Reading, Sureness, time};

pub struct VscodeMcp;

const NO_MESSAGES: &str =
    "there are no messages in it: VS Code logs them at level debug or trace only (Developer: Set Log Level...)";
const NOTE: &str = "VS Code logs local time without a zone: it is told here as if it were UTC";

impl Importer for VscodeMcp {
    fn name(&self) -> &'static str {
        "vscode-mcp"
    }

    fn about(&self) -> &'static str {
        "VS Code's output of an MCP server, at log level trace or debug"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = String::from_utf8_lossy(head);
        let mut sureness = 0;
        for (_, said) in text.lines().filter_map(entry) {
            if direction(said).is_some() {
                return 95;
            }
            if said.starts_with("Connection state:") || said.starts_with("Starting server") {
                sureness = 60;
            }
        }
        sureness
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let head = reading.head();
        if head.len() < HEAD_BYTES && !String::from_utf8_lossy(&head).lines().any(is_message) {
            return Err(Error::new(NO_MESSAGES));
        }
        let mut runs = Runs::new(None, Knows::ALL, &[NOTE]);
        let mut lines = reading.lines();
        let mut last_at = 0;
        let mut others = 0;
        let mut messages = 0u64;
        while let Some(line) = lines.next_line() {
            let text = String::from_utf8_lossy(line.text);
            let Some((at, said)) = entry(&text) else {
                if !text.trim().is_empty() {
                    others += 1;
                    if text.trim_start().starts_with('{') || line.left_out > 0 {
                        reading.unread_line(line.number, line.text.len() as u64 + line.left_out, "no time before it");
                    }
                }
                continue;
            };
            last_at = at;
            if let Some((from, payload)) = direction(said) {
                messages += 1;
                let end = value_end(payload.as_bytes(), 0).unwrap_or(payload.len());
                runs.message(reading, from, at, &payload.as_bytes()[..end]);
            } else if let Some(stderr) = said.strip_prefix("[server stderr] ") {
                runs.stderr(reading, at, stderr.as_bytes());
            } else if said.starts_with("Starting server") {
                runs.started(reading, at);
            } else if said.starts_with("Connection state: Stopped") {
                runs.ended(reading, at, Side::Client, Party::Client, How::Eof);
                runs.ended(reading, at, Side::Server, Party::Client, How::Eof);
            } else if said.starts_with("Connection state: Error") {
                runs.ended(reading, at, Side::Server, Party::Server, How::Error);
            }
        }
        if others > 0 && runs.is_open() {
            let text = format!("{others} lines of the log are no entries of their own");
            runs.happening(reading, last_at, crate::event::Happening::Note { text });
        }
        if messages == 0 && runs.is_open() {
            runs.happening(reading, last_at, crate::event::Happening::Note { text: NO_MESSAGES.to_string() });
        }
        runs.finish(reading);
        Ok(())
    }
}

/// `2026-07-24 02:03:14.089 [debug] text`.
fn entry(line: &str) -> Option<(Micros, &str)> {
    let (stamp, rest) = line.split_once(" [")?;
    let at = time::from_text(stamp)?;
    let (level, said) = rest.split_once("] ")?;
    matches!(level, "trace" | "debug" | "info" | "warning" | "warn" | "error").then_some((at, said))
}

fn is_message(line: &str) -> bool {
    entry(line).is_some_and(|(_, said)| direction(said).is_some())
}

fn direction(said: &str) -> Option<(Side, &str)> {
    for (mark, from) in [
        ("[editor -> server] ", Side::Client),
        ("[server -> editor] ", Side::Server),
        ("[Client Says] ", Side::Client),
        ("[Server Says] ", Side::Server),
    ] {
        if let Some(payload) = said.strip_prefix(mark) {
            return Some((from, payload));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::event::Collected;
    use crate::import::{Input, Options, read};

    #[test]
    fn a_log_of_a_level_without_messages_says_which_level_has_them() {
        let text = "2026-07-24 02:03:14.031 [info] Starting server tasks\n\
                    2026-07-24 02:03:14.089 [info] Connection state: Running\n\
                    2026-07-24 02:04:10.000 [info] Connection state: Stopped\n";
        let mut collected = Collected::default();
        let input = Input::from_reader("log", Box::new(text.as_bytes()), None).expect("readable");
        let refused = read(input, &Options::default(), &mut 1, &mut collected).expect_err("no messages");
        assert!(refused.to_string().contains("level debug or trace"), "{refused}");
        assert!(collected.sessions.is_empty());
    }
}
