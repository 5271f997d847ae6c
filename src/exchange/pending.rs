//! The requests of one side that are open, and the ways to find one: by id, by what it asks, by its token.
//!
//! The ways hold places only: what is looked for stands in the request itself, once.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::rpc::Id;

use super::fact::Mark;
use super::hash::{Map, Seeded};
use super::open::{Open, Place, Rare};

/// Among requests that are open under one id, at most so many are looked through for the right one.
const LONGEST_LOOK: usize = 64;
/// What the ways to a request take beside itself: two places, each in a table that may be half empty.
const WAYS_BYTES: usize = 24;

pub type Slot = u32;

#[derive(Debug)]
pub struct ActiveToken {
    pub slot: Slot,
    pub seq: u64,
    pub last: f64,
}

#[derive(Debug, Default)]
pub struct Pending {
    slots: Vec<Option<Open>>,
    free: Vec<Slot>,
    /// The newest under each id.
    by_id: HashTable<Slot>,
    /// The newest of each method and params.
    by_question: HashTable<Slot>,
    pub by_token: Map<Box<str>, ActiveToken>,
    /// Integers beyond 2^53, which some peers cannot hold.
    huge: BTreeSet<Slot>,
    /// The latest request of this side, if it is still open.
    pub latest: Option<(Slot, u64)>,
    open: usize,
    bytes: usize,
}

fn is_huge(id: &Id) -> bool {
    match id {
        Id::Int(int) => int.unsigned_abs() > 1 << 53,
        Id::Number(_) => true,
        _ => false,
    }
}

fn id_hash(id: &Id) -> u64 {
    Seeded::default().hash_one(id)
}

fn question_hash(open: &Open) -> u64 {
    Seeded::default().hash_one((open.method, open.print))
}

impl Pending {
    pub fn len(&self) -> usize {
        self.open
    }

    pub fn insert(&mut self, mut open: Open) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        if is_huge(&open.id) {
            self.huge.insert(slot);
        }
        self.bytes += open.bytes() + WAYS_BYTES;
        let (seq, mark) = (open.seq, Mark { seq: open.seq, at: open.at });
        let slots = &mut self.slots;
        let hash = id_hash(&open.id);
        match self.by_id.find_mut(hash, |known| of(slots, *known).is_some_and(|known| known.id == open.id)) {
            Some(known) => {
                open.older = Place::of(std::mem::replace(known, slot));
                if let Some(older) = open.older.and_then(|older| slots[older.slot() as usize].as_mut()) {
                    older.newer = Place::of(slot);
                }
            }
            None => {
                self.by_id.insert_unique(hash, slot, |known| of(slots, *known).map_or(0, |open| id_hash(&open.id)));
            }
        }
        let hash = question_hash(&open);
        let same = |known: &Open| (known.method, known.print) == (open.method, open.print);
        match self.by_question.find_mut(hash, |known| of(slots, *known).is_some_and(same)) {
            Some(known) => {
                let earlier = std::mem::replace(known, slot);
                if let Some(earlier) = slots[earlier as usize].as_mut() {
                    earlier.repeated_by(mark);
                }
            }
            None => {
                self.by_question.insert_unique(hash, slot, |known| of(slots, *known).map_or(0, question_hash));
            }
        }
        if let Some((latest, stamp)) = self.latest
            && let Some(latest) = slots[latest as usize].as_mut()
            && latest.seq == stamp
        {
            latest.followed_by(mark);
        }
        self.latest = Some((slot, seq));
        self.slots[slot as usize] = Some(open);
        self.open += 1;
        slot
    }

    pub fn get(&self, slot: Slot) -> Option<&Open> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Open> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// What few requests have, of one that gets some of it.
    pub fn rare_mut(&mut self, slot: Slot) -> Option<&mut Rare> {
        let open = self.slots.get_mut(slot as usize)?.as_mut()?;
        let before = open.bytes();
        open.rare_mut();
        self.bytes += open.bytes() - before;
        Some(open.rare_mut())
    }

    /// What the open requests take in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The one that is open under this id: on the same carrier if there is one, else the oldest.
    pub fn find(&self, id: &Id, carrier: Option<u64>) -> Option<Slot> {
        let mut slot = self.newest(id)?;
        for _ in 0..LONGEST_LOOK {
            let open = self.get(slot)?;
            match open.older {
                _ if carrier.is_some() && open.carrier == carrier => return Some(slot),
                Some(older) => slot = older.slot(),
                None => return self.first_or(id, slot, carrier),
            }
        }
        Some(slot)
    }

    /// Without a carrier's help the oldest that is not cancelled, then the oldest.
    fn first_or(&self, id: &Id, oldest: Slot, carrier: Option<u64>) -> Option<Slot> {
        let mut best = oldest;
        let mut slot = self.newest(id)?;
        for _ in 0..LONGEST_LOOK {
            let open = self.get(slot)?;
            if open.rare().cancel.is_none() && (carrier.is_none() || open.rare().left.is_none()) {
                best = slot;
            }
            match open.older {
                Some(older) => slot = older.slot(),
                None => break,
            }
        }
        Some(best)
    }

    /// Is more than one open under this id?
    pub fn several(&self, id: &Id) -> bool {
        self.newest(id).and_then(|slot| self.get(slot)).is_some_and(|open| open.older.is_some())
    }

    /// The newest under this id: what a cancel means.
    pub fn newest(&self, id: &Id) -> Option<Slot> {
        self.by_id.find(id_hash(id), |slot| self.get(*slot).is_some_and(|open| open.id == *id)).copied()
    }

    /// One that a peer which mixes up kinds of ids, or rounds numbers, would take for the same.
    pub fn find_loosely(&self, id: &Id, carrier: Option<u64>) -> Option<(Slot, bool)> {
        let other_kind = match id {
            Id::Int(int) => Some(Id::Text(int.to_string().into())),
            Id::Text(text) => text.parse().ok().map(Id::Int),
            _ => None,
        };
        if let Some(slot) = other_kind.and_then(|id| self.find(&id, carrier)) {
            return Some((slot, false));
        }
        let wanted = id.loosely()?;
        let near = |slot: &&Slot| self.get(**slot).is_some_and(|open| open.id.loosely() == Some(wanted));
        self.huge.iter().take(LONGEST_LOOK).find(near).map(|slot| (*slot, true))
    }

    pub fn remove(&mut self, slot: Slot) -> Option<Open> {
        let open = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.open -= 1;
        self.bytes = self.bytes.saturating_sub(open.bytes() + WAYS_BYTES);
        // Whoever sends everything under one id must not make us walk the whole row for each.
        match (open.newer, open.older) {
            (Some(newer), older) => {
                if let Some(newer) = self.get_mut(newer.slot()) {
                    newer.older = older;
                }
            }
            (None, older) => {
                if let Ok(known) = self.by_id.find_entry(id_hash(&open.id), |known| *known == slot) {
                    match older {
                        Some(older) => *known.into_mut() = older.slot(),
                        None => drop(known.remove()),
                    }
                }
            }
        }
        if let Some(older) = open.older.and_then(|older| self.get_mut(older.slot())) {
            older.newer = open.newer;
        }
        if let Ok(known) = self.by_question.find_entry(question_hash(&open), |known| *known == slot) {
            known.remove();
        }
        if is_huge(&open.id) {
            self.huge.remove(&slot);
        }
        for token in open.rare().tokens.iter().flatten() {
            if self.by_token.get(token).is_some_and(|active| active.seq == open.seq) {
                self.by_token.remove(token);
            }
        }
        Some(open)
    }

    /// Everything that is open, with the number of its event.
    pub fn all(&self) -> impl Iterator<Item = (u64, Slot)> {
        self.slots.iter().enumerate().filter_map(|(slot, open)| open.as_ref().map(|open| (open.seq, slot as Slot)))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Open> {
        self.slots.iter().flatten()
    }
}

fn of(slots: &[Option<Open>], slot: Slot) -> Option<&Open> {
    slots.get(slot as usize)?.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Side;

    fn open(id: i64, seq: u64, carrier: Option<u64>) -> Open {
        let mut open = Open::new(Id::Int(id), Side::Client, seq, seq as i64 * 1000);
        open.carrier = carrier;
        open
    }

    #[test]
    fn an_id_in_use_twice_is_answered_oldest_first_and_by_carrier() {
        let mut pending = Pending::default();
        let first = pending.insert(open(1, 1, Some(10)));
        let second = pending.insert(open(1, 2, Some(11)));
        let third = pending.insert(open(1, 3, Some(12)));
        assert_eq!(pending.find(&Id::Int(1), Some(11)), Some(second));
        assert_eq!(pending.find(&Id::Int(1), None), Some(first));
        assert_eq!(pending.newest(&Id::Int(1)), Some(third));
        pending.remove(second);
        assert_eq!(pending.find(&Id::Int(1), Some(11)), Some(first));
        pending.remove(first);
        assert_eq!(pending.find(&Id::Int(1), None), Some(third));
        pending.remove(third);
        assert_eq!(pending.find(&Id::Int(1), None), None);
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn a_row_of_one_id_stays_whole_wherever_one_is_taken_out() {
        let mut pending = Pending::default();
        let slots: Vec<Slot> = (0..5).map(|seq| pending.insert(open(1, seq, Some(seq)))).collect();
        for (taken, left) in [(2, vec![0, 1, 3, 4]), (0, vec![1, 3, 4]), (4, vec![1, 3]), (1, vec![3])] {
            pending.remove(slots[taken]);
            for seq in &left {
                assert_eq!(pending.find(&Id::Int(1), Some(*seq)), Some(slots[*seq as usize]), "{taken} taken");
            }
            assert_eq!(pending.find(&Id::Int(1), None), Some(slots[left[0] as usize]), "{taken} taken");
        }
    }

    #[test]
    fn many_under_one_id_are_closed_in_the_time_of_many_under_their_own() {
        let mut pending = Pending::default();
        let slots: Vec<Slot> = (0..200_000).map(|seq| pending.insert(open(1, seq, None))).collect();
        // Walking the row for each would take minutes.
        for slot in slots {
            assert!(pending.remove(slot).is_some());
        }
        assert_eq!((pending.len(), pending.newest(&Id::Int(1))), (0, None));
    }

    #[test]
    fn loose_matches_tell_kind_from_precision() {
        let mut pending = Pending::default();
        let small = pending.insert(open(7, 1, None));
        let huge = pending.insert(open(9_007_199_254_740_993, 2, None));
        assert_eq!(pending.find_loosely(&Id::Text("7".into()), None), Some((small, false)));
        assert_eq!(pending.find_loosely(&Id::Int(9_007_199_254_740_992), None), Some((huge, true)));
        assert_eq!(pending.find_loosely(&Id::Text("eight".into()), None), None);
    }

    #[test]
    fn a_repeated_question_is_noticed_while_the_first_is_open() {
        let mut pending = Pending::default();
        let first = pending.insert(open(1, 1, None));
        let second = pending.insert(open(2, 2, None));
        assert_eq!(pending.get(first).and_then(|open| open.again()).map(|mark| mark.seq), Some(2));
        assert_eq!(pending.get(first).and_then(|open| open.next()).map(|mark| mark.seq), Some(2));
        pending.remove(second);
        pending.insert(open(3, 3, None));
        assert_eq!(pending.get(first).and_then(|open| open.again()).map(|mark| mark.seq), Some(2));
    }
}
