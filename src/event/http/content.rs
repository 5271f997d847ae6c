//! Undoes a body's content coding, within bounds.
//!
//! Comes in: the bytes of a body as they travelled. Goes out: what they say, piece by piece, as far as each piece
//! allows (an event stream may be compressed and must not wait for its end). A body that inflates beyond reason is
//! given up: it is told, never followed.

use std::io::Write;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// More than any message worth reading; a coded body that becomes longer is not followed.
const MOST_INFLATED_BYTES: u64 = 256 * 1024 * 1024;

/// Text is seldom packed tighter than 1:50; deflate's own bound is about 1:1030, and bombs come near it.
const MOST_INFLATION: u64 = 200;

/// The inflation is judged only past this length: short repetitive texts may well be packed tighter.
const JUDGED_FROM_BYTES: u64 = 8 * 1024 * 1024;

/// So much is inflated at once. At deflate's bound it becomes half a megabyte, which bounds our memory.
const SLICE_BYTES: usize = 512;

/// Why a coded body is not read (further).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Bomb,
    Broken,
    /// A coding that is not ours to undo (br, zstd, several at once).
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
    GivenUp,
}

pub(super) struct Content {
    coding: Coding,
    name: String,
    came: u64,
    gave: u64,
}

impl Content {
    /// By the value of `Content-Encoding`.
    pub(super) fn new(coding: Option<&str>) -> Content {
        let name = coding.unwrap_or("").trim().to_ascii_lowercase();
        let coding = match name.as_str() {
            "" | "identity" => Coding::Plain,
            "gzip" | "x-gzip" => Coding::Gzip(MultiGzDecoder::new(Vec::new())),
            "deflate" => Coding::DeflateOfSomeKind,
            _ => Coding::GivenUp,
        };
        Content { coding, name, came: 0, gave: 0 }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A coding we cannot undo, from the start.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.coding, Coding::GivenUp) && self.came == 0
    }

    /// Takes bytes and gives what they become. After trouble was told once, nothing more comes.
    pub(super) fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) -> Option<Trouble> {
        if let Coding::Plain = self.coding {
            give(bytes);
            return None;
        }
        if self.is_foreign() && !bytes.is_empty() {
            self.came += bytes.len() as u64;
            return Some(Trouble::Foreign);
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

    /// The body is over: tells whether the coding was not.
    pub(super) fn finish(&mut self, give: &mut dyn FnMut(&[u8])) -> Option<Trouble> {
        let (ended, rest) = match &mut self.coding {
            Coding::Plain | Coding::GivenUp | Coding::DeflateOfSomeKind => return None,
            Coding::Gzip(decoder) => (decoder.try_finish(), std::mem::take(decoder.get_mut())),
            Coding::Zlib(decoder) => (decoder.try_finish(), std::mem::take(decoder.get_mut())),
            Coding::Deflate(decoder) => (decoder.try_finish(), std::mem::take(decoder.get_mut())),
        };
        self.coding = Coding::GivenUp;
        if !rest.is_empty() {
            give(&rest);
        }
        ended.err().map(|_| Trouble::Broken)
    }

    fn inflate(&mut self, slice: &[u8], give: &mut dyn FnMut(&[u8])) -> Result<(), Trouble> {
        self.came += slice.len() as u64;
        if let (Coding::DeflateOfSomeKind, Some(first)) = (&self.coding, slice.first()) {
            self.coding = match first & 0x0f == 8 {
                true => Coding::Zlib(ZlibDecoder::new(Vec::new())),
                false => Coding::Deflate(DeflateDecoder::new(Vec::new())),
            };
        }
        fn through<W: Write>(decoder: &mut W, slice: &[u8]) -> std::io::Result<()> {
            decoder.write_all(slice)?;
            decoder.flush()
        }
        let (result, out) = match &mut self.coding {
            Coding::Gzip(decoder) => (through(decoder, slice), decoder.get_mut()),
            Coding::Zlib(decoder) => (through(decoder, slice), decoder.get_mut()),
            Coding::Deflate(decoder) => (through(decoder, slice), decoder.get_mut()),
            _ => return Ok(()),
        };
        self.gave += out.len() as u64;
        let too_far = self.gave > JUDGED_FROM_BYTES && self.gave / MOST_INFLATION > self.came;
        if too_far || self.gave > MOST_INFLATED_BYTES {
            return Err(Trouble::Bomb);
        }
        if !out.is_empty() {
            give(out);
            out.clear();
        }
        result.map_err(|_| Trouble::Broken)
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

    fn coded(text: &[u8]) -> [(&'static str, Vec<u8>); 4] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text).unwrap();
        zlib.write_all(text).unwrap();
        raw.write_all(text).unwrap();
        [
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
            ("identity", text.to_vec()),
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
        let (out, troubles) = read("gzip", &bomb, 4096);
        assert_eq!(troubles, [Trouble::Bomb]);
        assert!(out.len() as u64 <= JUDGED_FROM_BYTES);
    }

    #[test]
    fn broken_and_foreign_codings_are_told_once() {
        let (_, mut gzip) = coded(b"hello hello hello")[0].clone();
        assert_eq!(read("gzip", &gzip[..gzip.len() - 3], 5).1, [Trouble::Broken]);
        gzip[12] ^= 0x55;
        assert_eq!(read("gzip", &gzip, 5).1, [Trouble::Broken]);
        assert_eq!(read("br", b"whatever", 2), (Vec::new(), vec![Trouble::Foreign]));
    }
}
