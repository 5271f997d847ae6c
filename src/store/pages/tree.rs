//! A table, built from its first row to its last.
//!
//! Comes in: rows with their keys, which only ever grow. Goes out: the pages of the table's tree: leaves as they become
//! full, above them pages that tell which leaf holds which keys, and the root last, on the page that the schema names.

use std::io;

use super::page::{INNER_HEAD_BYTES, LEAF_HEAD_BYTES, Page};
use super::record::{LONGEST_VARINT, varint};
use super::{CHAIN_BYTES, PAGE_BYTES, Pages};

const LEAF: u8 = 13;
const INNER: u8 = 5;

/// A row longer than the first lies on its leaf only in part, and with at least the second of it.
pub(super) const MOST_LOCAL: usize = PAGE_BYTES - 35;
pub(super) const LEAST_LOCAL: usize = (PAGE_BYTES - 12) * 32 / 255 - 23;

/// Pages below one page: each takes two bytes for its place, four for its number and up to nine for its last key.
const MOST_BELOW: usize = (PAGE_BYTES - INNER_HEAD_BYTES) / (2 + 4 + LONGEST_VARINT);

/// A page and the last key on it or below it.
type Below = (u32, i64);

pub(super) struct Tree {
    root: u32,
    leaf: Page,
    last_key: i64,
    /// Pages that no page above them names yet: the leaves first, then what is above them.
    levels: Vec<Vec<Below>>,
}

impl Tree {
    /// The root is the page of a table that has no rows.
    pub fn new(root: u32) -> Tree {
        Tree { root, leaf: Page::new(LEAF_HEAD_BYTES), last_key: 0, levels: vec![Vec::new()] }
    }

    /// Adds a row, in parts that follow one another: what comes before the last one is short.
    #[inline]
    pub fn add(&mut self, pages: &mut Pages, key: i64, parts: [&[u8]; 3]) -> io::Result<()> {
        let [kinds, values, last] = parts;
        let len = kinds.len() + values.len() + last.len();
        let mut lengths = [0; 2 * LONGEST_VARINT];
        let mut varints = [0; LONGEST_VARINT];
        let first = varint(len as u64, &mut varints);
        lengths[..LONGEST_VARINT].copy_from_slice(&varints);
        let second = varint(key as u64, &mut varints);
        lengths[first..first + LONGEST_VARINT].copy_from_slice(&varints);
        let lengths = &lengths[..first + second];
        if len <= MOST_LOCAL {
            self.make_room(pages, lengths.len() + len)?;
            self.leaf.add([lengths, kinds, values, last]);
        } else {
            let local = local_bytes(len);
            let short = kinds.len() + values.len();
            if short > local {
                return self.add(pages, key, [&[], &[], &parts.concat()]);
            }
            let (here, chained) = last.split_at(local - short);
            let next = pages.add_chain(chained)?.to_be_bytes();
            self.make_room(pages, lengths.len() + local + next.len())?;
            self.leaf.add([lengths, kinds, values, &[here, &next].concat()]);
        }
        self.last_key = key;
        Ok(())
    }

    fn make_room(&mut self, pages: &mut Pages, bytes: usize) -> io::Result<()> {
        if !self.leaf.fits(bytes) {
            let number = pages.add(self.leaf.close(LEAF))?;
            self.leaf.clear();
            self.name(pages, 0, (number, self.last_key))?;
        }
        Ok(())
    }

    /// Notes a page of a level for the page above it, which is written once it is full. Two are held back, so that
    /// no page comes to stand above one alone.
    fn name(&mut self, pages: &mut Pages, level: usize, page: Below) -> io::Result<()> {
        if level == self.levels.len() {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(page);
        if self.levels[level].len() < MOST_BELOW + 2 {
            return Ok(());
        }
        let below: Vec<Below> = self.levels[level].drain(..MOST_BELOW).collect();
        let number = pages.add(inner(&below).close(INNER))?;
        self.name(pages, level + 1, (number, below[below.len() - 1].1))
    }

    /// Writes what is left but the root, which is given with its number.
    pub fn finish(mut self, pages: &mut Pages) -> io::Result<(u32, Vec<u8>)> {
        if self.levels[0].is_empty() {
            return Ok((self.root, self.leaf.close(LEAF).to_vec()));
        }
        let leaf = pages.add(self.leaf.close(LEAF))?;
        self.name(pages, 0, (leaf, self.last_key))?;
        let mut level = 0;
        loop {
            let below = std::mem::take(&mut self.levels[level]);
            let is_top = self.levels.len() == level + 1;
            if is_top && below.len() <= MOST_BELOW {
                return Ok((self.root, inner(&below).close(INNER).to_vec()));
            }
            // One more than a page holds is left at most: then two pages share them.
            let halves = if below.len() > MOST_BELOW { below.len().div_ceil(2) } else { below.len() };
            for part in below.chunks(halves) {
                let number = pages.add(inner(part).close(INNER))?;
                self.name(pages, level + 1, (number, part[part.len() - 1].1))?;
            }
            level += 1;
        }
    }
}

/// How much of a row too long for its leaf lies there all the same: what would not fill its last page, where it can.
fn local_bytes(len: usize) -> usize {
    let local = LEAST_LOCAL + (len - LEAST_LOCAL) % CHAIN_BYTES;
    if local <= MOST_LOCAL { local } else { LEAST_LOCAL }
}

/// The page above these.
fn inner(below: &[Below]) -> Page {
    let mut page = Page::new(INNER_HEAD_BYTES);
    let Some(((last, _), others)) = below.split_last() else { return page };
    for (number, key) in others {
        let mut bytes = [0; LONGEST_VARINT];
        let len = varint(*key as u64, &mut bytes);
        page.add([&number.to_be_bytes(), &bytes[..len], &[], &[]]);
    }
    page.set_last(*last);
    page
}
