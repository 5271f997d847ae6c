//! Rows out of another program's SQLite file, for importers that know its tables.
//!
//! Opened for reading and never altered; a file that is damaged gives the rows before the damage and then the reason.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Doing, Result};

/// One value, as text: numbers as they would be written, `NULL` as `None`.
pub type Cell = Option<String>;

/// Gives every row of a query.
pub fn read_rows(path: &Path, sql: &str, give: &mut dyn FnMut(&[Cell])) -> Result<()> {
    let doing = "reading its tables";
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).doing(doing)?;
    conn.busy_timeout(Duration::from_secs(5)).doing(doing)?;
    let mut statement = conn.prepare(sql).doing(doing)?;
    let width = statement.column_count();
    let mut rows = statement.query([]).doing(doing)?;
    while let Some(row) = rows.next().doing(doing)? {
        let cells: Vec<Cell> = (0..width)
            .map(|at| match row.get_ref_unwrap(at) {
                ValueRef::Null => None,
                ValueRef::Integer(int) => Some(int.to_string()),
                ValueRef::Real(real) => Some(real.to_string()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            })
            .collect();
        give(&cells);
    }
    Ok(())
}
