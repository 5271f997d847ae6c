//! store: events ↔ rows.
//!
//! Comes in: events and raw bytes, through a [`Sink`](crate::event::Sink): [`Writer`] for a store others may be
//! using, [`Bulk`] for a new file. Goes out: sessions, events in order, and the bytes of a span. The only room
//! that knows SQL. It refuses to know what an event means.

mod append;
pub mod bodies;
pub mod bulk;
pub mod foreign;
pub mod load;
pub mod migrate;
mod missing;
mod pages;
pub mod recorder;
pub mod refusal;
mod rows;
pub mod sessions;
pub mod sources;
pub mod spooled;
mod table;
pub mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Doing, Error, Result};

pub use bodies::StoredBodies;
pub use bulk::Bulk;
pub use recorder::Recorder;
pub use refusal::{Refusal, Tried};
pub use sessions::Recorded;
pub use sources::Imported;
pub use writer::Writer;

/// How long to wait for another process before giving up: longer than any commit of another tap takes.
const BUSY_MS: u64 = 5_000;

/// Pages of a live store: small enough that a commit of a few rows stays cheap.
const PAGE_BYTES: u32 = 8_192;

/// How far the write-ahead log may grow before it is folded in: seldom enough that a flood of messages does not
/// wait for the disk at each commit.
const CHECKPOINT_PAGES: u32 = 8_192;

/// A file of recordings.
pub struct Store {
    conn: Connection,
    path: Option<PathBuf>,
}

impl Store {
    /// Opens for writing; creates and migrates as needed. New files are for the user's eyes only.
    pub fn open(path: &Path) -> Result<Store> {
        Ok(Store::try_open(path, Duration::from_millis(BUSY_MS))?)
    }

    /// The same, waiting for other users of the file no longer than `patience` at a time, and telling whether it is
    /// worth trying again.
    pub fn try_open(path: &Path, patience: Duration) -> Tried<Store> {
        let open = || -> Tried<Store> {
            create_private(path)?;
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut conn = Connection::open_with_flags(path, flags)?;
            conn.busy_timeout(patience)?;
            // A file that is not ours is refused before the first pragma could change it.
            migrate::check(&conn)?;
            if conn.is_readonly("main")? {
                return Err(Refusal::lasting("it may not be written; name another file with --store"));
            }
            conn.pragma_update(None, "page_size", PAGE_BYTES)?;
            write_ahead(&conn, patience)?;
            conn.pragma_update(None, "synchronous", "NORMAL")?;
            conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            migrate::migrate(&mut conn)?;
            Ok(Store { conn, path: Some(path.to_path_buf()) })
        };
        open().map_err(|refusal| refusal.while_doing(format_args!("opening the store {}", path.display())))
    }

    /// Opens for reading. Creates nothing; works while taps write, and on a medium that cannot be written.
    pub fn open_readonly(path: &Path) -> Result<Store> {
        let doing = || format!("opening the store {}", path.display());
        if !path.exists() {
            return Err(
                Error::new("there is none; record something first, or name it with --store").while_doing(doing())
            );
        }
        let conn = match open_and_look(path, false) {
            Err(rusqlite::Error::SqliteFailure(cause, _))
                if matches!(cause.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly) =>
            {
                // No -shm can be made beside it: then nobody writes it either, or it could not be read at all.
                open_and_look(path, true)
            }
            other => other,
        }
        .doing(doing())?;
        let version = migrate::check(&conn).map_err(|refusal| refusal.while_doing(doing()))?;
        if version < migrate::NEWEST {
            drop(conn);
            return Store::open(path);
        }
        Ok(Store { conn, path: Some(path.to_path_buf()) })
    }

    /// A store that lasts as long as this value.
    pub fn in_memory() -> Store {
        let mut conn = Connection::open_in_memory().expect("SQLite opens in memory");
        migrate::migrate(&mut conn).expect("our own schema applies to an empty database");
        Store { conn, path: None }
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether the file holds together, as SQLite sees it: `ok` or what is wrong.
    pub fn integrity(&self) -> Result<String> {
        self.conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).doing("checking the store")
    }

    /// For tests that ask in SQL, as plain `sqlite3` users do: each row as its columns' text, `NULL` as `None`.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let mut statement = self.conn.prepare(sql).doing(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query([]).doing(sql)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().doing(sql)? {
            found.push((0..width).map(|at| rows::as_text(row.get_ref_unwrap(at))).collect());
        }
        Ok(found)
    }
}

fn open_and_look(path: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let conn = if immutable {
        Connection::open_with_flags(format!("file:{}?immutable=1", as_uri(path)), flags)?
    } else {
        Connection::open_with_flags(path, flags - OpenFlags::SQLITE_OPEN_URI)?
    };
    conn.busy_timeout(Duration::from_millis(BUSY_MS))?;
    conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    Ok(conn)
}

fn as_uri(path: &Path) -> String {
    let mut uri = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(*byte as char),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri
}

/// Turning WAL on does not wait in SQLite's own busy handler, so two first starts at once must ask again.
fn write_ahead(conn: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let step = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    loop {
        match conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Err(rusqlite::Error::SqliteFailure(cause, _))
                if cause.code == ErrorCode::DatabaseBusy && waited < patience =>
            {
                std::thread::sleep(step);
                waited += step;
            }
            other => return other.map(drop),
        }
    }
}

/// Makes the folder a store is to be in (0700), and those above it. Gives it, if it was not there.
pub fn make_folder(store: &Path) -> io::Result<Option<&Path>> {
    let Some(folder) = store.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) else {
        return Ok(None);
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    Ok(Some(folder))
}

/// Makes the file (0600) and the folders above it (0700) where they are missing. SQLite gives -wal and -shm the
/// mode of the file itself.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    make_folder(path)?;
    if path.is_dir() {
        return Err(io::Error::other("it is a folder; name a file with --store"));
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
