//! A file, a pipe or a compressed file → plain bytes, with its first ones at hand.
//!
//! gzip and zstd are told by their first bytes and read through; how much may come out of them is bounded. A
//! compressed file that breaks off is read as far as it goes, and the break is told by [`Input::broken`]. This file
//! refuses to know formats; that a trace may lie in many files is known to [`threads`].

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::ahead::Ahead;
use super::print::Print;
use super::strace::threads;
use crate::error::{Doing, Error, Result};

/// How much of a file importers may look at to recognise it: enough for a head and a few whole messages.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Compressed input may grow by this much and no more: deflate cannot pass 1032, and honest logs stay far below.
const MOST_GROWTH: u64 = 1_024;
/// Growth is not asked about below this size.
const FREE_GROWTH_BYTES: u64 = 256 * 1024 * 1024;
/// 2^26 = 64 MiB: every window `zstd` makes without `--long` or `--ultra`, and still within our memory.
const ZSTD_WINDOW_LOG: u32 = 26;

/// Counts the bytes of the file as it lies on disk that have been read: for progress, shared with who shows it.
pub type Counter = Arc<AtomicU64>;
/// The fingerprint of the file as it lies on disk, complete once it was read to the end.
pub type SharedPrint = Arc<Mutex<Print>>;
/// Why reading ended before the end, once it has.
pub type Broken = Arc<OnceLock<String>>;

pub struct Input {
    name: String,
    reader: Box<dyn Read + Send>,
    head: Vec<u8>,
    /// How much of `head` has been given out again.
    given: usize,
    /// A seekable plain file, for formats that must be read by their own library.
    path: Option<PathBuf>,
    size: Option<u64>,
    raw_read: Counter,
    print: SharedPrint,
    compressed: bool,
    given_total: u64,
    broken: Broken,
    /// Whether a thread of its own reads on.
    ahead: bool,
    /// Whether who reads does nothing else.
    aside: bool,
}

impl Input {
    /// Opens a file; `-` is stdin.
    pub fn open(path: &Path) -> Result<Input> {
        if path == Path::new("-") {
            return Input::from_reader("standard input", Box::new(io::stdin()), None);
        }
        let name = path.display().to_string();
        if let Some(merged) = threads::open(path)? {
            return Input::from_reader(&name, merged, None);
        }
        let file = File::open(path).doing(format!("opening {name}"))?;
        let about = file.metadata().doing(format!("opening {name}"))?;
        if about.is_dir() {
            return Err(Error::new(format!("opening {name}: it is a folder")));
        }
        let mut input = Input::from_reader(&name, Box::new(file), about.is_file().then_some(about.len()))?;
        input.path = Some(path.to_path_buf());
        Ok(input)
    }

    /// Anything that can be read, under a name for messages.
    pub fn from_reader(name: &str, reader: Box<dyn Read + Send>, size: Option<u64>) -> Result<Input> {
        let raw_read = Counter::default();
        let print = SharedPrint::default();
        let mut counting = Counting { reader, read: raw_read.clone(), print: print.clone() };
        let mut magic = Vec::with_capacity(4);
        fill(&mut counting, &mut magic, 4).doing(format!("reading {name}"))?;
        let again = io::Cursor::new(magic.clone()).chain(counting);
        let (reader, compressed): (Box<dyn Read + Send>, bool) = match magic.as_slice() {
            [0x1f, 0x8b, ..] => (Box::new(flate2::read::MultiGzDecoder::new(again)), true),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                let mut decoder = zstd::stream::read::Decoder::new(again).doing(format!("reading {name}"))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).doing(format!("reading {name}"))?;
                (Box::new(decoder), true)
            }
            _ => (Box::new(again), false),
        };
        // Windows shells write what they are told to keep as UTF-16.
        let mut mark = Vec::with_capacity(2);
        let mut reader = reader;
        let marked = fill(&mut reader, &mut mark, 2);
        let reader: Box<dyn Read + Send> = match mark.as_slice() {
            [0xff, 0xfe] => Box::new(Utf16::new(reader, u16::from_le_bytes)),
            [0xfe, 0xff] => Box::new(Utf16::new(reader, u16::from_be_bytes)),
            _ => Box::new(io::Cursor::new(mark.clone()).chain(reader)),
        };
        let mut input = Input {
            name: name.to_string(),
            reader,
            head: Vec::new(),
            given: 0,
            path: None,
            size,
            raw_read,
            print,
            compressed,
            given_total: 0,
            broken: Broken::default(),
            ahead: false,
            aside: false,
        };
        let mut head = Vec::new();
        if let Err(cause) = marked.and_then(|()| fill(&mut input.reader, &mut head, HEAD_BYTES)) {
            if head.is_empty() {
                return Err(Error::new(format!("reading {name}: {cause}")));
            }
            input.set_broken(cause.to_string());
        }
        input.head = head;
        Ok(input)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says that it is read on a thread that does little else: then only unpacking is worth one more.
    pub fn read_aside(mut self) -> Input {
        self.aside = true;
        self
    }

    /// The first bytes, decompressed; reading starts with them all the same.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The file itself, where it is a plain one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| !self.compressed)
    }

    /// Its size on disk, where it has one.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Counts up while the file is read.
    pub fn counter(&self) -> Counter {
        self.raw_read.clone()
    }

    /// Its fingerprint, complete once it was read to the end.
    pub fn print(&self) -> SharedPrint {
        self.print.clone()
    }

    /// Why reading ended before the end, if it did.
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// The same, to be asked while someone else reads.
    pub fn broken_later(&self) -> Broken {
        self.broken.clone()
    }

    fn set_broken(&self, why: String) {
        // Only the first reason is of interest: what follows it is its consequence.
        let _ = self.broken.set(why);
    }

    fn grown_too_far(&self) -> bool {
        self.compressed
            && self.given_total > FREE_GROWTH_BYTES
            && self.given_total / MOST_GROWTH > self.raw_read.load(Ordering::Relaxed)
    }
}

impl Read for Input {
    /// Never fails: what breaks is remembered, and reading ends there.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given < self.head.len() {
            let len = into.len().min(self.head.len() - self.given);
            into[..len].copy_from_slice(&self.head[self.given..self.given + len]);
            self.given += len;
            self.given_total += len as u64;
            return Ok(len);
        }
        if self.broken().is_some() {
            return Ok(0);
        }
        if !self.ahead && self.head.len() >= HEAD_BYTES && (self.compressed || !self.aside) {
            // There is more than the head: worth a thread that reads and unpacks while this one translates.
            self.ahead = true;
            let reader = std::mem::replace(&mut self.reader, Box::new(io::empty()));
            self.reader = Ahead::of(reader);
        }
        loop {
            match self.reader.read(into) {
                Ok(len) => {
                    self.given_total += len as u64;
                    if self.grown_too_far() {
                        self.set_broken(format!("it unpacks to more than {MOST_GROWTH} times its size"));
                    }
                    return Ok(len);
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    self.set_broken(cause.to_string());
                    return Ok(0);
                }
            }
        }
    }
}

struct Counting {
    reader: Box<dyn Read + Send>,
    read: Counter,
    print: SharedPrint,
}

impl Read for Counting {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(into)?;
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        if let Ok(mut print) = self.print.lock() {
            print.update(&into[..len]);
        }
        Ok(len)
    }
}

/// UTF-16 → UTF-8, a block at a time.
struct Utf16 {
    reader: Box<dyn Read + Send>,
    unit: fn([u8; 2]) -> u16,
    /// Bytes and a first half of a pair that wait for the next block.
    odd: Vec<u8>,
    high: Option<u16>,
    ready: Vec<u8>,
    given: usize,
}

impl Utf16 {
    fn new(reader: Box<dyn Read + Send>, unit: fn([u8; 2]) -> u16) -> Utf16 {
        Utf16 { reader, unit, odd: Vec::new(), high: None, ready: Vec::new(), given: 0 }
    }

    /// Makes more text ready; `false` at the end.
    fn more(&mut self) -> io::Result<bool> {
        let mut part = [0u8; 16 * 1024];
        let len = self.reader.read(&mut part)?;
        self.odd.extend_from_slice(&part[..len]);
        let pairs = self.odd.len() / 2;
        let units: Vec<u16> = self
            .high
            .take()
            .into_iter()
            .chain(self.odd.chunks_exact(2).map(|two| (self.unit)([two[0], two[1]])))
            .collect();
        self.odd.drain(..pairs * 2);
        let mut units = &units[..];
        if len > 0
            && let [head @ .., last @ 0xd800..=0xdbff] = units
        {
            self.high = Some(*last);
            units = head;
        }
        self.ready.clear();
        self.given = 0;
        self.ready.extend_from_slice(String::from_utf16_lossy(units).as_bytes());
        Ok(len > 0)
    }
}

impl Read for Utf16 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() {
            if !self.more()? && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let len = into.len().min(self.ready.len() - self.given);
        into[..len].copy_from_slice(&self.ready[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

/// Reads until `into` has `len` bytes or the input ends; keeps what came before an error.
fn fill(reader: &mut dyn Read, into: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let mut part = [0u8; 8 * 1024];
    while into.len() < len {
        let want = part.len().min(len - into.len());
        match reader.read(&mut part[..want]) {
            Ok(0) => break,
            Ok(got) => into.extend_from_slice(&part[..got]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// The fingerprint of a whole file, read for its own sake.
pub fn print_of(path: &Path) -> Result<String> {
    let doing = || format!("reading {}", path.display());
    let mut file = File::open(path).doing(doing())?;
    let mut print = Print::default();
    let mut part = vec![0; 256 * 1024];
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(print.text()),
            Ok(len) => print.update(&part[..len]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause).doing(doing()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn input_of(bytes: Vec<u8>) -> Input {
        Input::from_reader("a test", Box::new(io::Cursor::new(bytes)), None).expect("readable")
    }

    fn all_of(mut input: Input) -> (Vec<u8>, Option<String>) {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).expect("never fails");
        (bytes, input.broken().map(str::to_string))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("in memory");
        encoder.finish().expect("in memory")
    }

    #[test]
    fn plain_gzip_and_zstd_give_the_same() {
        let plain: Vec<u8> = (0..200_000u32).flat_map(|n| n.to_le_bytes()).collect();
        let squeezed = zstd::encode_all(&plain[..], 1).expect("in memory");
        let two_members = [gzip(&plain[..1000]), gzip(&plain[1000..])].concat();
        for bytes in [plain.clone(), gzip(&plain), squeezed, two_members] {
            let input = input_of(bytes);
            assert_eq!(input.head(), &plain[..HEAD_BYTES]);
            assert_eq!(all_of(input), (plain.clone(), None));
        }
        assert_eq!(all_of(input_of(Vec::new())), (Vec::new(), None));
    }

    #[test]
    fn utf_16_is_read_as_what_it_says() {
        let text = "{\"a\":\"ü😀€\"}\r\n".repeat(5_000);
        let units: Vec<u16> = text.encode_utf16().collect();
        let little = [vec![0xff, 0xfe], units.iter().flat_map(|unit| unit.to_le_bytes()).collect()].concat();
        let big = [vec![0xfe, 0xff], units.iter().flat_map(|unit| unit.to_be_bytes()).collect()].concat();
        for bytes in [little.clone(), big, gzip(&little)] {
            assert_eq!(all_of(input_of(bytes)), (text.clone().into_bytes(), None));
        }
        let lone = [&[0xff, 0xfe][..], &[b'x', 0, 0x3d, 0xd8, 7]].concat();
        assert_eq!(all_of(input_of(lone)).0, "x\u{fffd}".as_bytes());
        assert_eq!(all_of(input_of(vec![0xff])).0, [0xff]);
    }

    #[test]
    fn a_file_that_breaks_off_is_read_as_far_as_it_goes() {
        let plain: Vec<u8> = (0..200_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut bytes = gzip(&plain);
        bytes.truncate(bytes.len() / 2);
        let (read, broken) = all_of(input_of(bytes));
        assert!(read.len() > 100_000 && plain.starts_with(&read));
        assert!(broken.is_some());
    }

    #[test]
    fn what_unpacks_without_end_is_stopped() {
        let bomb = zstd::encode_all(io::repeat(b'x').take(400 << 20), 1).expect("in memory");
        let packed = bomb.len() as u64;
        let mut input = input_of(bomb);
        let (mut part, mut total) = (vec![0; 1 << 20], 0u64);
        loop {
            match input.read(&mut part).expect("never fails") {
                0 => break,
                len => total += len as u64,
            }
        }
        assert!(input.broken().is_some_and(|why| why.contains("unpacks")), "{packed} grew to {total}");
        assert!(total < (300 << 20));
    }
}
