//! HTTP exchanges: which requests travel on them, and what their ends mean.
//!
//! In MCP 2026-07-28 a client that closes the response has cancelled; before that a torn response may be taken up
//! again on another one, and is no cancel. A response that the server ends without an answer is told as such.

use crate::event::{How, Party, Side};
use crate::protocol::Role;

use super::ending::End;
use super::fact::{Fact, Mark};
use super::fold::Fold;
use super::pending::Slot;
use super::{CancelEnd, CancelOf, Outcome, Stream, StreamEnd};

/// One HTTP exchange that is open.
#[derive(Debug)]
pub struct Carrier {
    pub opened: Mark,
    pub method: String,
    pub status: Option<u16>,
    pub streaming: bool,
    /// It takes up an earlier stream: what comes may have come before.
    pub resumes: bool,
    pub answers: u64,
    /// The requests that came on it: who asked, where they are, and their number to know them again.
    pub owes: Vec<(Side, Slot, u64)>,
    pub asked: bool,
}

impl Fold {
    pub(super) fn carrier_opened(&mut self, carrier: Option<u64>, method: &str) {
        let Some(carrier) = carrier else { return };
        let opened = Carrier {
            opened: self.now,
            method: method.to_string(),
            status: None,
            streaming: false,
            resumes: false,
            answers: 0,
            owes: Vec::new(),
            asked: false,
        };
        self.carriers.insert(carrier, opened);
    }

    pub(super) fn carrier_head(&mut self, carrier: Option<u64>, status: u16) {
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.status = Some(status);
        }
    }

    pub(super) fn carrier_streaming(&mut self, carrier: Option<u64>, resumes: bool) {
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.streaming = true;
            carrier.resumes |= resumes;
        }
    }

    pub(super) fn carrier_carries(&mut self, carrier: u64, from: Side) {
        if from == Side::Client
            && let Some(carrier) = self.carriers.get_mut(&carrier)
        {
            carrier.asked = true;
        }
    }

    pub(super) fn carrier_owes(&mut self, carrier: u64, from: Side, slot: Slot, seq: u64) {
        if from == Side::Client
            && let Some(carrier) = self.carriers.get_mut(&carrier)
        {
            carrier.owes.push((from, slot, seq));
        }
    }

    pub(super) fn carrier_answered(&mut self, carrier: Option<u64>) {
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.answers += 1;
        }
    }

    pub(super) fn carrier_resumes(&self, carrier: Option<u64>) -> bool {
        carrier.and_then(|carrier| self.carriers.get(&carrier)).is_some_and(|carrier| carrier.resumes)
    }

    /// The one open request on this HTTP exchange, if it is the only one.
    pub(super) fn only_request_on(&self, carrier: Option<u64>, asker: Side) -> Option<Slot> {
        let carrier = self.carriers.get(&carrier?)?;
        match carrier.owes[..] {
            [(side, slot, seq)] if side == asker => {
                self.pending[side as usize].get(slot).filter(|open| open.seq == seq).map(|_| slot)
            }
            _ => None,
        }
    }

    pub(super) fn carrier_closed(&mut self, carrier: Option<u64>, by: Party, how: How, facts: &mut Vec<Fact>) {
        let Some(number) = carrier else { return };
        let Some(carrier) = self.carriers.remove(&number) else { return };
        let owed: Vec<(Side, Slot, u64)> = carrier
            .owes
            .iter()
            .copied()
            .filter(|(side, slot, seq)| self.pending[*side as usize].get(*slot).is_some_and(|open| open.seq == *seq))
            .collect();
        let mut unanswered = 0;
        for (side, slot, _) in owed {
            unanswered += u64::from(self.request_left(side, slot, &carrier, by, how, facts));
        }
        let end = match by {
            _ if unanswered == 0 => StreamEnd::Closed,
            Party::Client => StreamEnd::Disconnected,
            _ => StreamEnd::EndedWithoutAnswer,
        };
        self.stream_over(number, &carrier, end, Some(self.now), unanswered, facts);
    }

    /// The HTTP exchange of an open request is over. Says whether an answer was owed on it.
    fn request_left(
        &mut self,
        side: Side,
        slot: Slot,
        carrier: &Carrier,
        by: Party,
        how: How,
        facts: &mut Vec<Fact>,
    ) -> bool {
        let now = self.now;
        let Some(open) = self.pending[side as usize].get(slot) else { return false };
        let dialect = self.dialect_of(open);
        let cancelled = open.cancel.is_some();
        let (role, answers) = (open.role, open.answers);
        // Refused by HTTP itself: that is the answer.
        if let Some(status) = carrier.status.filter(|status| *status >= 400)
            && let Some(open) = self.pending[side as usize].remove(slot)
        {
            let outcome = if cancelled { Outcome::CancelledAcknowledged } else { Outcome::Failed };
            let code = Some(i64::from(status));
            self.close(open, outcome, Some(now), code, CancelEnd::Acknowledged, facts);
            return false;
        }
        // Accepted: the answer comes on another stream.
        if matches!(carrier.status, Some(202 | 204)) {
            return false;
        }
        if role == Role::StreamCall && answers > 0 && by != Party::Client {
            // The stream of a task that lives on.
            if let Some(open) = self.pending[side as usize].remove(slot) {
                self.close(open, Outcome::BecameTask, Some(now), None, CancelEnd::Moot, facts);
            }
            return false;
        }
        if by == Party::Client && dialect.disconnect_cancels() && !cancelled {
            self.mark_cancelled(side, slot, CancelOf::Disconnect);
            if let Some(open) = self.pending[side as usize].remove(slot) {
                self.close(open, Outcome::CancelledSilent, None, None, CancelEnd::Silent, facts);
            }
            return true;
        }
        if role == Role::Listen && by != Party::Client && how == How::Eof {
            if let Some(open) = self.pending[side as usize].remove(slot) {
                self.close(open, Outcome::Answered, Some(now), None, CancelEnd::Moot, facts);
            }
            return false;
        }
        // What ends after the session was ended ends because of that; and the end of a recording, or a log that
        // does not show how streams end, cannot say that one ended too early.
        let session_over = self.ends.said.is_some() || self.end() != End::No;
        if session_over || by == Party::Tap || (!self.knows.ends && by == Party::Unknown) {
            return false;
        }
        if let Some(open) = self.pending[side as usize].get_mut(slot) {
            open.left = Some((now, by));
        }
        !cancelled
    }

    pub(super) fn stream_over(
        &mut self,
        number: u64,
        carrier: &Carrier,
        end: StreamEnd,
        at: Option<Mark>,
        unanswered: u64,
        facts: &mut Vec<Fact>,
    ) {
        facts.push(Fact::Stream(Stream {
            carrier: number,
            method: carrier.method.clone(),
            dialect: self.spoken.dialect,
            opened_seq: carrier.opened.seq,
            opened_at: carrier.opened.at,
            closed_at: at.map(|at| at.at),
            end,
            unanswered,
            status: carrier.status,
            streaming: carrier.streaming,
        }));
    }
}
