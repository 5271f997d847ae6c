//! Packets as they stand in a file → in the order of their times.
//!
//! Captures of several queues or interfaces write packets a little out of order, and an answer that stands before its
//! question is taken for something else. What waits is bounded in number and in time; a clock that was set back is no
//! reordering, and nothing is moved across it.

use std::collections::BTreeMap;

use super::segment::Segment;
use crate::event::Micros;

/// More than the queues of a network card hold back at a time.
const MOST_WAITING: usize = 64;

const LONGEST_WAIT_MICROS: Micros = 1_000_000;

#[derive(Default)]
pub struct InOrder {
    /// By time, then by place in the file.
    waiting: BTreeMap<(Micros, u64), Kept>,
    newest: Option<Micros>,
    came: u64,
    /// All that waits is due.
    flush: bool,
}

/// A segment that waits.
pub struct Kept {
    segment: Segment<'static>,
    payload: Vec<u8>,
}

impl Kept {
    pub fn segment(&self) -> Segment<'_> {
        Segment { payload: &self.payload, ..self.segment }
    }
}

impl InOrder {
    /// Whether what waits must be taken before this segment may be put.
    pub fn must_flush(&mut self, at: Micros) -> bool {
        let back = self.newest.is_some_and(|newest| at < newest.saturating_sub(LONGEST_WAIT_MICROS));
        if back {
            self.newest = None;
            self.flush = true;
        }
        back
    }

    pub fn put(&mut self, segment: &Segment<'_>) {
        self.flush = false;
        self.came += 1;
        self.newest = Some(self.newest.map_or(segment.at, |newest| newest.max(segment.at)));
        let kept = Kept { segment: Segment { payload: &[], ..*segment }, payload: segment.payload.to_vec() };
        self.waiting.insert((segment.at, self.came), kept);
    }

    /// No more will be put.
    pub fn finish(&mut self) {
        self.flush = true;
    }

    /// The next segment that nothing can come before any more.
    pub fn take(&mut self) -> Option<Kept> {
        let (&(at, _), _) = self.waiting.first_key_value()?;
        let old = self.newest.is_some_and(|newest| newest.saturating_sub(at) > LONGEST_WAIT_MICROS);
        if self.flush || old || self.waiting.len() > MOST_WAITING {
            return self.waiting.pop_first().map(|(_, kept)| kept);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(times: &[Micros]) -> Vec<Micros> {
        let address = ([127, 0, 0, 1], 1).into();
        let mut order = InOrder::default();
        let mut out = Vec::new();
        for at in times {
            let (syn, fin, rst) = (false, false, false);
            let segment = Segment {
                at: *at,
                from: address,
                to: address,
                seq: 0,
                ack: None,
                syn,
                fin,
                rst,
                payload: b"x",
                cut: 0,
            };
            if order.must_flush(*at) {
                out.extend(std::iter::from_fn(|| order.take()).map(|kept| kept.segment().at));
            }
            order.put(&segment);
            out.extend(std::iter::from_fn(|| order.take()).map(|kept| kept.segment().at));
        }
        order.finish();
        out.extend(std::iter::from_fn(|| order.take()).map(|kept| kept.segment().at));
        out
    }

    #[test]
    fn a_little_out_of_order_is_put_right() {
        assert_eq!(ordered(&[1, 4, 2, 3, 9, 5]), [1, 2, 3, 4, 5, 9]);
        let many: Vec<Micros> = (0..10_000).map(|number| (number ^ 5) * 100).collect();
        let mut sorted = many.clone();
        sorted.sort_unstable();
        assert_eq!(ordered(&many), sorted);
    }

    #[test]
    fn a_clock_set_back_moves_nothing() {
        let times = [10_000_000, 10_000_001, 2_000_000, 2_000_001];
        assert_eq!(ordered(&times), times);
    }
}
