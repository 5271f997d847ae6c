//! For tests of framers: what was told, with the parts of a body put together again.

use super::{Fault, Framer, Piece};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Frame { body: Vec<u8>, start: u64, end: u64 },
    Fault { fault: Fault, start: u64, len: u64 },
}

/// Collects pieces, and holds them to the promises that every framer makes.
#[derive(Default)]
pub struct Teller {
    body: Vec<u8>,
    pub told: Vec<Told>,
}

impl Teller {
    pub fn hear(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Body(part) => self.body.extend_from_slice(part),
            Piece::End { body_start, body_len, end } => {
                assert_eq!(self.body.len() as u64, body_len, "the parts make up the body");
                assert!(body_start + body_len <= end, "a body ends within its frame");
                self.told.push(Told::Frame { body: std::mem::take(&mut self.body), start: body_start, end });
            }
            Piece::Fault { fault, start, len } => self.told.push(Told::Fault { fault, start, len }),
        }
    }
}

/// Cuts `text` whole, at each single place, and byte by byte; all must tell the same.
pub fn every_split<F: Framer + Default>(text: &[u8]) -> Vec<Told> {
    let cut = |pieces: &[&[u8]]| {
        let (mut framer, mut teller) = (F::default(), Teller::default());
        for piece in pieces {
            framer.feed(piece, &mut |piece| teller.hear(piece));
        }
        framer.finish(&mut |piece| teller.hear(piece));
        assert!(teller.body.is_empty(), "no body is left open at the end");
        for told in &teller.told {
            if let Told::Frame { body, start, .. } = told {
                let from = *start as usize;
                assert_eq!(&text[from..from + body.len()], &body[..], "a body lies where it is said to lie");
            }
        }
        teller.told
    };
    let whole = cut(&[text]);
    for at in 0..=text.len() {
        assert_eq!(cut(&[&text[..at], &text[at..]]), whole, "cut at {at}");
    }
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(cut(&bytes), whole, "byte by byte");
    whole
}
