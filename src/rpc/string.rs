//! The inside of JSON strings, where most bytes are: passed over sixteen at a time.

/// The first byte from `at` on that is a quote, a backslash, a control character or not ASCII; or the end.
#[inline(always)]
pub(super) fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let found = odd_bytes(block);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += 16;
    }
    while let Some(byte) = bytes.get(at) {
        if !matches!(byte, 0x20..0x80) || matches!(byte, b'"' | b'\\') {
            break;
        }
        at += 1;
    }
    at
}

/// One bit per byte of the block that is not plain.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn odd_bytes(block: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };
    let block = u128::from_le_bytes(*block);
    // SAFETY: these need SSE2, which every x86-64 has, and nothing else: no memory is touched through a pointer.
    unsafe {
        let block = _mm_set_epi64x((block >> 64) as i64, block as i64);
        let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
        let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
        // Bytes are signed here: those that are not ASCII are below zero, and so below the first plain one.
        let below = _mm_cmplt_epi8(block, _mm_set1_epi8(0x20));
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), below)) as u32
    }
}

/// One bit per byte of the block that is not plain.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn odd_bytes(block: &[u8; 16]) -> u32 {
    let mut found = 0;
    for (at, byte) in block.iter().enumerate() {
        found |= u32::from(!(0x20..0x80).contains(byte) || *byte == b'"' || *byte == b'\\') << at;
    }
    found
}

/// What must still come of a UTF-8 character: how many bytes, and between which bounds the next lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    left: u8,
    low: u8,
    high: u8,
}

impl Tail {
    pub fn after(first: u8) -> Option<Tail> {
        let (left, low, high) = match first {
            0xc2..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x80, 0xbf),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return None,
        };
        Some(Tail { left, low, high })
    }

    /// `None` if the byte does not fit; else what is left after it.
    pub fn take(self, byte: u8) -> Option<Option<Tail>> {
        if !(self.low..=self.high).contains(&byte) {
            return None;
        }
        Some((self.left > 1).then_some(Tail { left: self.left - 1, low: 0x80, high: 0xbf }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_bytes_are_passed_over_wherever_the_end_lies() {
        for stop in [b'"', b'\\', 0x1f, 0, 0x80, 0xff] {
            for length in 0..40 {
                let mut text = vec![b'~'; length];
                text.extend([stop, b'"', 0x01, b'x']);
                for from in 0..=length {
                    assert_eq!(skip_plain(&text, from), length, "{stop} {length}");
                }
                assert_eq!(skip_plain(&text[..length], 0), length);
            }
        }
        for byte in 0..=255u8 {
            let stops = !(0x20..0x80).contains(&byte) || byte == b'"' || byte == b'\\';
            assert_eq!(skip_plain(&[byte; 8], 0) == 0, stops, "{byte}");
            assert_eq!(skip_plain(&[byte], 0) == 0, stops, "{byte}");
        }
    }

    #[test]
    fn characters_of_several_bytes_are_those_of_the_standard_library() {
        let valid = |bytes: &[u8]| {
            let mut tail = Tail::after(bytes[0]);
            for (at, byte) in bytes[1..].iter().enumerate() {
                match tail.and_then(|tail| tail.take(*byte)) {
                    Some(None) => return at + 2 == bytes.len(),
                    Some(more) => tail = more,
                    None => return false,
                }
            }
            false
        };
        for first in 0x80..=0xffu8 {
            for second in 0x70..=0xffu8 {
                assert_eq!(valid(&[first, second]), std::str::from_utf8(&[first, second]).is_ok());
                let (three, four) = ([first, second, 0x80], [first, second, 0x80, 0xbf]);
                assert_eq!(valid(&three), std::str::from_utf8(&three).is_ok_and(|text| text.chars().count() == 1));
                assert_eq!(valid(&four), std::str::from_utf8(&four).is_ok_and(|text| text.chars().count() == 1));
            }
        }
    }
}
