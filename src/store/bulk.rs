//! Fills a new store as fast as SQLite can: for importers.
//!
//! Comes in: what a [`Sink`] is told, on the importer's thread. Goes out: a finished store file, moved into place
//! when it is whole, so that a broken import leaves nothing behind. A second thread does the writing; loads are
//! handed over through a channel of bounded length. No journal is kept, since the file is nobody's yet. While events come
//! in the order of their keys their pages are written straight to the file; else SQLite takes them, row by row.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OpenFlags};

use super::load::{Gathered, Load};
use super::pages::PAGE_BYTES;
use super::pages::filling::{Filling, TABLES};
use super::writer::{Book, write};
use super::{Store, create_private, migrate};
use crate::error::{Doing, Error, Result};
use crate::event::{Event, Session, SessionKey, Sink, StreamId};

/// One load: a few of them in flight keep both threads busy and memory small.
const LOAD_BYTES: usize = 4 * 1024 * 1024;
const LOAD_EVENTS: usize = 16 * 1024;
const LOADS_IN_FLIGHT: usize = 2;

pub struct Bulk {
    path: PathBuf,
    beside: PathBuf,
    gathered: Gathered,
    loads: Option<SyncSender<Load>>,
    written: Receiver<Load>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Bulk {
    /// Begins a store at a path where there is none yet.
    pub fn create(path: &Path) -> Result<Bulk> {
        let doing = format!("making the store {}", path.display());
        if path.exists() {
            return Err(Error::new("it is there already").while_doing(doing));
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".new-{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let _ = fs::remove_file(&beside);
        create_private(&beside).doing(&doing)?;
        let way = Way::begin(&beside).map_err(|error| error.while_doing(&doing))?;
        let (loads, incoming) = sync_channel(LOADS_IN_FLIGHT);
        let (done, written) = sync_channel(LOADS_IN_FLIGHT + 2);
        let file = beside.clone();
        let thread = thread::Builder::new()
            .name("store".to_string())
            .spawn(move || write_all(way, &file, &incoming, &done))
            .doing(&doing)?;
        let gathered = Gathered::default();
        Ok(Bulk { path: path.to_path_buf(), beside, gathered, loads: Some(loads), written, thread: Some(thread) })
    }

    /// Writes the rest, moves the file into place and opens it.
    pub fn finish(mut self) -> Result<Store> {
        let doing = format!("making the store {}", self.path.display());
        self.hand_over();
        self.loads = None;
        self.join().map_err(|error| error.while_doing(&doing))?;
        // A hard link fails where a file has appeared meanwhile; a plain rename would bury it.
        fs::hard_link(&self.beside, &self.path)
            .and_then(|()| fs::remove_file(&self.beside))
            .or_else(|cause| match cause.kind() {
                std::io::ErrorKind::AlreadyExists => Err(cause),
                _ => fs::rename(&self.beside, &self.path),
            })
            .doing(&doing)?;
        Store::open(&self.path)
    }

    fn hand_over(&mut self) {
        while let Ok(load) = self.written.try_recv() {
            self.gathered.recycle(load);
        }
        if !self.gathered.is_empty()
            && let Some(loads) = &self.loads
        {
            // A closed channel means that the writer met trouble; `finish` tells it.
            let _ = loads.send(self.gathered.take());
        }
    }

    fn join(&mut self) -> Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(Error::new("the writing thread broke down")),
        }
    }

    fn perhaps_hand_over(&mut self) {
        if self.gathered.held_bytes() >= LOAD_BYTES || self.gathered.held_events() >= LOAD_EVENTS {
            self.hand_over();
        }
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.loads = None;
        if self.thread.is_some() {
            let _ = self.join();
        }
        let _ = fs::remove_file(&self.beside);
    }
}

impl Sink for Bulk {
    fn session(&mut self, session: &Session) {
        self.gathered.session(session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.gathered.bytes(session, stream, bytes);
        self.perhaps_hand_over();
    }

    fn event(&mut self, event: Event) {
        self.gathered.event(event);
        self.perhaps_hand_over();
    }

    fn over(&mut self, session: SessionKey) {
        self.gathered.over(session);
    }
}

/// How loads are written.
enum Way {
    Pages(Box<Filling>),
    Rows(Box<(Connection, Book)>),
}

impl Way {
    /// Makes the tables, and begins to fill them.
    fn begin(path: &Path) -> Result<Way> {
        let mut conn = open(path)?;
        conn.pragma_update(None, "page_size", PAGE_BYTES as u32).doing("setting it up")?;
        migrate::migrate(&mut conn).map_err(Error::from)?;
        let root = |table: &str| -> rusqlite::Result<u32> {
            conn.query_row("SELECT rootpage FROM sqlite_master WHERE name = ?", [table], |row| row.get(0))
        };
        let [events, blocks, index] = TABLES.map(root);
        let roots = (|| Ok::<_, rusqlite::Error>([events?, blocks?, index?]))().doing("setting it up")?;
        conn.close().map_err(|(_, cause)| cause).doing("setting it up")?;
        let file = OpenOptions::new().read(true).write(true).open(path).doing("opening it")?;
        match Filling::begin(file, roots).doing("setting it up")? {
            Some(filling) => Ok(Way::Pages(Box::new(filling))),
            None => Ok(Way::Rows(Box::new((open_alone(path)?, Book::default())))),
        }
    }

    /// Goes on with rows, wherever it was.
    fn into_rows(self, path: &Path) -> Result<Box<(Connection, Book)>> {
        match self {
            Way::Rows(rows) => Ok(rows),
            Way::Pages(filling) => {
                let rest = filling.finish().doing("writing")?;
                let mut conn = open_alone(path)?;
                let book = rest.write(&mut conn).doing("writing")?;
                Ok(Box::new((conn, book)))
            }
        }
    }
}

fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).doing("opening it")
}

fn open_alone(path: &Path) -> Result<Connection> {
    let conn = open(path)?;
    conn.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(())).doing("setting it up")?;
    conn.pragma_update(None, "synchronous", "OFF").doing("setting it up")?;
    conn.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(())).doing("setting it up")?;
    Ok(conn)
}

fn write_all(mut way: Way, path: &Path, loads: &Receiver<Load>, done: &SyncSender<Load>) -> Result<()> {
    // Closed last: closing it would take away the lock that SQLite has on the file.
    let file = File::open(path).doing("opening it")?;
    for mut load in loads {
        way = match way {
            Way::Pages(filling) if !filling.fits(&load) => Way::Rows(Way::Pages(filling).into_rows(path)?),
            other => other,
        };
        match &mut way {
            Way::Pages(filling) => filling.take(&load).doing("writing")?,
            Way::Rows(rows) => write(&mut rows.0, &mut rows.1, &mut load).doing("writing")?,
        }
        send_off(&file);
        // Letting go of the events is work too: the importer's thread has more of it than this one.
        load.events.clear();
        let _ = done.try_send(load);
    }
    let (conn, _) = *way.into_rows(path)?;
    conn.close().map_err(|(_, cause)| cause).doing("closing")
}

/// Has the system write to the disk what the file holds by now, and does not wait for it: else all of it would be
/// waited for at the end.
#[cfg(target_os = "linux")]
fn send_off(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open for as long as `file` is. That it did not work costs nothing but time.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
fn send_off(_: &File) {}
