//! Unescapes 64 bytes at a time, without a branch on where the escapes lie among them.
//!
//! Where they lie cannot be foretold, and each wrong guess of the processor costs as much as copying a hundred bytes. So
//! all of a block is moved, eight bytes at a time, by a table that says which bytes stay where some are left out.

use std::arch::x86_64::{
    _mm_cmpeq_epi8, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8,
    _mm_shuffle_epi8,
};

use super::{ESCAPES, unicode};

/// For each choice among eight bytes, one bit each: where those come from that stay, in order.
static MOVES: [i64; 256] = {
    let mut table = [0; 256];
    let mut kept = 0;
    while kept < 256 {
        let (mut row, mut place, mut bit) = ([0x80; 8], 0, 0);
        while bit < 8 {
            if kept >> bit & 1 == 1 {
                row[place] = bit;
                place += 1;
            }
            bit += 1;
        }
        table[kept] = i64::from_le_bytes(row);
        kept += 1;
    }
    table
};

/// Unescapes the string that begins at `bytes[at]`, to `out` from `to` on; gives where both end.
#[target_feature(enable = "ssse3,popcnt")]
pub(super) fn unescape(bytes: &[u8], at: usize, out: &mut [u8], mut to: usize) -> Option<(usize, usize)> {
    let mut from = at;
    // Whether the byte at `from` stands behind the backslash of an escape.
    let mut carried = 0;
    while let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) {
        let mut changed;
        let mut block = match rest.first_chunk::<64>() {
            Some(block) => block,
            None => {
                changed = [0; 64];
                changed[..rest.len()].copy_from_slice(rest);
                &changed
            }
        };
        let (quotes, backslashes) = marked(block);
        let (escapes, escaped) = escapes_of(backslashes, carried);
        let ends = quotes & !escaped;
        let mut within = (ends & ends.wrapping_neg()).wrapping_sub(1);
        let mut letters = escaped & within & !(quotes | backslashes);
        let mut odd = None;
        if letters != 0 {
            changed = *block;
            while letters != 0 {
                let place = letters.trailing_zeros() as usize;
                letters &= letters - 1;
                match ESCAPES[usize::from(changed[place])] {
                    0 => {
                        odd = Some(place);
                        within &= (1 << place) - 1;
                        break;
                    }
                    simple => changed[place] = simple,
                }
            }
            block = &changed;
        }
        let kept = within & !escapes;
        for (number, eight) in block.as_chunks::<8>().0.iter().enumerate() {
            let kept = (kept >> (8 * number)) as u8;
            let eight = _mm_cvtsi64_si128(i64::from_le_bytes(*eight));
            let moved = _mm_shuffle_epi8(eight, _mm_cvtsi64_si128(MOVES[usize::from(kept)]));
            out[to..to + 8].copy_from_slice(&_mm_cvtsi128_si64(moved).to_le_bytes());
            to += kept.count_ones() as usize;
        }
        if let Some(place) = odd {
            let backslash = from + place - 1;
            let (len, taken) = match *bytes.get(from + place)? {
                b'u' => unicode(&bytes[backslash..], &mut out[to..]),
                letter => {
                    out[to] = letter;
                    (1, 2)
                }
            };
            to += len;
            from = backslash + taken;
            carried = 0;
        } else if ends != 0 {
            return Some((from + ends.trailing_zeros() as usize + 1, to));
        } else {
            carried = escapes >> 63;
            from += 64;
        }
    }
    None
}

/// One bit per byte of the block that is a quote, and one per backslash.
#[target_feature(enable = "ssse3")]
fn marked(block: &[u8; 64]) -> (u64, u64) {
    let (mut quotes, mut backslashes) = (0, 0);
    for (number, part) in block.as_chunks::<16>().0.iter().enumerate() {
        let part = u128::from_le_bytes(*part);
        let part = _mm_set_epi64x((part >> 64) as i64, part as i64);
        let found = |mark: u8| _mm_movemask_epi8(_mm_cmpeq_epi8(part, _mm_set1_epi8(mark as i8))) as u16;
        quotes |= u64::from(found(b'"')) << (16 * number);
        backslashes |= u64::from(found(b'\\')) << (16 * number);
    }
    (quotes, backslashes)
}

/// Which of these backslashes begin an escape, and which bytes stand behind one that does. `carried` is 1 where the
/// first byte does.
///
/// Of backslashes in a row every second one is escaped by that before it. Taking them away from a word with every second
/// bit set turns, by its borrows, those rows into the wanted pattern: the way of simdjson.
#[inline(always)]
fn escapes_of(backslashes: u64, carried: u64) -> (u64, u64) {
    const EVERY_SECOND: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let may_begin = backslashes & !carried;
    let pattern = ((may_begin << 1) | EVERY_SECOND).wrapping_sub(may_begin) ^ EVERY_SECOND;
    (pattern & backslashes, pattern ^ (backslashes | carried))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_backslash_of_a_row_begins_an_escape() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..10_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Rows of many lengths.
            let backslashes = bits | bits >> (round % 7) | bits << (round % 5);
            for carried in [0, 1] {
                let (mut escapes, mut escaped, mut behind) = (0, 0, carried == 1);
                for at in 0..64 {
                    let begins = backslashes >> at & 1 == 1 && !behind;
                    escapes |= u64::from(begins) << at;
                    escaped |= u64::from(behind) << at;
                    behind = begins;
                }
                assert_eq!(escapes_of(backslashes, carried), (escapes, escaped), "{backslashes:x} {carried}");
            }
        }
    }
}
