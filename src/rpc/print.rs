//! A fingerprint of bytes that come in any pieces: 64 bits, the same however they were cut.
//!
//! Used to compare (equal calls, long marks), never to keep a secret or to withstand someone who looks for
//! collisions. It is stored, so its values must not change.

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd1b5_4a32_d192_ed03;
const THIRD: u64 = 0x8cb9_2ba7_2f3d_8dd7;
const BLOCK: usize = 16;

#[derive(Debug, Clone, Copy)]
pub struct Print {
    state: u64,
    total: u64,
    tail: [u8; BLOCK],
}

impl Default for Print {
    fn default() -> Self {
        Print { state: FIRST, total: 0, tail: [0; BLOCK] }
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn half(block: &[u8; BLOCK], from: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&block[from..from + 8]);
    u64::from_le_bytes(word)
}

fn step(state: u64, block: &[u8; BLOCK]) -> u64 {
    fold(half(block, 0) ^ state, half(block, 8) ^ SECOND)
}

impl Print {
    pub fn of(bytes: &[u8]) -> u64 {
        let mut print = Print::default();
        print.update(bytes);
        print.value()
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        let waiting = self.total as usize % BLOCK;
        self.total += bytes.len() as u64;
        if waiting > 0 {
            let taken = bytes.len().min(BLOCK - waiting);
            self.tail[waiting..waiting + taken].copy_from_slice(&bytes[..taken]);
            if waiting + taken < BLOCK {
                return;
            }
            self.state = step(self.state, &self.tail);
            bytes = &bytes[taken..];
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut state = self.state;
        for block in blocks {
            state = step(state, block);
        }
        self.state = state;
        self.tail[..rest.len()].copy_from_slice(rest);
    }

    /// Never 0: that says "none" where prints are kept.
    pub fn value(&self) -> u64 {
        let mut last = [0; BLOCK];
        let waiting = self.total as usize % BLOCK;
        last[..waiting].copy_from_slice(&self.tail[..waiting]);
        let value = fold(step(self.state, &last) ^ THIRD, self.total ^ SECOND);
        fold(value ^ FIRST, THIRD).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_does_not_matter() {
        let text: Vec<u8> = (0..100u8).collect();
        for at in 0..text.len() {
            let mut print = Print::default();
            print.update(&text[..at]);
            print.update(&text[at..]);
            assert_eq!(print.value(), Print::of(&text));
        }
    }

    #[test]
    fn values_stay_what_they_are_and_differ() {
        assert_eq!(Print::of(b""), Print::default().value());
        let texts: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"b", b"a\0"];
        for (number, one) in texts.iter().enumerate() {
            for other in &texts[..number] {
                assert_ne!(Print::of(one), Print::of(other));
            }
        }
    }
}
