//! Many events at once, at the end of the table: one statement that selects them from memory.
//!
//! Comes in: the events of a load. Goes out: their rows. One row a statement, SQLite opens a cursor and seeks the end
//! of the table for each; where the keys of a stretch follow one another and come after all others, both stay where
//! they are, and SQLite itself counts the keys on. Everything else goes row by row. Only within a transaction that
//! keeps others from writing.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Error, Result};

use super::rows::{EVENT_COLUMNS, Inserts, key_of};
use super::table;
use super::writer::Known;
use crate::event::{Event, Micros, SessionKey, What};
use crate::rpc::{Kind, Message};

/// What the statement selects from.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    pub events: Vec<Event>,
    /// The number of each event's method.
    pub methods: Vec<Option<i64>>,
    pub rows: Range<usize>,
    pub started_at: Micros,
}

/// Where a stretch lies while it is written.
#[derive(Clone, Default)]
pub(super) struct Shelf(Arc<Mutex<Stretch>>);

/// Shorter stretches are not worth a statement of their own.
const WORTH_APPENDING: usize = 16;

impl Shelf {
    /// Makes the shelf a table of this connection, in place of one that was put up before: statements prepared for
    /// that one would go on reading from it.
    pub fn put_up(conn: &Connection) -> Result<Shelf> {
        conn.flush_prepared_statement_cache();
        let shelf = Shelf::default();
        table::put_up(conn, shelf.clone())?;
        Ok(shelf)
    }

    pub fn with<T>(&self, then: impl FnOnce(&mut Stretch) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes events with the numbers of their methods. They are given back, whatever comes of it.
    pub fn write(
        &self,
        inserts: &mut Inserts<'_>,
        events: &mut Vec<Event>,
        methods: &mut Vec<Option<i64>>,
        find: impl Fn(SessionKey) -> Option<Known>,
    ) -> Result<()> {
        let stretches = stretches(events);
        self.with(|stretch| (stretch.events, stretch.methods) = (std::mem::take(events), std::mem::take(methods)));
        let written = self.write_stretches(inserts, stretches, find);
        self.with(|stretch| {
            (*events, *methods) = (std::mem::take(&mut stretch.events), std::mem::take(&mut stretch.methods));
        });
        written
    }

    fn write_stretches(
        &self,
        inserts: &mut Inserts<'_>,
        stretches: Vec<(SessionKey, u64, Range<usize>)>,
        find: impl Fn(SessionKey) -> Option<Known>,
    ) -> Result<()> {
        let mut last_key = inserts.last_key()?;
        for (session, first_seq, rows) in stretches {
            let Some(known) = find(session) else { continue };
            let (first, last) = (key_of(known.id, first_seq), key_of(known.id, first_seq + rows.len() as u64 - 1));
            // SQLite counts on from the last key; one that is not next, or not last, must be told.
            let told = usize::from(first != last_key + 1);
            let appended = match first > last_key && rows.len() >= WORTH_APPENDING {
                true => rows.start + told..rows.end,
                false => rows.end..rows.end,
            };
            for row in rows.start..appended.start {
                self.with(|stretch| inserts.event(known, stretch.methods[row], &stretch.events[row]))?;
            }
            if !appended.is_empty() {
                self.append(inserts.conn(), appended, known.started_at, last)?;
            }
            last_key = last_key.max(last);
        }
        Ok(())
    }

    /// Writes these rows of the shelf behind the last row of the table, whose key is the one before theirs.
    fn append(&self, conn: &Connection, rows: Range<usize>, started_at: Micros, last_key: i64) -> Result<()> {
        let count = rows.len();
        self.with(|stretch| (stretch.rows, stretch.started_at) = (rows, started_at));
        let columns = EVENT_COLUMNS.strip_prefix("key, ").unwrap_or(EVENT_COLUMNS);
        // Most messages have nothing in the last columns, and asking for nothing takes time too.
        let columns = match self.with(|stretch| stretch.events[stretch.rows.clone()].iter().all(is_plain)) {
            true => columns.split_once(", carrier").map_or(columns, |(usual, _)| usual),
            false => columns,
        };
        let sql = format!("INSERT INTO events ({columns}) SELECT {columns} FROM shelf");
        let written = conn.prepare_cached(&sql)?.execute([])?;
        if written != count || conn.last_insert_rowid() != last_key {
            return Err(Error::StatementChangedRows(written));
        }
        Ok(())
    }
}

/// Events of one session whose numbers follow one another: the session, the first number and the places.
fn stretches(events: &[Event]) -> Vec<(SessionKey, u64, Range<usize>)> {
    let mut found: Vec<(SessionKey, u64, Range<usize>)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match found.last_mut() {
            Some((session, first_seq, rows))
                if *session == event.session && *first_seq + rows.len() as u64 == event.seq =>
            {
                rows.end = at + 1;
            }
            _ => found.push((event.session, event.seq, at..at + 1)),
        }
    }
    found
}

/// Whether the columns from `carrier` on are empty.
pub(super) fn is_plain(event: &Event) -> bool {
    let plain = |message: &Message| message.batch_index.is_none() && message.oddities.0 == 0;
    let unread = |message: &Message| matches!(message.kind, Kind::Unreadable(_));
    event.carrier.is_none()
        && match &event.what {
            What::Message { message, .. } => plain(message) && !unread(message),
            What::Fault { .. } => false,
            What::Stderr { .. } | What::Happening(_) => true,
        }
}
