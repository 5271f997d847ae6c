//! Pages of a SQLite file, written straight behind one another.
//!
//! Comes in: bytes. Goes out: numbered pages at the end of a file that nobody else has open. Handing row after row to
//! SQLite costs more than all reading of them: where rows only ever come behind those before, their pages can be laid
//! down as the published file format says. What a page means is known to `tree` and `index`; this file knows numbers and
//! places.

pub(super) mod filling;
mod index;
mod page;
mod record;
mod tree;

use std::fs::File;
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};

/// Big pages suit big blocks that are written once.
pub(super) const PAGE_BYTES: usize = 16 * 1024;

/// What a page of a chain has room for behind the number of the next.
const CHAIN_BYTES: usize = PAGE_BYTES - 4;

/// SQLite locks bytes at one GiB, and never uses the page they lie in.
const LOCK_PAGE: u32 = (1 << 30) / PAGE_BYTES as u32 + 1;

/// So much is written at once, where nothing else makes it be written sooner.
const HELD_BYTES: usize = 512 * 1024;

static EMPTY: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

const HEAD_BYTES: usize = 100;

pub(super) struct Pages {
    file: File,
    /// The number the next page gets.
    next: u32,
    /// Pages that have their numbers and are not yet written.
    held: Vec<u8>,
}

impl Pages {
    /// Goes on behind the last page of a file; `None` where it is not laid out as ours are.
    pub fn behind(mut file: File) -> io::Result<Option<Pages>> {
        let mut head = [0; HEAD_BYTES];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut head)?;
        let page_bytes = usize::from(u16::from_be_bytes([head[16], head[17]]));
        // All of a page is used, small numbers take no room (format 4), no page tells where others are, text is UTF-8.
        let usual = page_bytes == PAGE_BYTES
            && head[20] == 0
            && [number_at(&head, 44), number_at(&head, 52), number_at(&head, 56)] == [4, 0, 1];
        let pages = number_at(&head, 28);
        if !usual || file.metadata()?.len() != u64::from(pages) * PAGE_BYTES as u64 || pages >= LOCK_PAGE {
            return Ok(None);
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Some(Pages { file, next: pages + 1, held: Vec::new() }))
    }

    /// Adds a page; gives its number.
    pub fn add(&mut self, page: &[u8]) -> io::Result<u32> {
        if self.held.len() >= HELD_BYTES {
            self.write(&[])?;
        }
        self.pass_lock_page();
        self.held.extend_from_slice(page);
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Adds bytes on pages of which each names the next; gives the number of the first. They are not copied first.
    pub fn add_chain(&mut self, bytes: &[u8]) -> io::Result<u32> {
        self.pass_lock_page();
        let first = self.next;
        let count = bytes.len().div_ceil(CHAIN_BYTES);
        let mut gap = None;
        let mut nexts = Vec::with_capacity(count);
        for at in 1..=count {
            self.next += 1;
            if self.next == LOCK_PAGE && at < count {
                gap = Some(at - 1);
                self.next += 1;
            }
            nexts.push(if at < count { self.next } else { 0 }.to_be_bytes());
        }
        let mut parts = Vec::with_capacity(2 * count + 2);
        for (at, (next, part)) in nexts.iter().zip(bytes.chunks(CHAIN_BYTES)).enumerate() {
            parts.extend([&next[..], part]);
            if gap == Some(at) {
                parts.push(&EMPTY);
            }
        }
        parts.push(&EMPTY[..count * CHAIN_BYTES - bytes.len()]);
        self.write(&parts)?;
        Ok(first)
    }

    fn pass_lock_page(&mut self) {
        if self.next == LOCK_PAGE {
            self.held.extend_from_slice(&EMPTY);
            self.next += 1;
        }
    }

    /// Writes what is held, and these parts behind it.
    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(&self.held));
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        let mut left = &mut slices[..];
        // Takes away what is empty at the front, too.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => IoSlice::advance_slices(&mut left, len),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        self.held.clear();
        Ok(())
    }

    /// Writes the rest, these pages in place of those that have their numbers, and how many pages there are.
    pub fn finish(mut self, replaced: &[(u32, Vec<u8>)]) -> io::Result<()> {
        self.write(&[])?;
        for (number, page) in replaced {
            self.file.seek(SeekFrom::Start(u64::from(number - 1) * PAGE_BYTES as u64))?;
            self.file.write_all(page)?;
        }
        let mut head = [0; HEAD_BYTES];
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_exact(&mut head)?;
        // The count of pages holds where both counts of changes are the same.
        let changes = number_at(&head, 24).wrapping_add(1).to_be_bytes();
        head[24..28].copy_from_slice(&changes);
        head[28..32].copy_from_slice(&(self.next - 1).to_be_bytes());
        head[92..96].copy_from_slice(&changes);
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head)
    }
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
