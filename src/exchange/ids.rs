//! Which ids a side has used, and what became of the last of them.
//!
//! A session may use ids for ever, and what has passed may not fill memory: integers are kept as ranges (clients
//! count up, so there are few), other ids as fingerprints of the last of them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::BuildHasher;

use crate::event::Micros;
use crate::rpc::{Id, Name};

use super::Outcome;
use super::hash::Seeded;

/// Enough for any client that counts; one that picks integers at random is watched no further.
const MOST_RANGES: usize = 1 << 16;
/// A session that names its requests by UUID: the last this many are remembered.
const MOST_PRINTS: usize = 1 << 16;
/// How many closed requests are remembered with their details.
const MOST_RECENT: usize = 1 << 12;

#[derive(Debug, Default)]
pub struct UsedIds {
    /// The range that grows, kept outside the tree because nearly every id lands in it.
    last: Option<(i64, i64)>,
    ranges: BTreeMap<i64, i64>,
    prints: HashSet<u64, Seeded>,
    order: VecDeque<u64>,
    pub least: Option<i64>,
}

impl UsedIds {
    pub fn contains(&self, id: &Id) -> bool {
        match id {
            Id::Int(int) => {
                self.last.is_some_and(|(start, end)| (start..=end).contains(int))
                    || self.ranges.range(..=*int).next_back().is_some_and(|(_, end)| end >= int)
            }
            other => self.prints.contains(&Seeded::default().hash_one(other)),
        }
    }

    /// It was never used: not merely forgotten.
    pub fn surely_lacks(&self, id: &Id) -> bool {
        let forgets = match id {
            Id::Int(_) => self.ranges.len() >= MOST_RANGES,
            _ => self.order.len() >= MOST_PRINTS,
        };
        !forgets && !self.contains(id)
    }

    /// Says whether it is new.
    pub fn insert(&mut self, id: &Id) -> bool {
        let Id::Int(int) = id else {
            let print = Seeded::default().hash_one(id);
            let new = self.prints.insert(print);
            if new {
                self.order.push_back(print);
                if self.order.len() > MOST_PRINTS
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.prints.remove(&oldest);
                }
            }
            return new;
        };
        let int = *int;
        self.least = Some(self.least.map_or(int, |least| least.min(int)));
        if let Some((start, end)) = self.last {
            if (start..=end).contains(&int) {
                return false;
            }
            if end.checked_add(1) == Some(int) && !self.ranges.contains_key(&int) {
                self.last = Some((start, int));
                return true;
            }
        }
        if self.contains(id) {
            return false;
        }
        if self.ranges.len() >= MOST_RANGES {
            return true;
        }
        if let Some((start, end)) = self.last.take() {
            self.ranges.insert(start, end);
        }
        // Continue a range that ends just before, or begin one.
        let before = self.ranges.range(..int).next_back().map(|(start, end)| (*start, *end));
        let start = match before {
            Some((start, end)) if end.checked_add(1) == Some(int) => {
                self.ranges.remove(&start);
                start
            }
            _ => int,
        };
        let end = match int.checked_add(1).and_then(|next| self.ranges.remove(&next)) {
            Some(end) => end,
            None => int,
        };
        self.last = Some((start, end));
        true
    }
}

/// A request that was closed.
#[derive(Debug, Clone)]
pub struct Closed {
    pub id: Id,
    pub generation: u32,
    pub seq: u64,
    pub closed_seq: u64,
    pub closed_at: Micros,
    pub method: Name,
    pub tool: Option<Name>,
    pub outcome: Outcome,
    pub many_answers: bool,
    pub initialize: bool,
    /// HTTP itself refused it, so that no server took it.
    pub refused: bool,
}

/// The last closed requests of a side.
#[derive(Debug, Default)]
pub struct Recent {
    prints: Vec<u64>,
    closed: Vec<Closed>,
    next: usize,
}

impl Recent {
    pub fn push(&mut self, closed: Closed) {
        let print = Seeded::default().hash_one(&closed.id);
        if self.closed.len() < MOST_RECENT {
            self.prints.push(print);
            self.closed.push(closed);
        } else {
            self.prints[self.next] = print;
            self.closed[self.next] = closed;
        }
        self.next = (self.next + 1) % MOST_RECENT;
    }

    pub fn latest_was_refused(&mut self) {
        let latest = self.next.checked_sub(1).unwrap_or(MOST_RECENT - 1);
        if let Some(closed) = self.closed.get_mut(latest) {
            closed.refused = true;
        }
    }

    /// The latest that was closed under this id.
    pub fn find(&self, id: &Id) -> Option<&Closed> {
        let print = Seeded::default().hash_one(id);
        self.prints
            .iter()
            .enumerate()
            .filter(|(at, known)| **known == print && self.closed[*at].id == *id)
            .map(|(at, _)| &self.closed[at])
            .max_by_key(|closed| closed.closed_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_ids_agree_with_a_plain_set_whatever_the_order() {
        let mut used = UsedIds::default();
        let mut plain = HashSet::new();
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let int = ((state >> 33) % 900) as i64 - 300;
            assert_eq!(used.insert(&Id::Int(int)), plain.insert(int), "{int}");
            assert!(used.contains(&Id::Int(int)));
            let other = ((state >> 45) % 900) as i64 - 300;
            assert_eq!(used.contains(&Id::Int(other)), plain.contains(&other), "{other}");
        }
        for extreme in [i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert!(used.insert(&Id::Int(extreme)));
            assert!(!used.insert(&Id::Int(extreme)));
        }
    }

    #[test]
    fn counting_clients_cost_one_range_and_texts_are_bounded() {
        let mut used = UsedIds::default();
        for int in 0..1_000_000 {
            used.insert(&Id::Int(int));
        }
        assert!(used.ranges.len() <= 1);
        for number in 0..100_000 {
            used.insert(&Id::Text(format!("id-{number}").into()));
        }
        assert_eq!(used.prints.len(), MOST_PRINTS);
        assert!(used.contains(&Id::Text("id-99999".into())));
        assert!(!used.contains(&Id::Text("99999".into())));
    }
}
