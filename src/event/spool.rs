//! The file a tape spills to: raw stretches of tape, kept until the store has them.
//!
//! Comes in: stretches of tape with their position. Goes out: the same bytes, by position. The file is locked as
//! long as its tap lives, so that a later start can tell a spool that was left behind. A stretch that was being
//! written when the tap died is used as far as it goes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::redact::Veil;

const MAGIC: [u8; 8] = *b"rpctape1";
const STRETCH_HEAD_BYTES: u64 = 24;

/// Longer headers than this are not ours.
const LONGEST_HEADER_BYTES: u64 = 1024 * 1024;

pub struct Spool {
    path: PathBuf,
    file: Arc<File>,
    veil: Option<Arc<Veil>>,
    /// In the order of position.
    stretches: Vec<Stretch>,
    first: u64,
    end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    position: u64,
    offset: u64,
    len: u64,
}

/// Reads one stretch, or a part of it, without holding the spool.
pub struct Reading {
    file: Arc<File>,
    veil: Option<Arc<Veil>>,
    offset: u64,
    position: u64,
    pub len: u64,
}

impl Reading {
    pub fn read(&self, at_most: usize, into: &mut Vec<u8>) -> io::Result<()> {
        into.resize(self.len.min(at_most as u64) as usize, 0);
        self.file.read_exact_at(into, self.offset)?;
        if let Some(veil) = &self.veil {
            veil.apply(self.position, into);
        }
        Ok(())
    }
}

/// A place in a spool that is being written.
pub struct Reserved {
    file: Arc<File>,
    veil: Option<Arc<Veil>>,
    stretch: Stretch,
}

impl Reserved {
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let Stretch { position, offset, .. } = self.stretch;
        match &self.veil {
            None => self.file.write_all_at(bytes, offset),
            Some(veil) => {
                let mut hidden = bytes.to_vec();
                veil.apply(position, &mut hidden);
                self.file.write_all_at(&hidden, offset)
            }
        }
    }
}

impl Spool {
    /// Makes the file, for the user's eyes only. The header says whose it is. With a veil, what it holds can be
    /// read by this process only.
    pub fn create(path: &Path, header: &str, veil: Option<Arc<Veil>>) -> io::Result<Spool> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let _ = file.try_lock();
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&(header.len() as u64).to_le_bytes());
        head.extend_from_slice(header.as_bytes());
        if let Err(cause) = file.write_all_at(&head, 0) {
            let _ = std::fs::remove_file(path);
            return Err(cause);
        }
        let end = head.len() as u64;
        Ok(Spool { path: path.to_path_buf(), file: Arc::new(file), veil, stretches: Vec::new(), first: end, end })
    }

    /// Opens a spool that was left behind, with its header; `None` while its tap is alive, or if it is none.
    pub fn open_left_behind(path: &Path) -> io::Result<Option<(Spool, String)>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(cause)) => return Err(cause),
            Ok(()) => {}
        }
        let size = file.metadata()?.len();
        let mut head = [0; 16];
        if size < 16 || file.read_exact_at(&mut head, 0).is_err() || head[..8] != MAGIC {
            return Ok(None);
        }
        let len = number(&head[8..]);
        if len > LONGEST_HEADER_BYTES || 16 + len > size {
            return Ok(None);
        }
        let mut header = vec![0; len as usize];
        file.read_exact_at(&mut header, 16)?;
        let Ok(header) = String::from_utf8(header) else { return Ok(None) };
        let first = 16 + len;
        let mut spool = Spool {
            path: path.to_path_buf(),
            file: Arc::new(file),
            veil: None,
            stretches: Vec::new(),
            first,
            end: first,
        };
        while spool.end + STRETCH_HEAD_BYTES <= size {
            let mut head = [0; STRETCH_HEAD_BYTES as usize];
            spool.file.read_exact_at(&mut head, spool.end)?;
            if head[..8] != MAGIC {
                break;
            }
            let offset = spool.end + STRETCH_HEAD_BYTES;
            let len = number(&head[16..]).min(size - offset);
            spool.note(Stretch { position: number(&head[8..]), offset, len });
            spool.end = offset + len;
        }
        Ok(Some((spool, header)))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name a store knows it by.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Keeps a stretch. When the disk refuses, nothing of it stays behind.
    pub fn keep(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let place = self.reserve(position, bytes.len() as u64)?;
        let written = place.write(bytes);
        self.settle(&place, written)
    }

    /// Makes a place for a stretch, to be written without holding the spool and then settled.
    pub fn reserve(&mut self, position: u64, len: u64) -> io::Result<Reserved> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&position.to_le_bytes());
        head.extend_from_slice(&len.to_le_bytes());
        if let Err(cause) = self.file.write_all_at(&head, self.end) {
            let _ = self.file.set_len(self.end);
            return Err(cause);
        }
        let stretch = Stretch { position, offset: self.end + STRETCH_HEAD_BYTES, len };
        self.end = stretch.offset + len;
        Ok(Reserved { file: Arc::clone(&self.file), veil: self.veil.clone(), stretch })
    }

    /// What was reserved is written, or could not be.
    pub fn settle(&mut self, place: &Reserved, written: io::Result<()>) -> io::Result<()> {
        let Stretch { offset, len, .. } = place.stretch;
        match written {
            Ok(()) => self.note(place.stretch),
            Err(_) if self.end == offset + len => {
                self.end = offset - STRETCH_HEAD_BYTES;
                let _ = self.file.set_len(self.end);
            }
            Err(_) => {}
        }
        written
    }

    fn note(&mut self, stretch: Stretch) {
        if stretch.len > 0 {
            let place = self.stretches.partition_point(|known| known.position < stretch.position);
            self.stretches.insert(place, stretch);
        }
    }

    /// Bytes kept at or after a position.
    pub fn waiting_after(&self, position: u64) -> u64 {
        self.stretches.iter().map(|s| (s.position + s.len).saturating_sub(s.position.max(position))).sum()
    }

    /// The next stretch at or after a position, and where it begins.
    pub fn next(&self, position: u64) -> Option<(u64, Reading)> {
        let stretch = self.stretches.iter().find(|stretch| stretch.position + stretch.len > position)?;
        let from = position.max(stretch.position);
        let offset = stretch.offset + (from - stretch.position);
        let len = stretch.position + stretch.len - from;
        let reading = Reading { file: Arc::clone(&self.file), veil: self.veil.clone(), offset, position: from, len };
        Some((from, reading))
    }

    /// Gives the disk back once everything before `position` is safe and nothing else is left.
    pub fn forget_before(&mut self, position: u64) {
        if !self.stretches.is_empty() && self.waiting_after(position) == 0 {
            self.stretches.clear();
            self.end = self.first;
            let _ = self.file.set_len(self.first);
        }
    }

    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &Spool, mut position: u64) -> Vec<u8> {
        let mut found = Vec::new();
        while let Some((from, reading)) = spool.next(position) {
            let mut part = Vec::new();
            reading.read(3, &mut part).unwrap();
            position = from + part.len() as u64;
            found.extend(part);
        }
        found
    }

    #[test]
    fn stretches_come_back_in_order_of_position_also_from_a_dead_tap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = Spool::create(&path, "mine", None).unwrap();
        spool.keep(5, b"fghij").unwrap();
        spool.keep(0, b"abcde").unwrap();
        spool.keep(10, b"klm").unwrap();
        assert_eq!(all(&spool, 0), b"abcdefghijklm");
        assert_eq!((all(&spool, 7), spool.waiting_after(7)), (b"hijklm".to_vec(), 6));
        assert!(Spool::open_left_behind(&path).unwrap().is_none(), "its tap is alive");
        drop(spool);
        let size = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(size - 1).unwrap();
        let (mut again, header) = Spool::open_left_behind(&path).unwrap().unwrap();
        assert_eq!((header.as_str(), all(&again, 0)), ("mine", b"abcdefghijkl".to_vec()));
        again.forget_before(11);
        assert_eq!(again.waiting_after(0), 12);
        again.forget_before(12);
        assert!(again.next(0).is_none());
        again.keep(20, b"z").unwrap();
        assert_eq!(all(&again, 0), b"z");
    }

    #[test]
    fn a_veiled_spool_shows_nothing_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = Spool::create(&path, "mine", Some(Arc::default())).unwrap();
        spool.keep(3, b"a long secret word").unwrap();
        assert_eq!(all(&spool, 8), b"g secret word");
        let raw = std::fs::read(&path).unwrap();
        assert!(!raw.windows(6).any(|window| window == b"secret"));
    }

    #[test]
    fn what_is_no_spool_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        for junk in [&b""[..], b"rpctape1", b"rpctape1\xff\xff\xff\xff\xff\xff\xff\xffjunk", &[b'x'; 100]] {
            std::fs::write(&path, junk).unwrap();
            assert!(Spool::open_left_behind(&path).unwrap().is_none());
        }
    }
}
