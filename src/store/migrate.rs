//! Brings a store to the newest schema, one numbered file at a time.
//!
//! Comes in: an open connection of any age. Goes out: the same at the newest schema, or one line that says why
//! not. Each step is its own immediate transaction and checks the version inside it, so that several taps may
//! open a new store at once. An old file is never edited: a change is a new file and a line in [`STEPS`].

use rusqlite::{Connection, TransactionBehavior};

use super::refusal::{Refusal, Tried};

/// All steps, in order. The schema's number is how many have been taken.
pub const STEPS: &[&str] =
    &[include_str!("../../migrations/0001_events.sql"), include_str!("../../migrations/0002_sources.sql")];

/// "rpct": tells our files from any other SQLite database.
const APPLICATION_ID: i32 = 0x7270_6374;

pub const NEWEST: i64 = STEPS.len() as i64;

pub fn migrate(conn: &mut Connection) -> Tried<()> {
    loop {
        let version = check(conn)?;
        if version == NEWEST {
            return Ok(());
        }
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if schema_of(&tx)? != version {
            continue;
        }
        tx.execute_batch(STEPS[version as usize])?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", version + 1)?;
        tx.commit()?;
    }
}

/// The schema's number, once it is sure that the file is ours and not from a later rpctap.
pub fn check(conn: &Connection) -> Tried<i64> {
    // One snapshot: another first start may be between its steps.
    let conn = conn.unchecked_transaction()?;
    let version = schema_of(&conn)?;
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    if application != APPLICATION_ID && (version != 0 || tables != 0) {
        return Err(Refusal::lasting("it is a database of another program; name another file with --store"));
    }
    if version > NEWEST {
        return Err(Refusal::lasting(format!(
            "its schema is number {version} and this rpctap knows up to {NEWEST}; use a newer rpctap"
        )));
    }
    if version < 0 {
        return Err(Refusal::lasting(format!("its schema number {version} makes no sense")));
    }
    Ok(version)
}

fn schema_of(conn: &Connection) -> Tried<i64> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
