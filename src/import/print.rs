//! The fingerprint of a file's bytes, to know it again.
//!
//! 128 bits of our own mixing: a file is only ever compared with files the user imported himself, so speed counts here
//! and resistance against forgery does not. Any split of the same bytes gives the same fingerprint.

/// Odd numbers with their bits well spread, from the digits of the golden ratio and of pi.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3];

#[derive(Debug, Clone)]
pub struct Print {
    lanes: [u64; 2],
    held: [u8; 16],
    held_len: usize,
    bytes: u64,
}

impl Default for Print {
    fn default() -> Print {
        Print { lanes: [0x452821e638d01377, 0xbe5466cf34e90c6c], held: [0; 16], held_len: 0, bytes: 0 }
    }
}

impl Print {
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let mut rest = bytes;
        if self.held_len > 0 {
            let taken = rest.len().min(16 - self.held_len);
            self.held[self.held_len..self.held_len + taken].copy_from_slice(&rest[..taken]);
            self.held_len += taken;
            rest = &rest[taken..];
            if self.held_len < 16 {
                return;
            }
            let block = self.held;
            self.mix(&block);
            self.held_len = 0;
        }
        let mut blocks = rest.chunks_exact(16);
        for block in &mut blocks {
            self.mix(block);
        }
        let left = blocks.remainder();
        self.held[..left.len()].copy_from_slice(left);
        self.held_len = left.len();
    }

    #[inline(always)]
    fn mix(&mut self, block: &[u8]) {
        for lane in 0..2 {
            let word = u64::from_le_bytes(block[lane * 8..lane * 8 + 8].try_into().expect("eight bytes"));
            let product = u128::from(self.lanes[lane] ^ word) * u128::from(FACTORS[lane]);
            self.lanes[lane] = (product as u64 ^ (product >> 64) as u64).wrapping_add(word.rotate_left(32));
        }
    }

    /// How many bytes there were.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn text(&self) -> String {
        let mut end = self.clone();
        end.held[end.held_len..].fill(0);
        let block = end.held;
        end.mix(&block);
        for _ in 0..3 {
            let cross = end.lanes[0] ^ end.bytes;
            let mut block = [0; 16];
            block[..8].copy_from_slice(&end.lanes[1].to_le_bytes());
            block[8..].copy_from_slice(&cross.to_le_bytes());
            end.mix(&block);
        }
        format!("{:016x}{:016x}", end.lanes[0], end.lanes[1])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn print(bytes: &[u8]) -> String {
        let mut print = Print::default();
        print.update(bytes);
        print.text()
    }

    #[test]
    fn any_split_gives_the_same_and_any_change_another() {
        let bytes: Vec<u8> = (0..1_000u32).map(|n| (n * 7) as u8).collect();
        let whole = print(&bytes);
        for step in [1, 3, 15, 16, 17, 400] {
            let mut parts = Print::default();
            bytes.chunks(step).for_each(|part| parts.update(part));
            assert_eq!(parts.text(), whole);
        }
        let mut seen = HashSet::from([whole]);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert!(seen.insert(print(&other)), "byte {at} bit {bit}");
            }
            assert!(seen.insert(print(&bytes[..at])), "cut at {at}");
        }
        assert!(seen.insert(print(&[&bytes[..], &[0]].concat())));
    }
}
