//! What was laid down is read by SQLite itself, and found to be whole.

use std::fs::OpenOptions;

use rusqlite::Connection;

use super::record::Record;
use super::tree::{LEAST_LOCAL, MOST_LOCAL, Tree};
use super::*;

#[test]
fn indexes_of_every_height_hold_together() {
    let folder = tempfile::tempdir().expect("a folder");
    for count in [0, 1, 2, 408, 409, 410, 411, 819, 820, 821, 50_000, 153_000, 200_000] {
        let path = folder.path().join(format!("{count}.db"));
        let conn = Connection::open(&path).expect("a database");
        let schema = "CREATE TABLE t (key INTEGER PRIMARY KEY, a, b, c); CREATE UNIQUE INDEX i ON t (a, b, c);";
        conn.execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}; {schema}")).expect("a table");
        let root = |name: &str| {
            conn.query_row("SELECT rootpage FROM sqlite_master WHERE name = ?", [name], |row| row.get(0))
                .expect("a root")
        };
        let (mut tree, index_root) = (Tree::new(root("t")), root("i"));
        drop(conn);
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
        let mut pages = Pages::behind(file).expect("readable").expect("as ours");
        let mut record = Record::default();
        // The longest an entry can be.
        let mut entries: Vec<_> = (1..=count).map(|key| [i64::MAX, i64::MIN, i64::MAX - key % 7, key]).collect();
        entries.iter_mut().for_each(|entry| entry[1] += entry[3]);
        for [a, b, c, key] in &entries {
            record.begin();
            record.null();
            [a, b, c].iter().for_each(|number| record.integer(**number));
            let [kinds, values] = record.parts();
            tree.add(&mut pages, *key, [kinds, values, &[]]).expect("written");
        }
        entries.sort_unstable();
        let roots = [
            tree.finish(&mut pages).expect("written"),
            index::build(index_root, entries.clone(), &mut pages).expect("written"),
        ];
        pages.finish(&roots).expect("written");
        let conn = Connection::open(&path).expect("a database");
        let whole: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
        assert_eq!(whole, "ok", "{count} entries");
        for [a, b, c, key] in entries.iter().step_by(97) {
            let found: i64 = conn
                .query_row("SELECT key FROM t INDEXED BY i WHERE a = ? AND b = ? AND c = ?", [a, b, c], |row| {
                    row.get(0)
                })
                .expect("found");
            assert_eq!(found, *key);
        }
    }
}

/// A table filled by us, and what SQLite reads in it.
fn filled(rows: &[(i64, i64, Vec<u8>)]) -> Vec<(i64, i64, Vec<u8>)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.db");
    let conn = Connection::open(&path).expect("a database");
    conn.execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}; CREATE TABLE t (key INTEGER PRIMARY KEY, a, b, c);"))
        .expect("a table");
    let root = conn.query_row("SELECT rootpage FROM sqlite_master", [], |row| row.get(0)).expect("a root");
    drop(conn);
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("the file");
    let mut pages = Pages::behind(file).expect("readable").expect("as ours");
    let mut tree = Tree::new(root);
    let mut record = Record::default();
    for (key, number, blob) in rows {
        record.begin();
        record.null();
        record.integer(*number);
        record.blob_behind(blob.len());
        let [kinds, values] = record.parts();
        tree.add(&mut pages, *key, [kinds, values, blob]).expect("written");
    }
    let root = tree.finish(&mut pages).expect("written");
    pages.finish(&[root]).expect("written");
    let conn = Connection::open(&path).expect("a database");
    let whole: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(whole, "ok");
    let mut select = conn.prepare("SELECT key, a, b FROM t WHERE c IS NULL").expect("columns");
    let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    found.collect::<rusqlite::Result<_>>().expect("rows")
}

#[test]
fn sqlite_reads_what_was_laid_down() {
    assert_eq!(filled(&[]), []);
    let numbers =
        (0..64).flat_map(|bit| [1i64 << bit, (1i64 << bit).wrapping_sub(1), -(1i64 << (bit % 63)), !(1i64 << bit)]);
    let mut rows: Vec<_> = numbers.zip(1..).map(|(number, key)| (key, number, vec![7; 3])).collect();
    // Keys of every length.
    rows.extend((9..63).map(|bit| (1i64 << bit, 5, vec![bit as u8; bit])));
    assert_eq!(filled(&rows), rows);
}

#[test]
fn long_rows_go_on_over_pages_of_their_own() {
    let edges = [LEAST_LOCAL, MOST_LOCAL, CHAIN_BYTES, LEAST_LOCAL + CHAIN_BYTES, MOST_LOCAL + CHAIN_BYTES];
    let lengths = edges.iter().flat_map(|edge| edge - 20..edge + 20).chain([200_000, 1_000_000]);
    let rows: Vec<_> =
        lengths.zip(1..).map(|(len, key)| (key, 300, (0..len).map(|at| (at * 7 / 5) as u8).collect())).collect();
    assert_eq!(filled(&rows), rows);
}

#[test]
fn trees_of_every_height_hold_together() {
    // One row a leaf fills a level with few rows: a root of a thousand leaves, and around where it gets a level more.
    for count in [1, 2, 3, 1_089, 1_090, 1_091, 1_092, 1_093, 1_094, 2_183, 2_185] {
        let rows: Vec<_> = (1..=count).map(|key| (key << 40, 2, vec![key as u8; MOST_LOCAL - 30])).collect();
        assert!(filled(&rows) == rows, "{count} rows");
    }
}

#[test]
fn the_page_that_sqlite_locks_stays_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    for before in 0..5 {
        let path = folder.path().join(format!("{before}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("a file");
        let mut pages = Pages { file, next: LOCK_PAGE - before, held: Vec::new() };
        let first = pages.add_chain(&vec![1; 3 * CHAIN_BYTES]).expect("written");
        let second = pages.add(&[2; PAGE_BYTES]).expect("written");
        pages.write(&[]).expect("written");
        let bytes = std::fs::read(&path).expect("the file");
        let page = |number: u32| &bytes[(number + before - LOCK_PAGE) as usize * PAGE_BYTES..][..PAGE_BYTES];
        let mut number = first;
        let mut chain = vec![number];
        while number_at(page(number), 0) != 0 {
            number = number_at(page(number), 0);
            chain.push(number);
        }
        let wanted: Vec<u32> = (LOCK_PAGE - before..).filter(|number| *number != LOCK_PAGE).take(4).collect();
        assert_eq!((&chain[..], second), (&wanted[..3], wanted[3]));
        assert!(chain.iter().all(|number| page(*number)[4..].iter().all(|byte| *byte == 1)));
        if before < 4 {
            assert_eq!(page(LOCK_PAGE), EMPTY);
        }
        assert_eq!(page(second), [2; PAGE_BYTES]);
    }
}
