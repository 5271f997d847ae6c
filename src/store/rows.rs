//! One event, one row: how each is written and read back.
//!
//! Comes in: an [`Event`] or a row of `events`. Goes out: the other. The numbers for kinds and sides are part of
//! the schema and never change their meaning.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Row};

use super::load::Run;
use super::writer::Known;
use crate::event::{Event, Happening, Knows, Micros, Session, SessionKey, Side, Source, Span, What};
use crate::rpc::{Id, Kind, Marks, Message, Name, Oddities, Unreadable};
use crate::wire::Fault;

/// The low bits of a key hold the seq; the rest the session.
const SEQ_BITS: u32 = 40;

const REQUEST: i64 = 0;
const NOTIFICATION: i64 = 1;
const RESULT: i64 = 2;
const ERROR: i64 = 3;
const UNREADABLE: i64 = 4;
const FAULT: i64 = 5;
const STDERR: i64 = 6;
const HAPPENING: i64 = 7;

/// Names known by heart. A peer that invents methods without end makes us ask the table again, not grow.
pub(super) const MOST_NAMES: usize = 64 * 1024;

pub(super) fn key_of(session: i64, seq: u64) -> i64 {
    session << SEQ_BITS | seq as i64
}

pub(super) fn seq_of(key: i64) -> u64 {
    (key & ((1 << SEQ_BITS) - 1)) as u64
}

/// Method names and their numbers.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Name, i64>,
}

impl Names {
    pub fn number(&self, name: &str) -> Option<i64> {
        self.numbers.get(name).copied()
    }

    pub fn learn(&mut self, name: &Name, number: i64) {
        if self.numbers.len() >= MOST_NAMES {
            self.numbers.clear();
        }
        self.numbers.insert(Arc::clone(name), number);
    }

    pub fn take_in(&mut self, fresh: Names) {
        if self.numbers.len() + fresh.numbers.len() > MOST_NAMES {
            self.numbers.clear();
        }
        self.numbers.extend(fresh.numbers);
    }
}

/// The statements of one transaction.
pub(super) struct Inserts<'a> {
    conn: &'a Connection,
    event: CachedStatement<'a>,
    block: CachedStatement<'a>,
}

impl<'a> Inserts<'a> {
    pub fn prepare(conn: &'a Connection) -> rusqlite::Result<Inserts<'a>> {
        Ok(Inserts {
            conn,
            event: conn.prepare_cached(&format!(
                "INSERT INTO events ({EVENT_COLUMNS}) VALUES (?{})",
                ", ?".repeat(COLUMNS - 1)
            ))?,
            block: conn.prepare_cached("INSERT INTO blocks (session, stream, start, bytes) VALUES (?, ?, ?, ?)")?,
        })
    }

    pub fn session(&self, session: &Session) -> rusqlite::Result<i64> {
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO sessions (name, source, target, started_at, knows) VALUES (?, ?, ?, ?, ?)")?;
        insert.insert((
            &session.name,
            source_text(&session.source),
            &session.target,
            session.started_at,
            knows_bits(session.knows),
        ))
    }

    /// Other taps may have named the method meanwhile, so the table is asked, not trusted to be ours.
    pub fn method(&self, name: &str) -> rusqlite::Result<i64> {
        self.conn.prepare_cached("INSERT OR IGNORE INTO methods (name) VALUES (?)")?.execute([name])?;
        self.conn.prepare_cached("SELECT id FROM methods WHERE name = ?")?.query_row([name], |row| row.get(0))
    }

    pub fn conn(&self) -> &'a Connection {
        self.conn
    }

    /// The last key of the table; 0 when it is empty.
    pub fn last_key(&self) -> rusqlite::Result<i64> {
        let mut select = self.conn.prepare_cached("SELECT ifnull(max(key), 0) FROM events")?;
        select.query_row([], |row| row.get(0))
    }

    pub fn run(&mut self, session: i64, run: &Run) -> rusqlite::Result<()> {
        for (start, bytes) in run.blocks() {
            self.block.execute((session, run.stream as i64, start as i64, bytes))?;
        }
        Ok(())
    }

    pub fn taken(&self, spool: &str, session: Option<i64>, position: u64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO spools (name, session, taken) VALUES (?, ?, ?) \
                   ON CONFLICT (name) DO UPDATE SET session = excluded.session, taken = excluded.taken";
        self.conn.prepare_cached(sql)?.execute((spool, session, position as i64)).map(drop)
    }

    pub fn event(&mut self, known: Known, method: Option<i64>, event: &Event) -> rusqlite::Result<()> {
        let statement = &mut self.event;
        statement.raw_bind_parameter(1, key_of(known.id, event.seq))?;
        for column in 1..COLUMNS {
            statement.raw_bind_parameter(column + 1, value(event, known.started_at, method, column))?;
        }
        statement.raw_execute().map(drop)
    }
}

/// What [`read_event`] selects and [`value`] gives, in order.
pub(super) const EVENT_COLUMNS: &str =
    "key, at, kind, sender, id, method, detail, print, stream, start, len, carrier, batch, oddities, reason";

/// How many they are.
pub(super) const COLUMNS: usize = 15;

/// The first of those that most messages have nothing in.
pub(super) const CARRIER: usize = 11;

/// What an event has in a column behind its key.
#[inline]
pub(super) fn value(event: &Event, started_at: Micros, method: Option<i64>, column: usize) -> ToSqlOutput<'_> {
    let message = event.message().map(|(_, message)| message);
    let span = || event.span();
    let number = match column {
        1 => Some(event.at - started_at),
        2 => Some(kind_number(&event.what)),
        3 => event.from().map(side_number),
        4 => return message.and_then(|message| message.id.as_ref()).map_or(NULL, stored_id),
        5 => method,
        6 => return detail(&event.what),
        7 => message.map(|message| message.params_print as i64).filter(|print| *print != 0),
        8 => span().map(|span| span.stream as i64),
        9 => span().map(|span| span.start as i64),
        10 => span().map(|span| span.len as i64),
        11 => event.carrier.map(|carrier| carrier as i64),
        12 => message.and_then(|message| message.batch_index).map(i64::from),
        13 => message.map(|message| i64::from(message.oddities.0)).filter(|oddities| *oddities != 0),
        _ => return reason(&event.what).map_or(NULL, text_value),
    };
    number.map_or(NULL, |number| ToSqlOutput::Borrowed(ValueRef::Integer(number)))
}

const NULL: ToSqlOutput<'static> = ToSqlOutput::Borrowed(ValueRef::Null);

fn text_value(text: &str) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
}

fn kind_number(what: &What) -> i64 {
    match what {
        What::Message { message, .. } => match message.kind {
            Kind::Request => REQUEST,
            Kind::Notification => NOTIFICATION,
            Kind::Result => RESULT,
            Kind::Error => ERROR,
            Kind::Unreadable(_) => UNREADABLE,
        },
        What::Fault { .. } => FAULT,
        What::Stderr { .. } => STDERR,
        What::Happening(_) => HAPPENING,
    }
}

/// An id as a column value: an integer, or the raw literal as text.
fn stored_id(id: &Id) -> ToSqlOutput<'_> {
    match id {
        Id::Int(int) => ToSqlOutput::Borrowed(ValueRef::Integer(*int)),
        Id::Number(raw) | Id::Invalid(raw) => text_value(raw),
        other => ToSqlOutput::from(other.to_raw()),
    }
}

fn detail(what: &What) -> ToSqlOutput<'_> {
    match what {
        What::Message { message, .. } if !message.marks.is_empty() => text_value(message.marks.as_json()),
        What::Happening(what) => ToSqlOutput::from(serde_json::to_string(what).unwrap_or_default()),
        _ => NULL,
    }
}

fn reason(what: &What) -> Option<&str> {
    match what {
        What::Message { message, .. } => match message.kind {
            Kind::Unreadable(reason) => Some(reason.name()),
            _ => None,
        },
        What::Fault { fault, .. } => Some(fault.name()),
        _ => None,
    }
}

/// Reads names by number, asking the table once for each.
pub(super) struct NamesByNumber<'a> {
    conn: &'a Connection,
    names: Vec<Option<Name>>,
}

impl<'a> NamesByNumber<'a> {
    pub fn new(conn: &'a Connection) -> NamesByNumber<'a> {
        NamesByNumber { conn, names: Vec::new() }
    }

    fn name(&mut self, number: i64) -> Option<Name> {
        let place = usize::try_from(number).ok()?;
        if let Some(Some(name)) = self.names.get(place) {
            return Some(Arc::clone(name));
        }
        let name: String = self
            .conn
            .prepare_cached("SELECT name FROM methods WHERE id = ?")
            .and_then(|mut select| select.query_row([number], |row| row.get(0)))
            .ok()?;
        let name = Name::from(name);
        if place < MOST_NAMES {
            if self.names.len() <= place {
                self.names.resize(place + 1, None);
            }
            self.names[place] = Some(Arc::clone(&name));
        }
        Some(name)
    }
}

/// One row as an event; `None` for a row that makes no sense, which only a foreign hand can have written.
pub(super) fn read_event(
    row: &Row<'_>,
    session: SessionKey,
    started_at: i64,
    names: &mut NamesByNumber<'_>,
) -> Option<Event> {
    let column = |at: usize| row.get_ref_unwrap(at);
    let kind = int(column(2))?;
    let what = match kind {
        REQUEST..=UNREADABLE => {
            let kind = match kind {
                REQUEST => Kind::Request,
                NOTIFICATION => Kind::Notification,
                RESULT => Kind::Result,
                ERROR => Kind::Error,
                _ => Kind::Unreadable(Unreadable::from_name(text(column(14))?)?),
            };
            let message = Message {
                kind,
                id: match column(4) {
                    ValueRef::Integer(int) => Some(Id::Int(int)),
                    ValueRef::Text(raw) => Some(Id::from_raw(std::str::from_utf8(raw).ok()?)),
                    _ => None,
                },
                method: int(column(5)).and_then(|number| names.name(number)),
                marks: text(column(6)).map(Marks::from_json).unwrap_or_default(),
                params_print: int(column(7)).unwrap_or(0) as u64,
                batch_index: int(column(12)).map(|index| index as u32),
                oddities: Oddities(int(column(13)).unwrap_or(0) as u16),
            };
            What::Message { from: side(column(3))?, message, body: span(row) }
        }
        FAULT => What::Fault { from: side(column(3))?, fault: Fault::from_name(text(column(14))?)?, bytes: span(row) },
        STDERR => What::Stderr { bytes: span(row) },
        HAPPENING => What::Happening(happening(text(column(6))?)),
        _ => return None,
    };
    Some(Event {
        session,
        seq: seq_of(int(column(0))?),
        at: started_at + int(column(1))?,
        carrier: int(column(11)).map(|carrier| carrier as u64),
        what,
    })
}

/// A happening this rpctap does not know is told as a note: a newer one may have recorded it.
fn happening(text: &str) -> Happening {
    serde_json::from_str(text).unwrap_or_else(|_| Happening::Note { text: text.to_string() })
}

fn span(row: &Row<'_>) -> Span {
    let part = |at: usize| int(row.get_ref_unwrap(at)).unwrap_or(0) as u64;
    Span { stream: part(8), start: part(9), len: part(10) }
}

fn int(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(int) => Some(int),
        _ => None,
    }
}

fn text(value: ValueRef<'_>) -> Option<&str> {
    match value {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn side(value: ValueRef<'_>) -> Option<Side> {
    match int(value)? {
        0 => Some(Side::Client),
        1 => Some(Side::Server),
        _ => None,
    }
}

fn side_number(side: Side) -> i64 {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

pub(super) fn source_text(source: &Source) -> String {
    match source {
        Source::Stdio => "stdio".to_string(),
        Source::Http => "http".to_string(),
        Source::Import(format) => format!("import:{format}"),
    }
}

pub(super) fn source_from(text: &str) -> Source {
    match text {
        "stdio" => Source::Stdio,
        "http" => Source::Http,
        other => Source::Import(other.strip_prefix("import:").unwrap_or(other).to_string()),
    }
}

pub(super) fn knows_bits(knows: Knows) -> i64 {
    [knows.times, knows.direction, knows.ids, knows.payload, knows.ends]
        .iter()
        .enumerate()
        .map(|(bit, known)| i64::from(*known) << bit)
        .sum()
}

pub(super) fn knows_from(bits: i64) -> Knows {
    let bit = |at: u32| bits >> at & 1 == 1;
    Knows { times: bit(0), direction: bit(1), ids: bit(2), payload: bit(3), ends: bit(4) }
}

pub(super) fn as_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(int) => Some(int.to_string()),
        ValueRef::Real(real) => Some(real.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}
