//! One open request, in as few bytes as can be: a session may leave a million of them.
//!
//! What nearly every request has stands in it; what few have (a cancel, a token, a task) in a box of its own.

use crate::event::{Micros, Party, Side};
use crate::protocol::{Dialect, Role};
use crate::rpc::Id;

use super::ends::CancelOf;
use super::fact::Mark;
use super::pending::Slot;

/// A request that nobody has answered yet.
#[derive(Debug, Clone)]
pub struct Open {
    pub id: Id,
    pub seq: u64,
    pub at: Micros,
    pub print: u64,
    pub carrier: Option<u64>,
    rare: Option<Box<Rare>>,
    next: Later,
    again: Later,
    pub method: u32,
    pub row: u32,
    pub generation: u32,
    /// The next older and newer ones that are open under the same id.
    pub(super) older: Option<Place>,
    pub(super) newer: Option<Place>,
    pub role: Role,
    pub asker: Side,
    /// The version this one request names for itself.
    pub era: Option<Dialect>,
    pub asked_task: bool,
    pub acknowledged: bool,
}

/// What few requests have.
#[derive(Debug, Clone, Default)]
pub struct Rare {
    pub cancel: Option<CancelNote>,
    /// Streaming methods are answered many times.
    pub answers: u32,
    pub first_answer: Option<Mark>,
    /// Its HTTP exchange ended, and who ended it.
    pub left: Option<Left>,
    pub tokens: [Option<Box<str>>; 2],
    pub after_cancel: Vec<u64>,
    /// The task a request about one names.
    pub task: Option<Box<str>>,
}

static NOTHING: Rare = Rare {
    cancel: None,
    answers: 0,
    first_answer: None,
    left: None,
    tokens: [None, None],
    after_cancel: Vec::new(),
    task: None,
};

/// The end of the HTTP exchange of a request that was open.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    pub mark: Mark,
    pub by: Party,
    /// The server was gone: what ended was not ended by it.
    pub torn: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct CancelNote {
    pub seq: u64,
    pub at: Micros,
    pub of: CancelOf,
}

/// A slot that may be none, in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(std::num::NonZeroU32);

impl Place {
    pub(super) fn of(slot: Slot) -> Option<Place> {
        slot.checked_add(1).and_then(std::num::NonZeroU32::new).map(Place)
    }

    pub(super) fn slot(self) -> Slot {
        self.0.get() - 1
    }
}

/// A later event, by how much later it was: all zero for none.
#[derive(Debug, Clone, Copy, Default)]
struct Later {
    events: u32,
    micros: [u32; 2],
}

impl Later {
    fn between(seq: u64, at: Micros, later: Mark) -> Later {
        // Past four thousand million events the number of the later one is only near: it is told, never reckoned with.
        let events = u32::try_from(later.seq.saturating_sub(seq)).unwrap_or(u32::MAX).max(1);
        let micros = later.at.wrapping_sub(at) as u64;
        Later { events, micros: [micros as u32, (micros >> 32) as u32] }
    }

    fn after(self, seq: u64, at: Micros) -> Option<Mark> {
        let micros = u64::from(self.micros[0]) | u64::from(self.micros[1]) << 32;
        (self.events > 0).then(|| Mark { seq: seq + u64::from(self.events), at: at.wrapping_add(micros as Micros) })
    }
}

impl Open {
    pub fn new(id: Id, asker: Side, seq: u64, at: Micros) -> Open {
        Open {
            id,
            seq,
            at,
            print: 0,
            carrier: None,
            rare: None,
            next: Later::default(),
            again: Later::default(),
            method: 0,
            row: 0,
            generation: 1,
            older: None,
            newer: None,
            role: Role::Ordinary,
            asker,
            era: None,
            asked_task: false,
            acknowledged: false,
        }
    }

    pub fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING)
    }

    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The next request of the same side.
    pub fn next(&self) -> Option<Mark> {
        self.next.after(self.seq, self.at)
    }

    /// The next request of the same side that asks the same.
    pub fn again(&self) -> Option<Mark> {
        self.again.after(self.seq, self.at)
    }

    pub fn followed_by(&mut self, next: Mark) {
        if self.next.events == 0 {
            self.next = Later::between(self.seq, self.at, next);
        }
    }

    pub fn repeated_by(&mut self, again: Mark) {
        if self.again.events == 0 {
            self.again = Later::between(self.seq, self.at, again);
        }
    }

    /// One like it that was asked later by so much, and what became of it.
    pub fn later_by(&self, later: Micros) -> Open {
        let mut open = self.clone();
        open.at += later;
        if let Some(rare) = open.rare.as_deref_mut() {
            rare.cancel.iter_mut().for_each(|cancel| cancel.at += later);
            rare.first_answer.iter_mut().for_each(|answer| answer.at += later);
            rare.left.iter_mut().for_each(|left| left.mark.at += later);
        }
        open
    }

    /// What it takes in memory, about.
    pub fn bytes(&self) -> usize {
        // What an allocation takes beside what was asked for.
        const EACH: usize = 16;
        let text = |text: &str| text.len() + EACH;
        let id = match &self.id {
            Id::Int(_) | Id::Null => 0,
            Id::Number(raw) | Id::Text(raw) | Id::Invalid(raw) => text(raw),
        };
        let rare = self.rare.as_deref().map_or(0, |rare| {
            // A token is known by name in a table, too.
            let tokens: usize = rare.tokens.iter().flatten().map(|token| 2 * text(token) + 96).sum();
            size_of::<Rare>() + EACH + tokens + rare.task.as_deref().map_or(0, text)
        });
        size_of::<Open>() + id + rare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_request_is_small_and_what_is_later_is_told_exactly() {
        assert!(size_of::<Open>() <= 128, "{}", size_of::<Open>());
        let mut open = Open::new(Id::Int(1), Side::Client, 5, -7);
        assert_eq!((open.next(), open.again()), (None, None));
        // A year and a day later, and before: clocks step back.
        for mark in [Mark { seq: 6, at: 31_622_400_000_000 }, Mark { seq: 4_000_000_005, at: -9_000_000_000 }] {
            open.next = Later::default();
            open.followed_by(mark);
            assert_eq!(open.next(), Some(mark));
            open.followed_by(Mark { seq: 9, at: 9 });
            assert_eq!(open.next(), Some(mark));
        }
    }

    #[test]
    fn what_few_requests_have_is_counted_when_they_have_it() {
        let mut open = Open::new(Id::Int(1), Side::Client, 1, 1);
        let plain = open.bytes();
        open.rare_mut().tokens[0] = Some("0123456789".into());
        assert!(open.bytes() > plain + size_of::<Rare>() + 10);
        open.id = Id::Text("x".repeat(100).into());
        assert!(open.bytes() > plain + size_of::<Rare>() + 110);
    }
}
