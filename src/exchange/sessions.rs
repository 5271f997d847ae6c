//! An HTTP session that a server gave an id: whether its client ever gave it back.
//!
//! MCP 2025-03-26 to 2025-11-25: a client that no longer needs a session should end it with DELETE. Nothing on the
//! wire tells a client that went from one that thinks: a session counts as never ended only when it was out of use
//! for longer than a request may take, with no HTTP exchange left open.

use crate::event::{Happening, Micros, Party, Side};

use super::clients::SESSION_FIELD;
use super::fact::{Fact, Mark, Slip, SlipKind};
use super::fold::{End, Fold};

/// What became of a session with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionEnd {
    /// The client gave it back, or tried to; or the server ended it.
    Ended,
    /// Out of use, and nobody ended it.
    NeverEnded,
    /// In use when the recording ended, or too lately to say.
    InUse,
}

impl SessionEnd {
    pub fn name(self) -> &'static str {
        match self {
            SessionEnd::Ended => "ended",
            SessionEnd::NeverEnded => "never-ended",
            SessionEnd::InUse => "in-use",
        }
    }
}

/// A session with an id, over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpSession {
    pub opened_at: Micros,
    /// The last sign of either side.
    pub used_at: Micros,
    /// Out of use at the end for this long.
    pub idle: Micros,
    pub end: SessionEnd,
}

/// What the fold remembers of it.
#[derive(Debug, Default)]
pub struct Lease {
    given: Option<Mark>,
    used: Option<Mark>,
    given_back: bool,
    /// An HTTP exchange was open until the recording ended.
    held_to_the_end: bool,
}

impl Fold {
    pub(super) fn take_lease(&mut self, happening: &Happening) {
        let names_it =
            |headers: &[(String, String)]| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(SESSION_FIELD));
        match happening {
            Happening::CarrierClosed { by: Party::Tap, .. } => {
                self.lease.held_to_the_end = true;
                return;
            }
            Happening::CarrierOpened { method, headers, .. } if names_it(headers) => {
                self.lease.given.get_or_insert(self.now);
                self.lease.given_back |= method == "DELETE";
            }
            Happening::CarrierHead { status: 200..=299, headers } if names_it(headers) => {
                self.lease.given.get_or_insert(self.now);
            }
            _ => {}
        }
        self.lease.used = Some(self.now);
    }

    /// The session as of a moment, where it has an id and its version knows how to end one.
    pub fn http_session(&self, as_of: Micros) -> Option<HttpSession> {
        let given = self.lease.given?;
        let used = self.lease.used.unwrap_or(given);
        if !self.spoken.dialect.is_legacy_mcp() || !self.knows.times {
            return None;
        }
        let idle = as_of - used.at;
        let end = if self.lease.given_back || self.ends.said.is_some() || self.end() != End::No {
            SessionEnd::Ended
        } else if self.lease.held_to_the_end || !self.carriers.is_empty() || idle < self.deadline() {
            SessionEnd::InUse
        } else {
            SessionEnd::NeverEnded
        };
        Some(HttpSession { opened_at: given.at, used_at: used.at, idle, end })
    }

    pub(super) fn session_over(&mut self, as_of: Micros, facts: &mut Vec<Fact>) {
        self.session = self.http_session(as_of);
        let never_ended = self.session.is_some_and(|session| session.end == SessionEnd::NeverEnded);
        if let (Some(given), Some(used), true) = (self.lease.given, self.lease.used, never_ended) {
            facts.push(Fact::Slip(Slip {
                kind: SlipKind::SessionNeverEnded,
                by: Side::Client,
                seq: used.seq,
                at: used.at,
                dialect: self.spoken.dialect,
                method: None,
                tool: None,
                subject: String::new(),
                also: vec![given.seq],
                on_http: true,
                doubtful: self.gap[Side::Client as usize].is_some(),
            }));
        }
    }
}
