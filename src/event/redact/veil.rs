//! Hides bytes that must touch the disk before they can be redacted.
//!
//! A spool takes raw chunks when the recorder cannot follow; with `--redact` nothing unredacted may reach the
//! disk, and a chunk cannot be redacted before the frame it belongs to is whole. So the spool is written through
//! a veil: a stream of pad bytes from a key that lives only in this process. After a crash such a spool cannot
//! be read by anyone, us included: what it held counts as lost.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const PAD_BYTES: u64 = 32;

pub struct Veil {
    key: [u8; 32],
}

impl Default for Veil {
    fn default() -> Self {
        Veil { key: fresh_key() }
    }
}

impl Veil {
    /// Hides, or shows again, `bytes` that lie at `offset` of the file.
    pub fn apply(&self, offset: u64, bytes: &mut [u8]) {
        let mut at = 0usize;
        while at < bytes.len() {
            let place = offset + at as u64;
            let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length will do");
            mac.update(&(place / PAD_BYTES).to_le_bytes());
            let pad = mac.finalize().into_bytes();
            for pad in &pad[(place % PAD_BYTES) as usize..] {
                let Some(byte) = bytes.get_mut(at) else { return };
                *byte ^= pad;
                at += 1;
            }
        }
    }
}

/// A key nobody can know: the standard library seeds each `RandomState` from the system's random source.
pub fn fresh_key() -> [u8; 32] {
    let mut digest = Sha256::new();
    for round in 0..4u64 {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(round);
        digest.update(hasher.finish().to_le_bytes());
        let held = Box::new(round);
        digest.update((std::ptr::from_ref(&*held) as usize).to_le_bytes());
    }
    digest.finalize().into()
}

/// A key that is the same whenever the same file is read, so that its reports can be compared; only who has the file
/// can know it.
pub fn key_of(file: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(b"rpctap import").chain_update(file).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_veiled_can_be_read_back_from_any_place() {
        let veil = Veil::default();
        let clear: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        let mut hidden = clear.clone();
        veil.apply(77, &mut hidden);
        assert_ne!(hidden, clear);
        for (start, end) in [(0, 1000), (1, 40), (500, 501), (31, 33)] {
            let mut part = hidden[start..end].to_vec();
            veil.apply(77 + start as u64, &mut part);
            assert_eq!(part, clear[start..end]);
        }
    }
}
