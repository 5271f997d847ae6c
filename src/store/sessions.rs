//! What has been recorded: sessions, and their events in order.

use std::ops::ControlFlow;

use rusqlite::{OptionalExtension, Row};

use super::Store;
use super::rows::{EVENT_COLUMNS, NamesByNumber, key_of, knows_from, read_event, seq_of, source_from};
use super::writer::Tail;
use crate::error::{Doing, Error, Result};
use crate::event::{Event, Micros, Session, SessionKey, StreamId};

/// A session as the store has it. `session.key` is the store's number for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub session: Session,
    /// How many events it has: their seqs run from 1 to this.
    pub events: u64,
    /// When the last of them happened; the start, if there is none.
    pub last_at: Micros,
}

impl Recorded {
    pub fn number(&self) -> SessionKey {
        self.session.key
    }
}

const SESSION_COLUMNS: &str = "s.id, s.name, s.source, s.target, s.started_at, s.knows, e.key, e.at \
     FROM sessions s LEFT JOIN events e ON e.key = \
     (SELECT max(key) FROM events WHERE key >= s.id << 40 AND key < (s.id + 1) << 40)";

fn recorded(row: &Row<'_>) -> rusqlite::Result<Recorded> {
    let started_at: i64 = row.get(4)?;
    Ok(Recorded {
        session: Session {
            key: row.get(0)?,
            name: row.get(1)?,
            source: source_from(row.get_ref(2)?.as_str()?),
            target: row.get(3)?,
            started_at,
            knows: knows_from(row.get(5)?),
        },
        events: row.get::<_, Option<i64>>(6)?.map_or(0, seq_of),
        last_at: started_at + row.get::<_, Option<i64>>(7)?.unwrap_or(0),
    })
}

impl Store {
    /// All sessions, oldest first.
    pub fn sessions(&self) -> Result<Vec<Recorded>> {
        let doing = "listing the sessions";
        let sql = format!("SELECT {SESSION_COLUMNS} ORDER BY s.id");
        let mut select = self.conn.prepare_cached(&sql).doing(doing)?;
        let rows = select.query_map([], recorded).doing(doing)?;
        rows.collect::<rusqlite::Result<_>>().doing(doing)
    }

    pub fn session(&self, number: SessionKey) -> Result<Recorded> {
        self.one_session("WHERE s.id = ?", &number)?
            .ok_or_else(|| Error::new(format!("there is no session {number}; see `rpctap sessions`")))
    }

    /// By number, by name (the newest of that name), or `last`.
    pub fn find_session(&self, wanted: &str) -> Result<Recorded> {
        let found = match wanted.parse::<u32>() {
            Ok(number) => self.one_session("WHERE s.id = ?", &number)?,
            Err(_) => None,
        };
        let found = match found {
            None => self.one_session("WHERE s.name = ? ORDER BY s.id DESC LIMIT 1", &wanted)?,
            found => found,
        };
        let found = match found {
            None if wanted == "last" => self.one_session("WHERE ? = 'last' ORDER BY s.id DESC LIMIT 1", &wanted)?,
            found => found,
        };
        found.ok_or_else(|| match wanted {
            "last" => Error::new("nothing has been recorded yet"),
            _ => Error::new(format!("there is no session {wanted:?}; see `rpctap sessions`")),
        })
    }

    fn one_session(&self, filter: &str, value: &dyn rusqlite::ToSql) -> Result<Option<Recorded>> {
        let sql = format!("SELECT {SESSION_COLUMNS} {filter}");
        let mut select = self.conn.prepare_cached(&sql).doing("finding the session")?;
        select.query_row([value], recorded).optional().doing("finding the session")
    }

    /// Tells the events of a session in the order of `seq`, until there are no more or the listener breaks off.
    pub fn for_each_event(&self, session: SessionKey, each: &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<()> {
        self.for_each_event_after(session, 0, each)
    }

    /// The same, of those after `seq`: for following a session that is still being recorded.
    pub fn for_each_event_after(
        &self,
        session: SessionKey,
        seq: u64,
        each: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<()> {
        let doing = format!("reading session {session}");
        let started_at = self.session(session)?.session.started_at;
        let sql = format!("SELECT {EVENT_COLUMNS} FROM events WHERE key > ? AND key < ? ORDER BY key");
        let mut select = self.conn.prepare_cached(&sql).doing(&doing)?;
        let number = i64::from(session);
        let mut rows = select.query([key_of(number, seq), key_of(number + 1, 0)]).doing(&doing)?;
        let mut names = NamesByNumber::new(&self.conn);
        while let Some(row) = rows.next().doing(&doing)? {
            if let Some(event) = read_event(row, session, started_at, &mut names)
                && each(event).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// Where a session stands: its last seq, and how far each of its streams has come.
    pub fn tail(&self, session: SessionKey) -> Result<Tail> {
        let doing = "finding the end of the session";
        let last_seq = self.session(session)?.events;
        let mut select = self
            .conn
            .prepare_cached(
                "SELECT stream, max(start), start + length(bytes) FROM blocks WHERE session = ? GROUP BY stream",
            )
            .doing(doing)?;
        let rows = select
            .query_map([session], |row| Ok((row.get::<_, i64>(0)? as StreamId, row.get::<_, i64>(2)? as u64)))
            .doing(doing)?;
        Ok(Tail { last_seq, streams: rows.collect::<rusqlite::Result<_>>().doing(doing)? })
    }
}
