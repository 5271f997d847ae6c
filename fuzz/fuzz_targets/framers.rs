#![no_main]

use libfuzzer_sys::fuzz_target;
use rpctap::wire::content_length::ContentLength;
use rpctap::wire::lines::Lines;
use rpctap::wire::sniff::Sniff;
use rpctap::wire::{Framer, Piece};

fn cut<F: Framer + Default>(bytes: &[u8], size: usize) -> Vec<String> {
    let (mut framer, mut told, mut body) = (F::default(), Vec::new(), Vec::new());
    let mut hear = |piece: Piece<'_>| match piece {
        Piece::Body(part) => body.extend_from_slice(part),
        Piece::End { body_start, body_len, end } => {
            assert_eq!(body.len() as u64, body_len);
            let start = body_start as usize;
            assert_eq!(&bytes[start..start + body.len()], &body[..]);
            body.clear();
            told.push(format!("{body_start} {body_len} {end}"));
        }
        Piece::Fault { fault, start, len } => {
            assert!(start + len <= bytes.len() as u64);
            told.push(format!("{} {start} {len}", fault.name()));
        }
    };
    for piece in bytes.chunks(size) {
        framer.feed(piece, &mut hear);
    }
    framer.finish(&mut hear);
    told
}

fn check<F: Framer + Default>(bytes: &[u8], size: usize) {
    assert_eq!(cut::<F>(bytes, bytes.len().max(1)), cut::<F>(bytes, size));
}

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let size = *size as usize + 1;
    check::<Lines>(bytes, size);
    check::<ContentLength>(bytes, size);
    check::<Sniff>(bytes, size);
});
