//! An index of numbers, built when all of them are known.
//!
//! Comes in: rows of whole numbers in their order. Goes out: the pages of the index's tree. Unlike that of a table it has
//! each row once: those that tell pages apart stand above them and not on them.

use std::io;

use super::page::{INNER_HEAD_BYTES, LEAF_HEAD_BYTES, Page};
use super::record::Record;
use super::{PAGE_BYTES, Pages};

const LEAF: u8 = 10;
const INNER: u8 = 2;

/// Three columns, and the key of the row they are from.
pub(super) type Entry = [i64; 4];

/// The longest an entry gets: its place, its length, the kinds of four numbers and their eight bytes each.
const ENTRY_BYTES: usize = 2 + 1 + 5 + 4 * 8;
const MOST_ON_LEAF: usize = (PAGE_BYTES - LEAF_HEAD_BYTES) / ENTRY_BYTES;
const MOST_ON_INNER: usize = (PAGE_BYTES - INNER_HEAD_BYTES) / (ENTRY_BYTES + 4);

/// Writes all but the root, which is given with its number.
pub(super) fn build(root: u32, mut entries: Vec<Entry>, pages: &mut Pages) -> io::Result<(u32, Vec<u8>)> {
    let mut record = Record::default();
    let mut below: Option<Vec<u32>> = None;
    loop {
        let (kind, head, most) = match below {
            None => (LEAF, LEAF_HEAD_BYTES, MOST_ON_LEAF),
            Some(_) => (INNER, INNER_HEAD_BYTES, MOST_ON_INNER),
        };
        // One entry between each two pages goes up; the others are spread evenly.
        let count = (entries.len() + 1).div_ceil(most + 1);
        let on_pages = entries.len() + 1 - count;
        let (mut above, mut numbers) = (Vec::new(), Vec::new());
        let mut next = entries.into_iter();
        let mut children = below.unwrap_or_default().into_iter();
        for number in 0..count {
            let mut page = Page::new(head);
            let here = on_pages * (number + 1) / count - on_pages * number / count;
            for entry in next.by_ref().take(here) {
                record.begin();
                entry.iter().for_each(|number| record.integer(*number));
                let [kinds, values] = record.parts();
                let len = [(kinds.len() + values.len()) as u8];
                let child = children.next().map(u32::to_be_bytes);
                page.add([child.as_ref().map_or(&[], |child| &child[..]), &len, kinds, values]);
            }
            if let Some(last) = children.next() {
                page.set_last(last);
            }
            if count == 1 {
                return Ok((root, page.close(kind).to_vec()));
            }
            numbers.push(pages.add(page.close(kind))?);
            above.extend(next.next());
        }
        (entries, below) = (above, Some(numbers));
    }
}
