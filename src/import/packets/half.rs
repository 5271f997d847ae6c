//! One direction of a TCP connection: segments in any order → bytes in order, and gaps.
//!
//! Sequence numbers wrap around at 2^32: they are read as a distance from what was given last. Where two segments
//! overlap, the bytes that came first count. What waits for a missing piece is bounded; past the bound, or as soon as the
//! other side has acknowledged what we do not have, the piece is given up and told as a gap: nobody will send it again,
//! and what the other side says from then on may be the answer to it.

use std::collections::BTreeMap;

use crate::event::Micros;

/// Bytes that wait for an earlier piece. A window of a fast connection, not more.
pub const MOST_WAITING_BYTES: usize = 1024 * 1024;

/// A piece further ahead than this is no reordering: the connection was started anew, or the segment is forged.
const MOST_AHEAD: i64 = 1 << 30;

#[derive(Debug, Default)]
pub struct Half {
    /// The sequence number of the next byte to give; `None` until the first segment.
    next: Option<u32>,
    /// `next` is only what the other side acknowledged first: no segment of this half has come.
    unseen: bool,
    /// Pieces that came too early, by distance from the byte number `given`.
    waiting: BTreeMap<u64, (Micros, Vec<u8>)>,
    waiting_bytes: usize,
    /// Bytes given or skipped so far.
    given: u64,
    /// Where the stream ends, once a FIN was seen.
    fin: Option<(u64, Micros)>,
    /// Bytes the capture knows to be missing, by their place.
    holes: BTreeMap<u64, u64>,
    acked: Option<u64>,
    pub retransmitted: u64,
}

/// What a half gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Given<'a> {
    Bytes(Micros, &'a [u8]),
    Gap(Micros, u64),
    Fin(Micros),
}

impl Half {
    pub fn started(&self) -> bool {
        self.next.is_some() && !self.unseen
    }

    /// A SYN: the next byte has the following number.
    pub fn syn(&mut self, seq: u32) {
        if self.next.is_none() || self.unseen {
            (self.next, self.acked, self.unseen) = (Some(seq.wrapping_add(1)), None, false);
        }
    }

    /// Whether a SYN of this number is the one that began this half (again).
    pub fn begun_by(&self, seq: u32) -> bool {
        self.next.is_some_and(|next| next.wrapping_sub(self.given as u32) == seq.wrapping_add(1))
    }

    pub fn segment(
        &mut self,
        at: Micros,
        seq: u32,
        payload: &[u8],
        cut: u64,
        fin: bool,
        give: &mut dyn FnMut(Given<'_>),
    ) {
        if std::mem::take(&mut self.unseen) {
            // What lies between was sent before the capture began.
            (self.next, self.acked) = (Some(seq), None);
        }
        let next = *self.next.get_or_insert(seq);
        let distance = i64::from(seq.wrapping_sub(next) as i32);
        if distance > MOST_AHEAD {
            return;
        }
        let start = self.given as i64 + distance;
        let end = start + payload.len() as i64 + cut as i64;
        if end <= self.given as i64 && (!payload.is_empty() || cut > 0) {
            self.retransmitted += payload.len() as u64;
        }
        if fin && self.fin.is_none() && end >= self.given as i64 {
            self.fin = Some((end as u64, at));
        }
        let skip = (self.given as i64 - start).max(0);
        if (skip as usize) < payload.len() {
            let piece = &payload[skip as usize..];
            let place = (start + skip) as u64;
            if place == self.given && self.waiting.is_empty() {
                self.hand_out(at, piece, give);
            } else {
                self.keep(place, at, piece);
            }
        }
        if cut > 0 && end > self.given as i64 {
            let place = (start + payload.len() as i64).max(self.given as i64) as u64;
            self.holes.insert(place, end as u64 - place);
        }
        self.drain(at, give);
    }

    /// The other side has this and everything before it.
    pub fn acknowledged(&mut self, ack: u32, at: Micros, give: &mut dyn FnMut(Given<'_>)) {
        self.unseen |= self.next.is_none();
        let next = *self.next.get_or_insert(ack);
        let distance = i64::from(ack.wrapping_sub(next) as i32);
        if distance > 0 && distance < MOST_AHEAD {
            let place = self.given + distance as u64;
            self.acked = self.acked.max(Some(place));
        }
        self.drain(at, give);
    }

    /// No more will come: what waits is given, with the gaps before it.
    pub fn finish(&mut self, at: Micros, give: &mut dyn FnMut(Given<'_>)) {
        while let Some(place) = self.first_waiting() {
            self.skip_to(place, at, give);
            self.drain(at, give);
        }
        self.drain(at, give);
        if let Some((end, fin_at)) = self.fin.take() {
            if end > self.given {
                self.skip_to(end, at, give);
            }
            give(Given::Fin(fin_at.max(at)));
        }
    }

    /// How many bytes are missing at the end of what was acknowledged. A FIN counts as one when it is acknowledged;
    /// where it was not seen itself, a single byte is taken for it.
    fn lacks(&self, acked: u64) -> u64 {
        match self.fin {
            Some((end, _)) => acked.min(end).saturating_sub(self.given),
            None => Some(acked.saturating_sub(self.given)).filter(|missing| *missing > 1).unwrap_or(0),
        }
    }

    fn first_waiting(&self) -> Option<u64> {
        self.waiting.keys().next().copied()
    }

    fn keep(&mut self, place: u64, at: Micros, piece: &[u8]) {
        // The bytes that came first count: a later copy only fills what is still free.
        let (mut place, mut piece) = (place, piece);
        while !piece.is_empty() {
            let before = self.waiting.range(..=place).next_back().map(|(start, (_, held))| start + held.len() as u64);
            if let Some(end) = before.filter(|end| *end > place) {
                let covered = ((end - place) as usize).min(piece.len());
                self.retransmitted += covered as u64;
                piece = &piece[covered..];
                place += covered as u64;
                continue;
            }
            let room = self.waiting.range(place..).next().map_or(u64::MAX, |(start, _)| start - place);
            let len = piece.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            self.waiting.insert(place, (at, piece[..len].to_vec()));
            self.waiting_bytes += len;
            piece = &piece[len..];
            place += len as u64;
        }
    }

    fn hand_out(&mut self, at: Micros, piece: &[u8], give: &mut dyn FnMut(Given<'_>)) {
        give(Given::Bytes(at, piece));
        self.advance(piece.len() as u64);
    }

    fn advance(&mut self, len: u64) {
        self.given += len;
        self.next = self.next.map(|next| next.wrapping_add(len as u32));
    }

    fn skip_to(&mut self, place: u64, at: Micros, give: &mut dyn FnMut(Given<'_>)) {
        let missing = place - self.given;
        give(Given::Gap(at, missing));
        self.advance(missing);
    }

    fn drain(&mut self, now: Micros, give: &mut dyn FnMut(Given<'_>)) {
        loop {
            if let Some(place) = self.first_waiting()
                && place <= self.given
            {
                let Some((place, (at, piece))) = self.waiting.pop_first() else { break };
                self.waiting_bytes -= piece.len();
                let skip = ((self.given - place) as usize).min(piece.len());
                if skip < piece.len() {
                    // It could be given only now, but it came earlier than what filled the gap.
                    self.hand_out(at.max(now), &piece[skip..], give);
                }
                continue;
            }
            if let Some((&place, &len)) = self.holes.first_key_value()
                && place <= self.given
            {
                self.holes.pop_first();
                let end = place + len;
                // A retransmission may have brought what the capture cut the first time.
                let end = self.first_waiting().map_or(end, |waiting| end.min(waiting));
                if end > self.given {
                    self.skip_to(end, now, give);
                }
                continue;
            }
            let acked = self.acked.filter(|acked| *acked > self.given);
            match (self.first_waiting(), acked) {
                (Some(place), Some(acked)) => self.skip_to(place.min(acked), now, give),
                (Some(place), None) if self.waiting_bytes > MOST_WAITING_BYTES => self.skip_to(place, now, give),
                (None, Some(acked)) if self.lacks(acked) > 0 => {
                    self.skip_to(self.given + self.lacks(acked), now, give);
                }
                _ => break,
            }
        }
        if let Some((end, at)) = self.fin
            && end <= self.given
        {
            self.fin = None;
            give(Given::Fin(at.max(now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq, Clone)]
    enum Told {
        Bytes(Vec<u8>),
        Gap(u64),
        Fin,
    }

    struct Bench {
        half: Half,
        told: Vec<Told>,
    }

    impl Bench {
        fn from(isn: u32) -> Bench {
            let mut half = Half::default();
            half.syn(isn);
            Bench { half, told: Vec::new() }
        }

        fn put(&mut self, seq: u32, payload: &[u8], cut: u64, fin: bool) {
            let told = &mut self.told;
            self.half.segment(1, seq, payload, cut, fin, &mut |given| told.push(of(given)));
        }

        fn text(&self) -> Vec<u8> {
            let only = |told: &Told| if let Told::Bytes(bytes) = told { bytes.clone() } else { Vec::new() };
            self.told.iter().flat_map(only).collect()
        }
    }

    fn of(given: Given<'_>) -> Told {
        match given {
            Given::Bytes(_, bytes) => Told::Bytes(bytes.to_vec()),
            Given::Gap(_, bytes) => Told::Gap(bytes),
            Given::Fin(_) => Told::Fin,
        }
    }

    #[test]
    fn reordering_overlap_and_wrap_around() {
        let isn = u32::MAX - 3;
        let mut bench = Bench::from(isn);
        let seq = |place: u32| isn.wrapping_add(1).wrapping_add(place);
        bench.put(seq(4), b"efgh", 0, false);
        bench.put(seq(10), b"kl", 0, true);
        bench.put(seq(2), b"cdEF", 0, false);
        bench.put(seq(0), b"ab", 0, false);
        assert_eq!(bench.text(), b"abcdefgh");
        bench.put(seq(0), b"XXXX", 0, false);
        bench.put(seq(6), b"XXijKL", 0, false);
        assert_eq!(bench.text(), b"abcdefghijkl");
        assert_eq!(bench.told.last(), Some(&Told::Fin));
        assert!(bench.half.retransmitted > 0);
    }

    #[test]
    fn a_lost_piece_is_told_once_the_other_side_has_it() {
        let mut bench = Bench::from(0);
        bench.put(1, b"ab", 0, false);
        bench.put(5, b"ef", 0, false);
        let mut told = Vec::new();
        bench.half.acknowledged(3, 2, &mut |given| told.push(of(given)));
        assert_eq!(told, []);
        bench.half.acknowledged(7, 2, &mut |given| told.push(of(given)));
        assert_eq!(told, [Told::Gap(2), Told::Bytes(b"ef".to_vec())]);
        let mut bench = Bench::from(0);
        bench.put(100, b"x", 0, true);
        let told = &mut bench.told;
        bench.half.finish(9, &mut |given| told.push(of(given)));
        assert_eq!(bench.told, [Told::Gap(99), Told::Bytes(b"x".to_vec()), Told::Fin]);
    }

    #[test]
    fn what_only_the_other_side_has_is_a_gap() {
        let mut bench = Bench::from(0);
        bench.put(1, b"ab", 0, false);
        let mut told = Vec::new();
        bench.half.acknowledged(9, 2, &mut |given| told.push(of(given)));
        assert_eq!(told, [Told::Gap(6)]);
        // The acknowledgement of a FIN is no byte, seen or not.
        bench.half.acknowledged(10, 4, &mut |given| told.push(of(given)));
        assert_eq!(told.len(), 1);
        // A FIN behind the gap is believed once it was acknowledged.
        let mut bench = Bench::from(0);
        bench.put(5, b"ef", 0, true);
        bench.half.acknowledged(8, 2, &mut |given| told.push(of(given)));
        assert_eq!(told[1..], [Told::Gap(4), Told::Bytes(b"ef".to_vec()), Told::Fin]);
    }

    #[test]
    fn a_half_that_only_the_other_side_knows_of() {
        let mut half = Half::default();
        let mut told = Vec::new();
        half.acknowledged(1_000, 1, &mut |given| told.push(of(given)));
        half.acknowledged(1_300, 2, &mut |given| told.push(of(given)));
        half.finish(3, &mut |given| told.push(of(given)));
        assert_eq!(told, [Told::Gap(300)]);
        // Its first segment says better where it stands.
        let mut half = Half::default();
        half.acknowledged(1_000, 1, &mut |given| told.push(of(given)));
        half.segment(2, 990, b"late", 0, false, &mut |given| told.push(of(given)));
        assert_eq!(told[1..], [Told::Bytes(b"late".to_vec())]);
    }

    #[test]
    fn what_the_capture_cut_is_a_gap_unless_it_comes_again() {
        let mut bench = Bench::from(0);
        bench.put(1, b"ab", 3, false);
        bench.put(6, b"fg", 0, false);
        assert_eq!(bench.told, [Told::Bytes(b"ab".to_vec()), Told::Gap(3), Told::Bytes(b"fg".to_vec())]);
    }

    #[test]
    fn waiting_is_bounded() {
        let mut bench = Bench::from(0);
        for number in 0..3_000u32 {
            bench.put(10 + number * 1_000, &[b'x'; 1_000], 0, false);
        }
        assert_eq!(bench.told[0], Told::Gap(9));
        assert!(bench.half.waiting_bytes <= MOST_WAITING_BYTES);
        assert_eq!(bench.text().len(), 3_000_000);
    }

    #[test]
    fn a_start_in_mid_stream_and_a_new_connection() {
        let mut half = Half::default();
        let mut told = Vec::new();
        half.segment(1, 5_000, b"abc", 0, false, &mut |given| told.push(of(given)));
        assert_eq!(told, [Told::Bytes(b"abc".to_vec())]);
        let mut half = Half::default();
        half.syn(77);
        assert!(half.begun_by(77) && !half.begun_by(78));
        half.segment(1, 78, b"abc", 0, false, &mut |_| {});
        assert!(half.begun_by(77));
    }
}
