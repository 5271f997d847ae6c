//! The files a store was filled from, so that none is taken in twice.
//!
//! A file counts as known while one of the sessions it gave is still there.

use rusqlite::{OptionalExtension, TransactionBehavior};

use super::Store;
use super::rows::key_of;
use crate::error::{Doing, Result};
use crate::event::SessionKey;

/// An imported file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Fingerprint of its bytes as they lay on disk.
    pub print: String,
    pub bytes: u64,
    pub name: String,
    pub format: String,
    pub first_session: SessionKey,
    pub last_session: SessionKey,
}

const STILL_THERE: &str = "EXISTS (SELECT 1 FROM sessions WHERE id BETWEEN first_session AND last_session)";

impl Store {
    /// Whether a file of this length was taken in: only then is it worth while to ask for its fingerprint.
    pub fn has_source_of(&self, bytes: u64) -> Result<bool> {
        let sql = format!("SELECT 1 FROM sources WHERE bytes = ? AND {STILL_THERE}");
        let found = self.conn.query_row(&sql, [bytes as i64], |_| Ok(())).optional();
        Ok(found.doing("looking for imported files")?.is_some())
    }

    /// The file of this fingerprint, where it was taken in before.
    pub fn source(&self, print: &str) -> Result<Option<Imported>> {
        let sql = format!(
            "SELECT print, bytes, name, format, first_session, last_session FROM sources WHERE print = ? AND {STILL_THERE}"
        );
        let found = self.conn.query_row(&sql, [print], |row| {
            Ok(Imported {
                print: row.get(0)?,
                bytes: row.get::<_, i64>(1)? as u64,
                name: row.get(2)?,
                format: row.get(3)?,
                first_session: row.get(4)?,
                last_session: row.get(5)?,
            })
        });
        found.optional().doing("looking for imported files")
    }

    /// Takes sessions out again: those of a file that, once it was read, turned out to be known.
    pub fn take_back(&mut self, first: SessionKey, last: SessionKey) -> Result<()> {
        let doing = "taking back what was there already";
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).doing(doing)?;
        let (first, last) = (i64::from(first), i64::from(last));
        tx.execute("DELETE FROM events WHERE key >= ? AND key < ?", [key_of(first, 0), key_of(last + 1, 0)])
            .and_then(|_| tx.execute("DELETE FROM blocks WHERE session BETWEEN ? AND ?", [first, last]))
            .and_then(|_| tx.execute("DELETE FROM sessions WHERE id BETWEEN ? AND ?", [first, last]))
            .doing(doing)?;
        tx.commit().doing(doing)
    }

    /// Remembers a file that was taken in.
    pub fn add_source(&self, source: &Imported) -> Result<()> {
        self.conn
            .execute(
                "INSERT OR REPLACE INTO sources (print, bytes, name, format, first_session, last_session) \
                 VALUES (?, ?, ?, ?, ?, ?)",
                (
                    &source.print,
                    source.bytes as i64,
                    &source.name,
                    &source.format,
                    source.first_session,
                    source.last_session,
                ),
            )
            .doing("remembering the imported file")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Knows, Session, Sink, Source};

    #[test]
    fn a_source_is_known_while_a_session_of_it_is_there() {
        let mut writer = Store::in_memory().writer();
        writer.session(&Session {
            key: 1,
            name: "x".into(),
            source: Source::Import("ndjson".into()),
            target: "x".into(),
            started_at: 0,
            knows: Knows::ALL,
        });
        let store = writer.finish().expect("in memory");
        let source = Imported {
            print: "ab".into(),
            bytes: 7,
            name: "x.ndjson".into(),
            format: "ndjson".into(),
            first_session: 1,
            last_session: 1,
        };
        assert_eq!(store.source("ab"), Ok(None));
        store.add_source(&source).expect("added");
        assert_eq!(store.source("ab"), Ok(Some(source)));
        assert_eq!((store.has_source_of(7), store.has_source_of(8)), (Ok(true), Ok(false)));
        store.conn.execute("DELETE FROM sessions", []).expect("deleted");
        assert_eq!((store.source("ab"), store.has_source_of(7)), (Ok(None), Ok(false)));
    }
}
