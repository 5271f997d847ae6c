//! Writes into a store that others may be using: short transactions, nothing lost when one fails.
//!
//! Comes in: what a [`Sink`] is told. Goes out: rows, at each [`Writer::commit`]. A load that could not be
//! written stays here, in order, and is tried again at the next commit.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::Store;
use super::append::Shelf;
use super::load::{Gathered, Load, Taken};
use super::refusal::Tried;
use super::rows::{Inserts, Names};
use crate::error::{Doing, Error, Result};
use crate::event::{Event, Micros, Session, SessionKey, Sink, StreamId};

/// Past this a writer commits by itself, so that an importer need not think of it.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
const COMMIT_EVENTS: usize = 32 * 1024;

/// A session as the store numbers it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub id: i64,
    pub started_at: Micros,
}

pub struct Writer {
    store: Store,
    pub(super) gathered: Gathered,
    pub(super) waiting: VecDeque<Load>,
    book: Book,
    trouble: Option<Error>,
    by_itself: bool,
}

/// What the store has already given numbers to.
#[derive(Default)]
pub(super) struct Book {
    pub sessions: HashMap<SessionKey, Known>,
    pub names: Names,
    /// Where events lie while they are written.
    shelf: Option<Shelf>,
    /// Room for the numbers of their methods.
    methods: Vec<Option<i64>>,
}

impl Store {
    /// A sink that fills this store.
    pub fn writer(self) -> Writer {
        Writer {
            store: self,
            gathered: Gathered::default(),
            waiting: VecDeque::new(),
            book: Book::default(),
            trouble: None,
            by_itself: true,
        }
    }
}

impl Writer {
    /// Leaves the commits to the caller: for the recorder, which has its own idea of time.
    pub fn commit_when_told(mut self) -> Writer {
        self.by_itself = false;
        self
    }

    /// How long a commit may wait for other users of the file.
    pub fn patience(&self, patience: Duration) -> Result<()> {
        self.store.conn.busy_timeout(patience).doing("setting the patience")
    }

    /// Writes everything told so far. What cannot be written is kept for the next try.
    pub fn commit(&mut self) -> Result<()> {
        self.try_commit().doing("writing to the store")
    }

    /// The same, telling whether it is worth trying again.
    pub fn try_commit(&mut self) -> Tried<()> {
        if !self.gathered.is_empty() {
            let load = self.gathered.take();
            self.waiting.push_back(load);
        }
        while let Some(load) = self.waiting.front_mut() {
            write(&mut self.store.conn, &mut self.book, load)?;
            if let Some(load) = self.waiting.pop_front() {
                // An importer asks for their numbers when all is read.
                if !self.by_itself {
                    for key in &load.over {
                        self.book.sessions.remove(key);
                    }
                }
                self.gathered.recycle(load);
            }
        }
        Ok(())
    }

    /// Notes, in the transaction that writes what was told so far, up to where a spool has been taken in.
    pub fn note_taken(&mut self, spool: &str, session: SessionKey, position: u64) {
        self.gathered.note_taken(Taken { spool: spool.to_string(), session, position });
    }

    /// Up to where a spool has been taken in, and the session it belongs to.
    pub fn taken(&self, spool: &str) -> Result<Option<(Option<u32>, u64)>> {
        let mut select = self.store.conn.prepare_cached("SELECT session, taken FROM spools WHERE name = ?");
        let select = select.as_mut().map_err(|cause| Error::new(cause.to_string()))?;
        select
            .query_row([spool], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))
            .optional()
            .doing("reading the store")
    }

    /// Forgets a spool whose file is gone.
    pub fn forget_spool(&self, spool: &str) -> Result<()> {
        self.store.conn.execute("DELETE FROM spools WHERE name = ?", [spool]).map(drop).doing("tidying the store")
    }

    /// Writes the rest and gives the store back, or the first trouble there was.
    pub fn finish(mut self) -> Result<Store> {
        self.commit()?;
        Ok(self.store)
    }

    /// Raw bytes not yet handed to SQLite.
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.held_bytes()
    }

    /// The trouble of a commit it made by itself, if it is still in it.
    pub fn trouble(&self) -> Option<&Error> {
        self.trouble.as_ref()
    }

    /// The store's number for a session, once a commit has given it one.
    pub fn number(&self, session: SessionKey) -> Option<u32> {
        self.book.sessions.get(&session).and_then(|known| u32::try_from(known.id).ok())
    }

    /// Goes on with a session that is in the store already; gives the seq of its last event and how far its
    /// streams have come.
    pub fn continue_session(&mut self, key: SessionKey, number: u32) -> Result<Tail> {
        let recorded = self.store.session(number)?;
        let tail = self.store.tail(number)?;
        self.book.sessions.insert(key, Known { id: i64::from(number), started_at: recorded.session.started_at });
        for (stream, end) in &tail.streams {
            self.gathered.continue_stream(key, *stream, *end);
        }
        Ok(tail)
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    fn perhaps_commit(&mut self) {
        if self.by_itself
            && (self.gathered.held_bytes() >= COMMIT_BYTES || self.gathered.held_events() >= COMMIT_EVENTS)
        {
            self.trouble = self.commit().err();
        }
    }
}

/// Where a recorded session stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    pub last_seq: u64,
    pub streams: Vec<(StreamId, u64)>,
}

impl Sink for Writer {
    fn session(&mut self, session: &Session) {
        self.gathered.session(session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.gathered.bytes(session, stream, bytes);
        self.perhaps_commit();
    }

    fn event(&mut self, event: Event) {
        self.gathered.event(event);
        self.perhaps_commit();
    }

    fn over(&mut self, session: SessionKey) {
        self.gathered.over(session);
    }
}

/// One load, one transaction. The book learns new numbers only when it holds.
pub(super) fn write(conn: &mut Connection, book: &mut Book, load: &mut Load) -> rusqlite::Result<()> {
    let shelf = match &book.shelf {
        Some(shelf) => shelf.clone(),
        None => book.shelf.insert(Shelf::put_up(conn)?).clone(),
    };
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut fresh = Book::default();
    {
        let mut inserts = Inserts::prepare(&tx)?;
        for session in &load.sessions {
            let id = inserts.session(session)?;
            fresh.sessions.insert(session.key, Known { id, started_at: session.started_at });
        }
        let find = |fresh: &Book, key: SessionKey| fresh.sessions.get(&key).or(book.sessions.get(&key)).copied();
        for run in &load.runs {
            if let Some(known) = find(&fresh, run.session) {
                inserts.run(known.id, run)?;
            }
        }
        let mut methods = std::mem::take(&mut book.methods);
        methods.clear();
        for event in &load.events {
            let number = match event.message().and_then(|(_, message)| message.method.as_ref()) {
                None => None,
                Some(name) => Some(match book.names.number(name).or_else(|| fresh.names.number(name)) {
                    Some(number) => number,
                    None => {
                        let number = inserts.method(name)?;
                        fresh.names.learn(name, number);
                        number
                    }
                }),
            };
            methods.push(number);
        }
        shelf.write(&mut inserts, &mut load.events, &mut methods, |key| find(&fresh, key))?;
        book.methods = methods;
        if let Some(taken) = &load.taken {
            inserts.taken(&taken.spool, find(&fresh, taken.session).map(|known| known.id), taken.position)?;
        }
    }
    tx.commit()?;
    book.sessions.extend(fresh.sessions);
    book.names.take_in(fresh.names);
    Ok(())
}
