//! Rows out of another program's SQLite file, for importers that know its tables.
//!
//! Opened for reading and never altered; a file that is damaged gives the rows before the damage and then the reason.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Doing, Result};

/// One value, as text: numbers as they would be written, `NULL` as `None`.
pub type Cell = Option<String>;

/// Gives every row of a query.
pub fn read_rows(path: &Path, sql: &str, give: &mut dyn FnMut(&[Cell])) -> Result<()> {
    let doing = "reading its tables";
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).doing(doing)?;
    conn.busy_timeout(Duration::from_secs(5)).doing(doing)?;
    let mut statement = conn.prepare(sql).doing(doing)?;
    let width = statement.column_count();
    let mut rows = statement.query([]).doing(doing)?;
    while let Some(row) = rows.next().doing(doing)? {
        let cells: Vec<Cell> = (0..width)
            .map(|at| match row.get_ref_unwrap(at) {
                ValueRef::Null => None,
                ValueRef::Integer(int) => Some(int.to_string()),
                ValueRef::Real(real) => Some(real.to_string()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            })
            .collect();
        give(&cells);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Collected, Event, Side};
    use crate::import::{Input, Options, read};
    use crate::rpc::Kind;

    /// Makes a SQLite file and reads it as a recording.
    fn imported(sql: &str) -> (Collected, &'static str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("captures.db");
        Connection::open(&path).expect("a new file").execute_batch(sql).expect("its tables");
        let mut collected = Collected::default();
        let options = Options { read_rows: Some(read_rows), ..Options::default() };
        let input = Input::open(&path).expect("readable");
        let format = read(input, &options, &mut 1, &mut collected).expect("read");
        (collected, format)
    }

    fn kinds(collected: &Collected) -> Vec<(Side, Kind)> {
        collected.events.iter().filter_map(Event::message).map(|(from, message)| (from, message.kind)).collect()
    }

    #[test]
    fn acp_devtools() {
        let (collected, format) = imported(
            "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, agent_command TEXT,
                 started_at INTEGER NOT NULL, ended_at INTEGER, client_name TEXT);
             CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL,
                 seq INTEGER NOT NULL, timestamp INTEGER NOT NULL, direction TEXT NOT NULL, kind TEXT NOT NULL, method TEXT,
                 rpc_id TEXT, raw TEXT NOT NULL, payload_json TEXT, parse_error TEXT);
             INSERT INTO sessions VALUES (1, NULL, 'agent --acp', 1794962743000, NULL, NULL), (2, 'two', 'x', 0, NULL, NULL);
             INSERT INTO messages (session_id, seq, timestamp, direction, kind, raw) VALUES
                 (1, 2, 1794962743700, 'agent-to-editor', 'response', '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}'),
                 (1, 1, 1794962743669, 'editor-to-agent', 'request',
                     '{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}'),
                 (2, 1, 1794962750000, 'editor-to-agent', 'unknown', 'no json');",
        );
        assert_eq!((format, collected.sessions.len()), ("acp-devtools", 2));
        assert_eq!(kinds(&collected)[..2], [(Side::Client, Kind::Request), (Side::Server, Kind::Result)]);
        assert!(matches!(kinds(&collected)[2], (Side::Client, Kind::Unreadable(_))));
        assert_eq!(collected.sessions[0].started_at, 1_794_962_743_669_000);
        assert!(collected.sessions[0].name.contains("agent --acp"));
    }

    #[test]
    fn lsp_devtools() {
        let (collected, format) = imported(
            "CREATE TABLE IF NOT EXISTS protocol (
                 session TEXT,
                 timestamp REAL,
                 source TEXT,

                 id TEXT NULL,
                 method TEXT NULL,
                 params TEXT NULL,
                 result TEXT NULL,
                 error TEXT NULL
             );
             INSERT INTO protocol VALUES
                 ('a', '2026-11-18 00:45:43.669', 'client', '1', 'initialize', '{}', NULL, NULL),
                 ('a', '2026-11-18 00:45:44', 'server', '1', NULL, NULL, '{\"capabilities\":{}}', NULL),
                 ('a', '2026-11-18 00:45:45', 'client', NULL, 'initialized', NULL, NULL, NULL),
                 ('a', '2026-11-18 00:45:46', 'client', '2', 'shutdown', NULL, NULL, NULL),
                 ('a', '2026-11-18 00:45:47', 'server', '2', NULL, NULL, NULL, NULL),
                 ('a', '2026-11-18 00:45:48', 'client', 'x3', 'no/such', NULL, NULL, NULL),
                 ('a', '2026-11-18 00:45:49', 'server', 'x3', NULL, NULL, NULL, '{\"code\":-32601,\"message\":\"no\"}');",
        );
        assert_eq!((format, collected.sessions.len()), ("lsp-devtools", 1));
        let (client, server) = (Side::Client, Side::Server);
        assert_eq!(
            kinds(&collected),
            [
                (client, Kind::Request),
                (server, Kind::Result),
                (client, Kind::Notification),
                (client, Kind::Request),
                (server, Kind::Result),
                (client, Kind::Request),
                (server, Kind::Error),
            ]
        );
        assert_eq!(collected.sessions[0].started_at, 1_794_962_743_669_000);
    }
}
