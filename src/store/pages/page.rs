//! One page of a tree while it is filled.

use super::PAGE_BYTES;

/// What comes before the list of places on a page with nothing below it.
pub(super) const LEAF_HEAD_BYTES: usize = 8;
/// The same on others, which name one page more than they have entries.
pub(super) const INNER_HEAD_BYTES: usize = 12;

/// A page being filled: its entries from the end on, and from its head on where each lies.
pub(super) struct Page {
    bytes: Vec<u8>,
    head: usize,
    /// Where the list of places ends.
    places: usize,
    /// Where the entries begin.
    entries: usize,
}

impl Page {
    pub fn new(head: usize) -> Page {
        Page { bytes: vec![0; PAGE_BYTES], head, places: head, entries: PAGE_BYTES }
    }

    pub fn fits(&self, bytes: usize) -> bool {
        self.places + 2 + bytes <= self.entries
    }

    #[inline]
    pub fn add(&mut self, parts: [&[u8]; 4]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.entries -= len;
        let mut at = self.entries;
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.bytes[self.places..self.places + 2].copy_from_slice(&(self.entries as u16).to_be_bytes());
        self.places += 2;
    }

    /// The page below that holds what comes behind all entries.
    pub fn set_last(&mut self, number: u32) {
        self.bytes[LEAF_HEAD_BYTES..INNER_HEAD_BYTES].copy_from_slice(&number.to_be_bytes());
    }

    /// The whole page, of this kind.
    pub fn close(&mut self, kind: u8) -> &[u8] {
        let count = ((self.places - self.head) / 2) as u16;
        self.bytes[..LEAF_HEAD_BYTES].fill(0);
        self.bytes[0] = kind;
        self.bytes[3..5].copy_from_slice(&count.to_be_bytes());
        self.bytes[5..7].copy_from_slice(&(self.entries as u16).to_be_bytes());
        // Nothing of an earlier page is left between.
        self.bytes[self.places..self.entries].fill(0);
        &self.bytes
    }

    pub fn clear(&mut self) {
        (self.places, self.entries) = (self.head, PAGE_BYTES);
    }
}
