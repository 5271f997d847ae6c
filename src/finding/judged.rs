//! The judgement of one session: everything a report tells, and nothing it would have to work out.

use crate::event::{Micros, Session, Side};
use crate::exchange::{
    CancelEnd, CancelTarget, HttpSession, Latency, Limits, Outcomes, Series, StreamEnd, TaskEnd, TokenEnd, Trend,
};
use crate::protocol::Dialect;

use super::Finding;

#[derive(Debug, Clone)]
pub struct Judged {
    pub session: Session,
    pub protocol: Spoken,
    /// First and last event; `None` for an empty session.
    pub first_at: Option<Micros>,
    pub last_at: Option<Micros>,
    /// The moment it was judged at: the last event of a finished recording, now for a live one.
    pub as_of: Micros,
    pub ended: Ended,
    pub counts: Counts,
    /// What became of the requests of each side: `outcomes[Side::Client as usize]`, or [`Judged::outcomes`].
    pub outcomes: [Outcomes; 2],
    /// Busiest first.
    pub methods: Vec<MethodFacts>,
    pub cancels: CancelLedger,
    pub tasks: Ledger<TaskEnd>,
    pub tokens: Ledger<TokenEnd>,
    pub streams: Ledger<StreamEnd>,
    /// Over HTTP, where the server gave the session an id.
    pub http_session: Option<HttpSession>,
    /// Gravest first, then most numerous; numbered from 1 in this order by reports and `show --finding`.
    pub findings: Vec<Finding>,
    /// What was open and what leaked, over time.
    pub series: Series,
    /// Whether it grows.
    pub trend: Trend,
    pub limits: Limits,
    /// What a reader should know: what the recording cannot tell, hints about known software.
    pub notes: Vec<Note>,
}

impl Judged {
    pub fn outcomes(&self, asked_by: Side) -> &Outcomes {
        &self.outcomes[asked_by as usize]
    }

    pub fn requests(&self) -> u64 {
        self.outcomes.iter().map(Outcomes::total).sum()
    }
}

/// Which protocol was spoken and how we know.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    pub dialect: Dialect,
    /// The version as written, also one we do not know.
    pub version: Option<String>,
    /// `initialize with protocolVersion "2025-11-25"`, `--protocol`, `nothing: judged as plain JSON-RPC`.
    pub recognised_by: String,
    /// Other rule sets that single messages stood under (MCP eras mixed on one pipe).
    pub also: Vec<Dialect>,
}

/// How the session ended, as far as the recording tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nothing says that it ended: it lives, or the recording stopped first.
    No,
    /// The client ended it.
    ByClient(Micros),
    /// The server ended it, or died.
    ByServer(Micros),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub events: u64,
    /// By side: client first.
    pub requests: [u64; 2],
    pub notifications: [u64; 2],
    pub responses: [u64; 2],
    pub unreadable: [u64; 2],
    /// Bytes of message bodies.
    pub bytes: [u64; 2],
    pub batches: [u64; 2],
    pub faults: [u64; 2],
    pub stderr_lines: u64,
    /// Losses, and the events and bytes they name.
    pub losses: u64,
    pub lost_events: u64,
    pub lost_bytes: u64,
    /// Responses that belong to no request.
    pub strays: u64,
    pub carriers: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MethodFacts {
    pub asked_by: Side,
    pub method: String,
    pub tool: Option<String>,
    pub count: u64,
    pub outcomes: Outcomes,
    /// From request to answer, of those that were answered without a cancel.
    pub latency: Latency,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CancelLedger {
    /// By who sent them.
    pub sent: [u64; 2],
    pub targets: [u64; CancelTarget::ALL.len()],
    pub ends: [u64; CancelEnd::ALL.len()],
    /// From the cancel to what settled it.
    pub settling: Latency,
    /// What the protocol says of the silent ones, one line per rule set: `50 silent: conforming in MCP …`.
    pub verdicts: Vec<CancelVerdict>,
}

impl CancelLedger {
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }

    pub fn target(&self, target: CancelTarget) -> u64 {
        self.targets[target as usize]
    }

    pub fn end(&self, end: CancelEnd) -> u64 {
        self.ends[end as usize]
    }

    /// Cancels of open requests that came to nothing: no answer where somebody may wait for one, or work that went on.
    pub fn unresolved(&self) -> u64 {
        let resolved: u64 = self.verdicts.iter().filter(|verdict| verdict.resolved).map(|verdict| verdict.count).sum();
        (self.end(CancelEnd::Silent) + self.end(CancelEnd::Ignored)).saturating_sub(resolved)
    }
}

/// Cancels of open requests that nothing settled, and the protocol's judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelVerdict {
    pub dialect: Dialect,
    pub end: CancelEnd,
    pub count: u64,
    /// `conforming`, `required`, `a reply was owed`, …
    pub judgement: &'static str,
    /// What it means for somebody who waits.
    pub consequence: &'static str,
    /// The silence is what must follow: the cancel did all it can, and nobody waits.
    pub resolved: bool,
}

/// Things that open and must end, by how they ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger<End> {
    pub opened: u64,
    pub ends: Vec<(End, u64)>,
    /// The most that were open at one time.
    pub peak: u64,
    /// How long those that ended were open.
    pub lifetime: Latency,
}

impl<End: PartialEq> Default for Ledger<End> {
    fn default() -> Self {
        Ledger { opened: 0, ends: Vec::new(), peak: 0, lifetime: Latency::default() }
    }
}

impl<End: PartialEq> Ledger<End> {
    pub fn end(&self, end: End) -> u64 {
        self.ends.iter().find(|(known, _)| *known == end).map_or(0, |(_, count)| *count)
    }

    pub fn add(&mut self, end: End, lifetime: Option<Micros>) {
        self.opened += 1;
        match self.ends.iter_mut().find(|(known, _)| *known == end) {
            Some((_, count)) => *count += 1,
            None => self.ends.push((end, 1)),
        }
        if let Some(lifetime) = lifetime {
            self.lifetime.add(lifetime);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub kind: NoteKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// What this recording cannot know, and what that does to the verdicts.
    Capture,
    /// About the protocol: unknown, mixed, overruled.
    Protocol,
    /// Known behaviour of named software. A hint, never a proof.
    Hint,
    /// What the log or its importer said of itself.
    Log,
}
