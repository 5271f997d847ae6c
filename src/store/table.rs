//! The shelf as SQLite sees it: a table that is there without being made, and can only be read from its beginning to its end.
//!
//! Comes in: SQLite's questions. Goes out: the values of the events on the shelf, one by one. rusqlite's own way to make
//! such a table costs as much for each value as SQLite itself does.

use std::ffi::{CStr, c_char, c_int, c_void};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Result, ffi};

use super::append::{Shelf, Stretch};
use super::rows::value;

const NAME: &CStr = c"shelf";

const COLUMNS: &CStr = c"CREATE TABLE shelf (at, kind, sender, id, method, detail, print, stream, start, len, carrier, batch, oddities, reason)";

#[repr(C)]
struct Table {
    /// SQLite's own part, which must come first.
    base: ffi::sqlite3_vtab,
    shelf: Shelf,
}

/// Holds the stretch for as long as it is read, so that nothing is locked for each value.
#[repr(C)]
struct Cursor {
    /// SQLite's own part, which must come first.
    base: ffi::sqlite3_vtab_cursor,
    shelf: Shelf,
    stretch: Stretch,
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let stretch = std::mem::take(&mut self.stretch);
        self.shelf.with(|place| *place = stretch);
    }
}

// SAFETY: all of a module may be zero: numbers, and pointers to functions that are not there.
static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 1,
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect),
    xOpen: Some(open),
    xClose: Some(close),
    xFilter: Some(filter),
    xNext: Some(next),
    xEof: Some(eof),
    xColumn: Some(column),
    xRowid: Some(rowid),
    ..unsafe { std::mem::zeroed() }
};

pub(super) fn put_up(conn: &Connection, shelf: Shelf) -> Result<()> {
    let shelf = Box::into_raw(Box::new(shelf)).cast();
    // SAFETY: the connection is open; the module lives for ever; the shelf is SQLite's to give back to `forget`, which
    // it does also where this fails.
    let code = unsafe { ffi::sqlite3_create_module_v2(conn.handle(), NAME.as_ptr(), &MODULE, shelf, Some(forget)) };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

// In all of these SQLite passes on what it was given here: a shelf, a table or a cursor that are not yet given back,
// and to nobody else meanwhile.

unsafe extern "C" fn forget(shelf: *mut c_void) {
    // SAFETY: it came from `put_up`, and is given back once.
    drop(unsafe { Box::from_raw(shelf.cast::<Shelf>()) });
}

unsafe extern "C" fn connect(
    db: *mut ffi::sqlite3,
    shelf: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    table: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    // SAFETY: as said above.
    unsafe {
        let code = ffi::sqlite3_declare_vtab(db, COLUMNS.as_ptr());
        if code == ffi::SQLITE_OK {
            let shelf = (*shelf.cast::<Shelf>()).clone();
            *table = Box::into_raw(Box::new(Table { base: ffi::sqlite3_vtab::default(), shelf })).cast();
        }
        code
    }
}

unsafe extern "C" fn best_index(_: *mut ffi::sqlite3_vtab, _: *mut ffi::sqlite3_index_info) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn disconnect(table: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: as said above.
    drop(unsafe { Box::from_raw(table.cast::<Table>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn open(table: *mut ffi::sqlite3_vtab, cursor: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as said above.
    unsafe {
        let shelf = (*table.cast::<Table>()).shelf.clone();
        let base = ffi::sqlite3_vtab_cursor::default();
        *cursor = Box::into_raw(Box::new(Cursor { base, shelf, stretch: Stretch::default() })).cast();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as said above.
    drop(unsafe { Box::from_raw(cursor.cast::<Cursor>()) });
    ffi::SQLITE_OK
}

unsafe extern "C" fn filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    _: c_int,
    _: *const c_char,
    _: c_int,
    _: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: as said above.
    let cursor = unsafe { &mut *cursor.cast::<Cursor>() };
    cursor.stretch = cursor.shelf.with(std::mem::take);
    ffi::SQLITE_OK
}

unsafe extern "C" fn next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as said above.
    unsafe { (*cursor.cast::<Cursor>()).stretch.rows.start += 1 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as said above.
    c_int::from(unsafe { (*cursor.cast::<Cursor>()).stretch.rows.is_empty() })
}

unsafe extern "C" fn column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: as said above.
    let Stretch { events, methods, rows, started_at } = unsafe { &(*cursor.cast::<Cursor>()).stretch };
    let Some(event) = events.get(rows.start) else { return ffi::SQLITE_ERROR };
    let method = methods.get(rows.start).copied().flatten();
    // SAFETY: the context is SQLite's for this call. Borrowed text belongs to an event, which stays where it is until
    // the statement is done; other text is copied.
    unsafe {
        match value(event, *started_at, method, column as usize + 1) {
            ToSqlOutput::Borrowed(ValueRef::Null) => ffi::sqlite3_result_null(context),
            ToSqlOutput::Borrowed(ValueRef::Integer(number)) => ffi::sqlite3_result_int64(context, number),
            ToSqlOutput::Borrowed(ValueRef::Text(text)) => give_text(context, text, ffi::SQLITE_STATIC()),
            ToSqlOutput::Owned(Value::Text(text)) => give_text(context, text.as_bytes(), ffi::SQLITE_TRANSIENT()),
            ToSqlOutput::Owned(Value::Integer(number)) => ffi::sqlite3_result_int64(context, number),
            _ => return ffi::SQLITE_MISMATCH,
        }
    }
    ffi::SQLITE_OK
}

unsafe fn give_text(context: *mut ffi::sqlite3_context, text: &[u8], kept: ffi::sqlite3_destructor_type) {
    // SAFETY: the text is as long as is said; the caller knows how long it stays.
    unsafe {
        ffi::sqlite3_result_text64(context, text.as_ptr().cast(), text.len() as u64, kept, ffi::SQLITE_UTF8 as u8);
    }
}

unsafe extern "C" fn rowid(cursor: *mut ffi::sqlite3_vtab_cursor, rowid: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: as said above.
    unsafe { *rowid = (*cursor.cast::<Cursor>()).stretch.rows.start as i64 };
    ffi::SQLITE_OK
}
