//! More open requests than can be followed one by one: the oldest are let go, and counted.
//!
//! Comes in: open requests, oldest first. What is alike (asker, method, tool, version, cancelled or not) and was asked
//! at about the same time becomes one example and a number, so that every one of them is judged and counted when the
//! session is, by its example. Ids are forgotten: an answer under one that nobody else has is booked to the example
//! nearest to it. That requests were let go is told in the report.

use crate::event::{Micros, Party, Side};
use crate::protocol::{Dialect, Role};
use crate::rpc::Id;

use super::CancelOf;
use super::examples::{Example, Examples, Kind};
use super::fold::Fold;
use super::open::Open;
use super::pending::Slot;

/// What the open requests of one session may take in memory: some two hundred thousand plain ones.
pub const MOST_OPEN_BYTES: usize = 32 << 20;
/// How many examples are looked through for the one nearest to an id.
const LONGEST_LOOK: usize = 16;

#[derive(Debug, Default)]
pub struct LetGo {
    pub examples: Examples<Open>,
    /// Before these, no example of that side stands for anything any more.
    first: [usize; 2],
    /// How many were let go, and how many of these were answered or cancelled later.
    pub requests: u64,
    pub recalled: u64,
}

/// What the verdict on a request hangs on, beside its time.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Alike {
    asker: Side,
    row: u32,
    role: Role,
    era: Option<Dialect>,
    cancel: Option<CancelOf>,
    left: Option<(Party, bool)>,
    on_http: bool,
    again: bool,
    answered: bool,
    worked_on: bool,
}

impl Kind for Open {
    type Alike = Alike;

    fn alike(&self) -> Alike {
        let rare = self.rare();
        Alike {
            asker: self.asker,
            row: self.row,
            role: self.role,
            era: self.era,
            cancel: rare.cancel.map(|note| note.of),
            left: rare.left.map(|left| (left.by, left.torn)),
            on_http: self.carrier.is_some(),
            again: self.again().is_some(),
            answered: rare.answers > 0,
            worked_on: !rare.after_cancel.is_empty(),
        }
    }

    fn at(&self) -> Micros {
        self.at
    }

    fn at_another_time(&self, later: Micros) -> Open {
        self.later_by(later)
    }
}

impl LetGo {
    fn add(&mut self, open: Open) {
        if self.examples.add(open) {
            self.first = [0; 2];
        }
    }

    /// The example nearest to an id of this side: ids mostly count up.
    fn nearest(&mut self, asker: Side, id: &Id) -> Option<usize> {
        let all = &self.examples.all;
        let fits = |example: &Example<Open>| example.stands_for > 0 && example.one.asker == asker;
        if let Id::Int(_) = id {
            let after = all.partition_point(|example| example.one.id <= *id);
            let near = after.saturating_sub(LONGEST_LOOK)..after;
            if let Some(place) = near.rev().find(|place| fits(&all[*place])) {
                return Some(place);
            }
        }
        let first = &mut self.first[asker as usize];
        *first += all.iter().skip(*first).take_while(|example| !fits(example)).count();
        (*first < all.len()).then_some(*first)
    }
}

impl Fold {
    /// What the open requests take in memory, about.
    pub fn open_bytes(&self) -> usize {
        self.pending.iter().map(|pending| pending.bytes()).sum()
    }

    /// How many requests were let go, and how many of these were answered or cancelled later.
    pub fn let_go(&self) -> (u64, u64) {
        (self.let_go.requests, self.let_go.recalled)
    }

    /// Lets the oldest open requests go until the rest takes half of this.
    pub fn keep_within(&mut self, most_bytes: usize) {
        if self.open_bytes() <= most_bytes {
            return;
        }
        let mut open: Vec<(u64, Slot, Side)> = Vec::with_capacity(self.open_requests());
        for side in [Side::Client, Side::Server] {
            open.extend(self.pending[side as usize].all().map(|(seq, slot)| (seq, slot, side)));
        }
        open.sort_unstable_by_key(|(seq, ..)| *seq);
        for (_, slot, side) in open {
            if self.open_bytes() <= most_bytes / 2 {
                break;
            }
            if let Some(open) = self.pending[side as usize].remove(slot) {
                self.let_go.requests += 1;
                self.let_go.add(open);
            }
        }
    }

    /// One of those that were let go, for an id that may be of one of them.
    pub(super) fn recall(&mut self, asker: Side, id: &Id) -> Option<Open> {
        if self.let_go.examples.all.is_empty() || self.recent[asker as usize].find(id).is_some() {
            return None;
        }
        if self.used[asker as usize].surely_lacks(id) {
            return None;
        }
        let place = self.let_go.nearest(asker, id)?;
        let example = &mut self.let_go.examples.all[place];
        example.stands_for -= 1;
        self.let_go.recalled += 1;
        let mut open = example.one.clone();
        open.id = id.clone();
        Some(open)
    }

    /// One of those that were let go is cancelled.
    pub(super) fn cancel_recalled(&mut self, mut open: Open, of: CancelOf) {
        if self.ends_the_wait(self.dialect_of(&open)) {
            self.series.closed(Fold::track(open.asker), open.at, self.now.at);
        }
        open.rare_mut().cancel.get_or_insert(super::open::CancelNote { seq: self.now.seq, at: self.now.at, of });
        self.let_go.add(open);
    }
}
