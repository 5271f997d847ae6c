//! Undoes a body's content coding, within bounds.
//!
//! Comes in: the bytes of a body as they travelled. Goes out: what they say, piece by piece, as far as each piece
//! allows (an event stream may be compressed and must not wait for its end). A body that inflates beyond reason is
//! given up: it is told, never followed.

use std::io::Write;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// More than any message worth reading; a coded body that becomes longer is not followed.
const MOST_INFLATED_BYTES: u64 = 256 * 1024 * 1024;

/// Text is seldom packed tighter than 1:50; deflate's own bound is about 1:1030, and bombs come near it.
const MOST_INFLATION: u64 = 200;

/// The inflation is judged only past this length: short repetitive texts may well be packed tighter.
const JUDGED_FROM_BYTES: u64 = 8 * 1024 * 1024;

/// So much is inflated at once. At deflate's bound it becomes half a megabyte, which bounds our memory.
const SLICE_BYTES: usize = 512;

/// So much comes out of zstd at once.
const ZSTD_PIECE_BYTES: usize = 16 * 1024;

/// 8 MiB, which is what HTTP lets senders use (RFC 9659).
const LARGEST_WINDOW_LOG: u32 = 23;

/// Two are rare already.
const MOST_CODINGS: usize = 4;

/// Why a coded body is not read (further).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Bomb,
    Broken,
    /// A coding that is not ours to undo (br, compress).
    Foreign,
}

impl Trouble {
    pub(super) fn told(self, coding: &str) -> String {
        let coding: String = coding.chars().take(40).collect();
        match self {
            Trouble::Bomb => format!("a {coding} body that inflates beyond all reason was not read"),
            Trouble::Broken => format!("a {coding} body is broken and was read only so far"),
            Trouble::Foreign => format!("a body coded as {coding} cannot be read"),
        }
    }
}

enum Coding {
    Plain,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
    Deflate(DeflateDecoder<Vec<u8>>),
    /// `deflate` means zlib to the standard and raw deflate to some servers; the first byte tells.
    DeflateOfSomeKind,
    Zstd(Box<Zstd>),
    GivenUp,
}

struct Zstd {
    decoder: Decoder<'static>,
    /// A frame has begun and not ended.
    within: bool,
}

pub(super) struct Content {
    coding: Coding,
    /// What is below, where several were put one over the other.
    below: Option<Box<Content>>,
    name: String,
    came: u64,
    gave: u64,
    mislabelled: bool,
}

impl Content {
    /// By the value of `Content-Encoding`: one coding, or those that were put one over the other, the last one on top.
    pub(super) fn new(coding: Option<&str>) -> Content {
        let name = coding.unwrap_or("").trim().to_ascii_lowercase();
        let mut content = Content::of(Coding::Plain);
        for (depth, one) in name.split(',').map(str::trim).filter(|one| !matches!(*one, "" | "identity")).enumerate() {
            let coding = match one {
                "gzip" | "x-gzip" => Some(Coding::Gzip(MultiGzDecoder::new(Vec::new()))),
                "deflate" => Some(Coding::DeflateOfSomeKind),
                "zstd" => Zstd::new().map(|zstd| Coding::Zstd(Box::new(zstd))),
                _ => None,
            };
            let Some(coding) = coding.filter(|_| depth < MOST_CODINGS) else {
                content = Content::of(Coding::GivenUp);
                break;
            };
            let below = (depth > 0).then(|| Box::new(content));
            content = Content { below, ..Content::of(coding) };
        }
        Content { name, ..content }
    }

    fn of(coding: Coding) -> Content {
        Content { coding, below: None, name: String::new(), came: 0, gave: 0, mislabelled: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// It travels as it is.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.coding, Coding::Plain)
    }

    /// Whether the coding is not ours to undo, which is told with the first byte.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.coding, Coding::GivenUp) && self.came == 0
    }

    /// Whether what came is text and not coded at all, whatever the head said.
    pub(super) fn is_mislabelled(&self) -> bool {
        self.mislabelled
    }

    /// Takes bytes and gives what they become. After trouble was told once, nothing more comes.
    pub(super) fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) -> Option<Trouble> {
        if self.is_foreign() && !bytes.is_empty() {
            self.came += bytes.len() as u64;
            return Some(Trouble::Foreign);
        }
        if let (0, Some(first)) = (self.came, bytes.first()) {
            self.look_at(*first);
        }
        if let Coding::Plain = self.coding {
            give(bytes);
            return None;
        }
        for slice in bytes.chunks(SLICE_BYTES) {
            if matches!(self.coding, Coding::GivenUp) {
                return None;
            }
            if let Err(trouble) = self.inflate(slice, give) {
                self.coding = Coding::GivenUp;
                return Some(trouble);
            }
        }
        None
    }

    /// The first byte tells which deflate it is, and whether it is text that only says it is coded.
    fn look_at(&mut self, first: u8) {
        let is_text = matches!(first, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0xef);
        self.coding = match std::mem::replace(&mut self.coding, Coding::Plain) {
            Coding::Gzip(_) if is_text => Coding::Plain,
            // Frames begin with 0x28, those to be passed over with 0x50 to 0x5f.
            Coding::Zstd(_) if is_text && !matches!(first, 0x28 | 0x50..=0x5f) => Coding::Plain,
            Coding::DeflateOfSomeKind if first & 0x0f == 8 => Coding::Zlib(ZlibDecoder::new(Vec::new())),
            Coding::DeflateOfSomeKind => Coding::Deflate(DeflateDecoder::new(Vec::new())),
            Coding::Plain => return,
            other => other,
        };
        self.mislabelled = matches!(self.coding, Coding::Plain);
    }

    /// The body is over: tells whether the coding was not.
    pub(super) fn finish(&mut self, give: &mut dyn FnMut(&[u8])) -> Option<Trouble> {
        // A head may name the coding of a body that does not come: HEAD, 304.
        if self.came == 0 {
            return None;
        }
        let (ended, rest) = match &mut self.coding {
            Coding::Plain | Coding::GivenUp | Coding::DeflateOfSomeKind => return None,
            Coding::Gzip(decoder) => (decoder.try_finish().is_ok(), std::mem::take(decoder.get_mut())),
            Coding::Zlib(decoder) => (decoder.try_finish().is_ok(), std::mem::take(decoder.get_mut())),
            Coding::Deflate(decoder) => (decoder.try_finish().is_ok(), std::mem::take(decoder.get_mut())),
            Coding::Zstd(zstd) => (!zstd.within, Vec::new()),
        };
        self.coding = Coding::GivenUp;
        let mut trouble = None;
        if !rest.is_empty() {
            trouble = pass_on(&mut self.below, &rest, give).err();
        }
        if let Some(below) = &mut self.below {
            trouble = trouble.or(below.finish(give));
        }
        if ended { trouble } else { trouble.or(Some(Trouble::Broken)) }
    }

    fn inflate(&mut self, slice: &[u8], give: &mut dyn FnMut(&[u8])) -> Result<(), Trouble> {
        self.came += slice.len() as u64;
        fn through<W: Write>(decoder: &mut W, slice: &[u8]) -> std::io::Result<()> {
            decoder.write_all(slice)?;
            decoder.flush()
        }
        let Content { coding, below, came, gave, .. } = self;
        let mut count = |out: usize| {
            *gave += out as u64;
            let too_far = *gave > JUDGED_FROM_BYTES && *gave / MOST_INFLATION > *came;
            if too_far || *gave > MOST_INFLATED_BYTES { Err(Trouble::Bomb) } else { Ok(()) }
        };
        let (result, out) = match coding {
            Coding::Gzip(decoder) => (through(decoder, slice), decoder.get_mut()),
            Coding::Zlib(decoder) => (through(decoder, slice), decoder.get_mut()),
            Coding::Deflate(decoder) => (through(decoder, slice), decoder.get_mut()),
            Coding::Zstd(zstd) => {
                return zstd.through(slice, &mut |out| {
                    count(out.len())?;
                    pass_on(below, out, give)
                });
            }
            _ => return Ok(()),
        };
        count(out.len())?;
        if !out.is_empty() {
            pass_on(below, out, give)?;
            out.clear();
        }
        result.map_err(|_| Trouble::Broken)
    }
}

fn pass_on(below: &mut Option<Box<Content>>, out: &[u8], give: &mut dyn FnMut(&[u8])) -> Result<(), Trouble> {
    match below {
        Some(below) => below.feed(out, give).map_or(Ok(()), Err),
        None => {
            give(out);
            Ok(())
        }
    }
}

impl Zstd {
    fn new() -> Option<Zstd> {
        let mut decoder = Decoder::new().ok()?;
        decoder.set_parameter(DParameter::WindowLogMax(LARGEST_WINDOW_LOG)).ok()?;
        Some(Zstd { decoder, within: false })
    }

    /// A few bytes may become a hundred thousand times as many: what comes out is counted piece by piece.
    fn through(&mut self, mut slice: &[u8], give: &mut dyn FnMut(&[u8]) -> Result<(), Trouble>) -> Result<(), Trouble> {
        let mut out = [0; ZSTD_PIECE_BYTES];
        loop {
            let step = self.decoder.run_on_buffers(slice, &mut out).map_err(|_| Trouble::Broken)?;
            slice = &slice[step.bytes_read..];
            self.within = step.remaining > 0;
            if step.bytes_written > 0 {
                give(&out[..step.bytes_written])?;
            }
            if slice.is_empty() && step.bytes_written < out.len() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    fn read(coding: &str, bytes: &[u8], step: usize) -> (Vec<u8>, Vec<Trouble>) {
        let mut content = Content::new(Some(coding));
        let mut out = Vec::new();
        let mut troubles = Vec::new();
        for piece in bytes.chunks(step) {
            troubles.extend(content.feed(piece, &mut |piece| out.extend_from_slice(piece)));
        }
        troubles.extend(content.finish(&mut |piece| out.extend_from_slice(piece)));
        (out, troubles)
    }

    fn coded(text: &[u8]) -> [(&'static str, Vec<u8>); 7] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text).unwrap();
        zlib.write_all(text).unwrap();
        raw.write_all(text).unwrap();
        let (gzip, zlib) = (gzip.finish().unwrap(), zlib.finish().unwrap());
        let mut both = GzEncoder::new(Vec::new(), Compression::default());
        both.write_all(&zlib).unwrap();
        [
            ("gzip", gzip.clone()),
            ("deflate", zlib),
            ("deflate", raw.finish().unwrap()),
            ("identity", text.to_vec()),
            ("zstd", zstd::encode_all(text, 3).unwrap()),
            ("deflate, gzip", both.finish().unwrap()),
            ("GZIP , zstd", zstd::encode_all(&gzip[..], 3).unwrap()),
        ]
    }

    #[test]
    fn every_coding_gives_back_the_text_in_any_pieces() {
        let text: Vec<u8> = (0..20_000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for (name, bytes) in coded(&text) {
            for step in [1, 7, 100_000] {
                assert_eq!(read(name, &bytes, step), (text.clone(), Vec::new()), "{name} by {step}");
            }
        }
    }

    #[test]
    fn a_flushed_piece_is_given_before_the_end() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(b"data: 1\n\n").unwrap();
        gzip.flush().unwrap();
        let mut out = Vec::new();
        Content::new(Some("gzip")).feed(gzip.get_ref(), &mut |piece| out.extend_from_slice(piece));
        assert_eq!(out, b"data: 1\n\n");
    }

    #[test]
    fn a_bomb_is_told_and_not_followed() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![0; 1024 * 1024];
        for _ in 0..64 {
            gzip.write_all(&zeros).unwrap();
        }
        let bomb = gzip.finish().unwrap();
        let tight = zstd::encode_all(std::io::Read::take(std::io::repeat(b' '), 300 << 20), 1).unwrap();
        for (name, bomb) in [("gzip", bomb), ("zstd", tight)] {
            let (out, troubles) = read(name, &bomb, 4096);
            assert_eq!(troubles, [Trouble::Bomb]);
            assert!(out.len() as u64 <= JUDGED_FROM_BYTES);
        }
    }

    #[test]
    fn broken_and_foreign_codings_are_told_once() {
        let (_, mut gzip) = coded(b"hello hello hello")[0].clone();
        assert_eq!(read("gzip", &gzip[..gzip.len() - 3], 5).1, [Trouble::Broken]);
        gzip[12] ^= 0x55;
        assert_eq!(read("gzip", &gzip, 5).1, [Trouble::Broken]);
        for foreign in ["br", "gzip, br", "br, gzip", "gzip, gzip, gzip, gzip, gzip"] {
            assert_eq!(read(foreign, b"whatever", 2), (Vec::new(), vec![Trouble::Foreign]));
        }
        for (name, bytes) in coded(b"hello hello hello").into_iter().filter(|(name, _)| name.contains("z")) {
            assert_eq!(read(name, &bytes[..bytes.len() - 3], 5).1, [Trouble::Broken], "{name}");
            assert_eq!(read(name, b"", 5), (Vec::new(), Vec::new()), "a body that does not come is not broken");
        }
    }

    #[test]
    fn text_that_only_says_it_is_coded_is_text() {
        for name in ["gzip", "zstd"] {
            assert_eq!(read(name, b"{\"jsonrpc\":1}", 3), (b"{\"jsonrpc\":1}".to_vec(), Vec::new()));
            assert_eq!(read(name, b"\x01{}", 3).1, [Trouble::Broken]);
        }
    }
}
