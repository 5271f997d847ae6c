//! JSON strings without their escapes, one behind the other in one buffer.
//!
//! Comes in: the text behind an opening quote. Goes out: what it stands for. Nearly every byte of a line log passes
//! through here.

#[cfg(target_arch = "x86_64")]
mod blocks;

/// A buffer for unescaped text that is filled again and again.
#[derive(Debug, Default)]
pub struct Plain {
    bytes: Vec<u8>,
    len: usize,
}

impl Plain {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Takes back what was added behind `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Unescapes a string as [`Plain::add`] does, in place of all before.
    pub fn fill(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        self.clear();
        self.add(bytes, at)
    }

    /// Adds bytes as they are.
    pub fn add_plain(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn make_room(&mut self, more: usize) {
        let room = self.len + more;
        if self.bytes.len() < room {
            self.bytes.resize(room.next_multiple_of(4096), 0);
        }
    }

    /// Unescapes the string that begins at `bytes[at]` (just behind its opening quote) and adds it; gives the place
    /// behind the closing quote, or adds nothing. What is no escape is kept as it stands.
    pub fn add(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        // Unescaping never lengthens; some more, so that whole blocks can be written past the end.
        self.make_room(bytes.len() - at + 64);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has what it needs, and it needs nothing else.
            let (end, len) = unsafe { blocks::unescape(bytes, at, &mut self.bytes, self.len) }?;
            self.len = len;
            return Some(end);
        }
        let (end, len) = by_steps(bytes, at, &mut self.bytes, self.len)?;
        self.len = len;
        Some(end)
    }
}

/// Unescapes a string as [`Plain::add`] does, to `out` from `to` on; gives where both end. On any processor.
fn by_steps(bytes: &[u8], mut at: usize, out: &mut [u8], mut to: usize) -> Option<(usize, usize)> {
    loop {
        // Sixteen bytes are copied whether they are plain or not: what is wrong is written over.
        while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
            out[to..to + 16].copy_from_slice(block);
            let found = marked(block);
            if found == 0 {
                at += 16;
                to += 16;
                continue;
            }
            let plain = found.trailing_zeros() as usize;
            at += plain;
            to += plain;
            let Some(&[mark, escaped]) = bytes.get(at..at + 2) else { break };
            let simple = ESCAPES[escaped as usize];
            if mark == b'"' || simple == 0 {
                break;
            }
            out[to] = simple;
            to += 1;
            at += 2;
        }
        match *bytes.get(at)? {
            b'"' => {
                return Some((at + 1, to));
            }
            b'\\' => {
                let escaped = *bytes.get(at + 1)?;
                if escaped == b'u' {
                    let (len, taken) = unicode(&bytes[at..], &mut out[to..]);
                    to += len;
                    at += taken;
                    continue;
                }
                out[to] = if ESCAPES[escaped as usize] == 0 { escaped } else { ESCAPES[escaped as usize] };
                to += 1;
                at += 2;
            }
            other => {
                out[to] = other;
                to += 1;
                at += 1;
            }
        }
    }
}

/// What stands for an escape of one letter; 0 for `u` and for what is no escape.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table[b'b' as usize] = 8;
    table[b'f' as usize] = 12;
    table
};

/// One bit per byte of the block that is a quote or a backslash.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn marked(block: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};
    let block = u128::from_le_bytes(*block);
    // SAFETY: these need SSE2, which every x86-64 has, and touch no memory through a pointer.
    unsafe {
        let block = _mm_set_epi64x((block >> 64) as i64, block as i64);
        let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
        let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
        _mm_movemask_epi8(_mm_or_si128(quotes, backslashes)) as u32
    }
}

/// One bit per byte of the block that is a quote or a backslash.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn marked(block: &[u8; 16]) -> u32 {
    block.iter().enumerate().fold(0, |found, (at, byte)| found | u32::from(matches!(byte, b'"' | b'\\')) << at)
}

/// Reads `\uXXXX` (and the other half of a pair) at the start of `bytes`; gives bytes written and bytes taken.
fn unicode(bytes: &[u8], out: &mut [u8]) -> (usize, usize) {
    let unit = |at: usize| -> Option<u32> {
        if bytes.get(at) != Some(&b'\\') || bytes.get(at + 1) != Some(&b'u') {
            return None;
        }
        let digits = std::str::from_utf8(bytes.get(at + 2..at + 6)?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let Some(first) = unit(0) else {
        out[..2].copy_from_slice(b"\\u");
        return (2, 2);
    };
    let (code, taken) = match first {
        0xd800..=0xdbff => match unit(6) {
            Some(second @ 0xdc00..=0xdfff) => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12),
            _ => (0xfffd, 6),
        },
        // Python writes a byte that is no UTF-8 as a lone surrogate; it goes back to what it was.
        0xdc80..=0xdcff => {
            out[0] = (first & 0xff) as u8;
            return (1, 6);
        }
        0xdc00..=0xdfff => (0xfffd, 6),
        code => (code, 6),
    };
    let text = char::from_u32(code).unwrap_or('\u{fffd}');
    (text.encode_utf8(out).len(), taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte.
    fn slow(raw: &[u8]) -> Option<(usize, Vec<u8>)> {
        let (mut out, mut at) = (Vec::new(), 0);
        loop {
            match *raw.get(at)? {
                b'"' => return Some((at + 1, out)),
                b'\\' if *raw.get(at + 1)? == b'u' => {
                    let mut written = [0; 8];
                    let (len, taken) = unicode(&raw[at..], &mut written);
                    out.extend_from_slice(&written[..len]);
                    at += taken;
                }
                b'\\' => {
                    let letter = raw[at + 1];
                    out.push(if ESCAPES[letter as usize] == 0 { letter } else { ESCAPES[letter as usize] });
                    at += 2;
                }
                other => {
                    out.push(other);
                    at += 1;
                }
            }
        }
    }

    #[test]
    fn all_ways_agree_wherever_escapes_lie() {
        let mut state = 0x5eed_u64;
        let mut dice = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        let parts: [&[u8]; 13] = [
            b"\\\\",
            b"\\\"",
            b"x",
            b"\\n",
            b"some words without any escape in them, and more of them",
            b"\\",
            b"\\u00e9",
            b"\\ud83d\\ude00",
            b"\\ud83d",
            b"\\u12",
            b"\\/",
            b"\xc3\xbc",
            b"\\q",
        ];
        let mut plain = Plain::default();
        for _ in 0..20_000 {
            let mut raw = b"before ".to_vec();
            let (len, kinds) = (dice(300), 1 + dice(parts.len() as u64));
            while (raw.len() as u64) < len {
                raw.extend_from_slice(parts[dice(kinds) as usize]);
            }
            if dice(10) > 0 {
                raw.extend_from_slice(b"\"} behind \\ the \" end");
            }
            let wanted = slow(&raw[7..]);
            plain.clear();
            plain.add_plain(b"held");
            let end = plain.add(&raw, 7);
            assert!(plain.as_bytes().starts_with(b"held"));
            let found = end.map(|end| (end - 7, plain.as_bytes()[4..].to_vec()));
            assert_eq!(found, wanted, "{}", String::from_utf8_lossy(&raw));
            assert!(end.is_some() || plain.as_bytes().len() == 4);
            let mut out = vec![0; raw.len() + 64];
            let found = by_steps(&raw, 7, &mut out, 3).map(|(end, len)| (end - 7, out[3..len].to_vec()));
            assert_eq!(found, wanted, "{}", String::from_utf8_lossy(&raw));
        }
    }
}
