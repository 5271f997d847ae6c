//! What became of a request: one word each, the same in reports, JSON and flags.

use std::fmt;

/// One per request, in both directions. The names are part of the report's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// A result came, and nobody had cancelled.
    Answered,
    /// An error came, and nobody had cancelled.
    Failed,
    /// MCP 2026-07-28: the answer asks for input; the client goes on under a new id.
    InputRequired,
    /// The answer is a task: what becomes of it is in the ledger of tasks.
    BecameTask,
    /// May stay open for ever, and is: a subscription, a stream, a long poll.
    OpenStream,
    /// Cancelled, and nothing came after.
    CancelledSilent,
    /// Cancelled, and an error came.
    CancelledAcknowledged,
    /// Cancelled, and a result came within the race window.
    CancelledRaced,
    /// Cancelled, and a result or progress came after the race window.
    CancelledIgnored,
    /// Never closed: the session ended after its deadline, or its carrier ended without an answer.
    Orphaned,
    /// Never closed, and the asker visibly moved on without a cancel.
    Abandoned,
    /// Open past its deadline in a session that lives.
    Overdue,
    /// Open when the recording stopped, or nobody can know: no verdict.
    InFlight,
    /// The client closed while it was open, before its deadline.
    LostInShutdown,
    /// The other side died while it was open.
    PeerDied,
    /// Left hanging until the client closed its end, and answered only then.
    AnsweredAfterClose,
}

impl Outcome {
    pub const ALL: [Outcome; 16] = [
        Outcome::Answered,
        Outcome::Failed,
        Outcome::InputRequired,
        Outcome::BecameTask,
        Outcome::OpenStream,
        Outcome::CancelledSilent,
        Outcome::CancelledAcknowledged,
        Outcome::CancelledRaced,
        Outcome::CancelledIgnored,
        Outcome::Orphaned,
        Outcome::Abandoned,
        Outcome::Overdue,
        Outcome::InFlight,
        Outcome::LostInShutdown,
        Outcome::PeerDied,
        Outcome::AnsweredAfterClose,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Failed => "failed",
            Outcome::InputRequired => "input-required",
            Outcome::BecameTask => "became-task",
            Outcome::OpenStream => "open-stream",
            Outcome::CancelledSilent => "cancelled-silent",
            Outcome::CancelledAcknowledged => "cancelled-acknowledged",
            Outcome::CancelledRaced => "cancelled-raced",
            Outcome::CancelledIgnored => "cancelled-ignored",
            Outcome::Orphaned => "orphaned",
            Outcome::Abandoned => "abandoned",
            Outcome::Overdue => "overdue",
            Outcome::InFlight => "in-flight",
            Outcome::LostInShutdown => "lost-in-shutdown",
            Outcome::PeerDied => "peer-died",
            Outcome::AnsweredAfterClose => "answered-after-close",
        }
    }

    pub fn from_name(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// An answer came and settled it, in time.
    pub fn was_answered(self) -> bool {
        matches!(self, Outcome::Answered | Outcome::Failed | Outcome::InputRequired | Outcome::BecameTask)
    }

    pub fn was_cancelled(self) -> bool {
        matches!(
            self,
            Outcome::CancelledSilent
                | Outcome::CancelledAcknowledged
                | Outcome::CancelledRaced
                | Outcome::CancelledIgnored
        )
    }

    /// Left hanging: what the headline "orphaned requests" counts.
    pub fn was_left_hanging(self) -> bool {
        matches!(self, Outcome::Orphaned | Outcome::Abandoned | Outcome::Overdue | Outcome::AnsweredAfterClose)
    }

    /// No answer ever came and no cancel explains it.
    pub fn never_closed(self) -> bool {
        matches!(
            self,
            Outcome::Orphaned
                | Outcome::Abandoned
                | Outcome::Overdue
                | Outcome::InFlight
                | Outcome::LostInShutdown
                | Outcome::PeerDied
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many requests came to each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    counts: [u64; Outcome::ALL.len()],
}

impl Outcomes {
    pub fn add(&mut self, outcome: Outcome) {
        self.counts[outcome as usize] += 1;
    }

    pub fn get(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize]
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Those that happened, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL.into_iter().map(|outcome| (outcome, self.get(outcome))).filter(|(_, count)| *count > 0)
    }

    /// The sum of those for which `choose` says yes.
    pub fn sum(&self, choose: impl Fn(Outcome) -> bool) -> u64 {
        self.iter().filter(|(outcome, _)| choose(*outcome)).map(|(_, count)| count).sum()
    }

    pub fn merge(&mut self, other: &Outcomes) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }
}
