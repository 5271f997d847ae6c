//! A fast hash for keys we made or already bounded: ids, interned names, numbers.
//!
//! Multiply and rotate, with a seed of the process so that nobody on the wire can prepare collisions.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy)]
pub struct Quick(u64);

#[derive(Clone, Copy)]
pub struct Seeded(u64);

pub type Map<K, V> = HashMap<K, V, Seeded>;

impl Default for Seeded {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Seeded(*SEED.get_or_init(|| RandomState::new().hash_one(1u8)))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Quick;
    fn build_hasher(&self) -> Quick {
        Quick(self.0)
    }
}

impl Quick {
    fn mix(&mut self, word: u64) {
        // A 128-bit product folded in half: every bit of the word reaches every bit of the state.
        let product = u128::from(self.0 ^ word) * u128::from(MIX);
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        let rest = chunks.remainder();
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.mix(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A fingerprint of a text, for rings that remember only that.
pub fn print_of(text: &str) -> u64 {
    Seeded::default().hash_one(text)
}
