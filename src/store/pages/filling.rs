//! A new store, filled page by page for as long as its rows come in order.
//!
//! Comes in: loads. Goes out: the pages of `events`, of `blocks` and of its index, and what SQLite itself is to write
//! when they are whole: sessions and methods. A load whose events do not all come behind those before is refused: from
//! there on SQLite takes them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Result};

use super::Pages;
use super::index::{self, Entry};
use super::record::Record;
use super::tree::Tree;
use crate::event::{Event, Session, SessionKey};
use crate::rpc::Name;
use crate::store::append::is_plain;
use crate::store::load::{Load, Run};
use crate::store::rows::{CARRIER, COLUMNS, Inserts, MOST_NAMES, key_of, value};
use crate::store::writer::{Book, Known};

/// What is filled.
pub(in crate::store) const TABLES: [&str; 3] = ["events", "blocks", "blocks_by_place"];

/// So many names are found without a search: a conversation has few.
const NAMES_AT_HAND: usize = 8;

pub(in crate::store) struct Filling {
    pages: Pages,
    events: Tree,
    blocks: Tree,
    last_key: i64,
    /// Where each block lies in its stream.
    places: Vec<Entry>,
    index_root: u32,
    record: Record,
    sessions: Vec<Session>,
    known: HashMap<SessionKey, Known>,
    methods: Methods,
}

/// Names in the order of their numbers.
#[derive(Default)]
struct Methods {
    names: Vec<Name>,
    numbers: HashMap<Name, i64>,
    at_hand: Vec<(Name, i64)>,
}

impl Methods {
    #[inline]
    fn number(&mut self, name: &Name) -> i64 {
        match self.at_hand.iter().find(|(known, _)| Arc::ptr_eq(known, name)) {
            Some((_, number)) => *number,
            None => self.search(name),
        }
    }

    fn search(&mut self, name: &Name) -> i64 {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                self.names.push(Arc::clone(name));
                self.numbers.insert(Arc::clone(name), self.names.len() as i64);
                self.names.len() as i64
            }
        };
        if self.at_hand.len() == NAMES_AT_HAND {
            self.at_hand.remove(0);
        }
        self.at_hand.push((Arc::clone(name), number));
        number
    }
}

impl Filling {
    /// Begins with a store that has its tables and nothing in them, which nobody has open; `None` where it is not
    /// laid out as expected. The roots are those of the [`TABLES`].
    pub fn begin(file: File, [events, blocks, index]: [u32; 3]) -> io::Result<Option<Filling>> {
        Ok(Pages::behind(file)?.map(|pages| Filling {
            pages,
            events: Tree::new(events),
            blocks: Tree::new(blocks),
            last_key: 0,
            places: Vec::new(),
            index_root: index,
            record: Record::default(),
            sessions: Vec::new(),
            known: HashMap::new(),
            methods: Methods::default(),
        }))
    }

    /// Whether all of a load can come behind what is there.
    pub fn fits(&self, load: &Load) -> bool {
        let mut fresh = HashMap::new();
        for (session, id) in load.sessions.iter().zip(self.sessions.len() as i64 + 1..) {
            fresh.insert(session.key, id);
        }
        let mut last_key = self.last_key;
        let mut same: Option<(SessionKey, i64)> = None;
        let in_order = load.events.iter().all(|event| {
            let id = match same {
                Some((session, id)) if session == event.session => Some(id),
                _ => fresh.get(&event.session).copied().or(self.known.get(&event.session).map(|known| known.id)),
            };
            // What belongs to no session is left out.
            let Some(id) = id else { return true };
            same = Some((event.session, id));
            let key = key_of(id, event.seq);
            std::mem::replace(&mut last_key, key) < key
        });
        in_order && load.taken.is_none() && self.methods.names.len() <= MOST_NAMES
    }

    /// Takes in a load that fits.
    pub fn take(&mut self, load: &Load) -> io::Result<()> {
        for session in &load.sessions {
            self.sessions.push(session.clone());
            let id = self.sessions.len() as i64;
            self.known.insert(session.key, Known { id, started_at: session.started_at });
        }
        for run in &load.runs {
            if let Some(known) = self.known.get(&run.session).copied() {
                self.run(known, run)?;
            }
        }
        let mut same: Option<(SessionKey, Known)> = None;
        for event in &load.events {
            let known = match same {
                Some((session, known)) if session == event.session => Some(known),
                _ => self.known.get(&event.session).copied(),
            };
            if let Some(known) = known {
                same = Some((event.session, known));
                self.event(known, event)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, known: Known, run: &Run) -> io::Result<()> {
        for (start, bytes) in run.blocks() {
            self.record.begin();
            let (place, key) = ([known.id, run.stream as i64, start as i64], self.places.len() as i64 + 1);
            place.iter().for_each(|number| self.record.integer(*number));
            self.record.blob_behind(bytes.len());
            let [kinds, values] = self.record.parts();
            self.blocks.add(&mut self.pages, key, [kinds, values, bytes])?;
            self.places.push([place[0], place[1], place[2], key]);
        }
        Ok(())
    }

    fn event(&mut self, known: Known, event: &Event) -> io::Result<()> {
        let method = event.message().and_then(|(_, message)| message.method.as_ref());
        let method = method.map(|name| self.methods.number(name));
        let record = &mut self.record;
        record.begin();
        // The key stands before the row, and as nothing in it.
        record.null();
        let columns = if is_plain(event) { CARRIER } else { COLUMNS };
        for column in 1..columns {
            match value(event, known.started_at, method, column) {
                ToSqlOutput::Borrowed(ValueRef::Integer(number)) => record.integer(number),
                ToSqlOutput::Borrowed(ValueRef::Text(text)) => record.text(text),
                ToSqlOutput::Owned(Value::Integer(number)) => record.integer(number),
                ToSqlOutput::Owned(Value::Text(text)) => record.text(text.as_bytes()),
                _ => record.null(),
            }
        }
        self.last_key = key_of(known.id, event.seq);
        let [kinds, values] = record.parts();
        self.events.add(&mut self.pages, self.last_key, [kinds, values, &[]])
    }

    /// Writes the last pages: from here on SQLite may open the file. What is left to do there is given.
    pub fn finish(mut self) -> io::Result<Rest> {
        let pages = &mut self.pages;
        self.places.sort_unstable();
        let roots = [
            self.events.finish(pages)?,
            self.blocks.finish(pages)?,
            index::build(self.index_root, self.places, pages)?,
        ];
        self.pages.finish(&roots)?;
        Ok(Rest { sessions: self.sessions, names: self.methods.names, known: self.known })
    }
}

/// What a filled store lacks.
pub(in crate::store) struct Rest {
    sessions: Vec<Session>,
    names: Vec<Name>,
    known: HashMap<SessionKey, Known>,
}

impl Rest {
    /// Writes it, in one transaction; gives what one needs to know to go on.
    pub fn write(self, conn: &mut Connection) -> Result<Book> {
        let tx = conn.transaction()?;
        let mut book = Book::default();
        book.sessions = self.known;
        {
            let inserts = Inserts::prepare(&tx)?;
            for (session, number) in self.sessions.iter().zip(1..) {
                expect(inserts.session(session)?, number)?;
            }
            for (name, number) in self.names.iter().zip(1..) {
                expect(inserts.method(name)?, number)?;
                book.names.learn(name, number);
            }
        }
        tx.commit()?;
        Ok(book)
    }
}

/// Rows that are there already say this number.
fn expect(number: i64, wanted: i64) -> Result<()> {
    if number == wanted { Ok(()) } else { Err(Error::StatementChangedRows(number as usize)) }
}
