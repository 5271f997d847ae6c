//! Many events at once, at the end of the table: one statement that selects them from memory.
//!
//! Comes in: the events of a load. Goes out: their rows. One row a statement, SQLite opens a cursor and seeks the end
//! of the table for each; where the keys of a stretch follow one another and come after all others, both stay where
//! they are, and SQLite itself counts the keys on. Everything else goes row by row. Only within a transaction that
//! keeps others from writing.

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::vtab::{Context, Filters, IndexInfo, Module, VTab, VTabConnection, VTabCursor};
use rusqlite::{Connection, Error, Result, ffi};

use super::rows::{EVENT_COLUMNS, Inserts, key_of, value};
use super::writer::Known;
use crate::event::{Event, Micros, SessionKey, What};
use crate::rpc::{Kind, Message};

/// What the statement selects from.
#[derive(Debug, Default)]
struct Stretch {
    events: Vec<Event>,
    /// The number of each event's method.
    methods: Vec<Option<i64>>,
    rows: Range<usize>,
    started_at: Micros,
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
        const MODULE: &Module<'_, Table> = &Module::eponymous_only_module();
        let shelf = Shelf::default();
        conn.create_module(NAME, MODULE, Some(shelf.clone()))?;
        Ok(shelf)
    }

    fn with<T>(&self, then: impl FnOnce(&mut Stretch) -> T) -> T {
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
fn is_plain(event: &Event) -> bool {
    let plain = |message: &Message| message.batch_index.is_none() && message.oddities.0 == 0;
    let unread = |message: &Message| matches!(message.kind, Kind::Unreadable(_));
    event.carrier.is_none()
        && match &event.what {
            What::Message { message, .. } => plain(message) && !unread(message),
            What::Fault { .. } => false,
            What::Stderr { .. } | What::Happening(_) => true,
        }
}

const NAME: &CStr = c"shelf";

#[repr(C)]
struct Table {
    /// SQLite's own part, which must come first.
    base: ffi::sqlite3_vtab,
    shelf: Shelf,
}

// SAFETY: the base comes first in a struct of C's layout.
unsafe impl VTab<'_> for Table {
    type Aux = Shelf;
    type Cursor = Cursor;

    fn connect(
        _: &mut VTabConnection,
        shelf: Option<&Shelf>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Table)> {
        let shelf = shelf.cloned().unwrap_or_default();
        // The columns are told by their place, so that a name may be anything SQLite takes for one.
        let columns = c"CREATE TABLE shelf (at, kind, sender, id, method, detail, print, stream, start, len, carrier, batch, oddities, reason)";
        Ok((Cow::Borrowed(columns), Table { base: ffi::sqlite3_vtab::default(), shelf }))
    }

    fn best_index(&self, _: &mut IndexInfo) -> Result<bool> {
        Ok(true)
    }

    fn open(&mut self) -> Result<Cursor> {
        let shelf = self.shelf.clone();
        Ok(Cursor { base: ffi::sqlite3_vtab_cursor::default(), shelf, stretch: Stretch::default() })
    }
}

/// Holds the stretch for as long as it is read, so that nothing is locked for each value.
#[repr(C)]
struct Cursor {
    /// SQLite's own part, which must come first.
    base: ffi::sqlite3_vtab_cursor,
    shelf: Shelf,
    stretch: Stretch,
}

// SAFETY: the base comes first in a struct of C's layout.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, _: c_int, _: Option<&str>, _: &Filters<'_>) -> Result<()> {
        self.stretch = self.shelf.with(std::mem::take);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.stretch.rows.start += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.stretch.rows.is_empty()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let Stretch { events, methods, rows, started_at } = &self.stretch;
        let method = methods.get(rows.start).copied().flatten();
        context.set_result(value(&events[rows.start], *started_at, method, column as usize + 1))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.stretch.rows.start as i64)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let stretch = std::mem::take(&mut self.stretch);
        self.shelf.with(|place| *place = stretch);
    }
}
