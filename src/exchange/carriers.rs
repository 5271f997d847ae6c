//! HTTP exchanges: which requests travel on them, and what their ends mean.
//!
//! In MCP 2026-07-28 a client that closes the response has cancelled; before that a torn response may be taken up
//! again on another one, and is no cancel. A response that the server ends without an answer is told as such.

use crate::event::{How, Party, Side};
use crate::protocol::{Dialect, Role};
use crate::rpc::Id;

use super::fact::{Cause, Fact, Mark};
use super::fold::Fold;
use super::open::Left;
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
    /// Part of the response is missing, or could not be read.
    pub gap: bool,
    /// The id of the event that brings the next message; and whether events have ids here at all.
    pub event: Option<Id>,
    pub names_events: bool,
    /// The message that came last had come before.
    pub redelivers: bool,
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
            gap: false,
            event: None,
            names_events: false,
            redelivers: false,
        };
        self.carriers.insert(carrier, opened);
    }

    pub(super) fn carrier_head(&mut self, carrier: Option<u64>, status: u16) {
        if self.ends.missing && (200..300).contains(&status) {
            (self.ends.said, self.ends.server, self.ends.missing) = (None, None, false);
        }
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.status = Some(status);
        }
    }

    pub(super) fn carrier_streaming(&mut self, carrier: Option<u64>, resumes: bool) {
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.streaming = true;
            carrier.resumes |= resumes;
            // The older transport opens it before all else.
            self.answers_elsewhere |= carrier.method == "GET" && !resumes && self.last_message[0].is_none();
        }
    }

    pub(super) fn carrier_lost(&mut self, carrier: Option<u64>) {
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.gap = true;
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

    /// A stream that no request opened and that takes up none.
    pub(super) fn is_side_stream(&self, carrier: Option<u64>) -> bool {
        carrier
            .and_then(|carrier| self.carriers.get(&carrier))
            .is_some_and(|carrier| carrier.method == "GET" && carrier.streaming && !carrier.resumes)
    }

    /// HTTP itself refused what came on this carrier.
    pub(super) fn refused(&self, carrier: Option<u64>) -> bool {
        self.status_of(carrier).is_some_and(|status| status >= 400)
    }

    pub(super) fn status_of(&self, carrier: Option<u64>) -> Option<u16> {
        carrier.and_then(|carrier| self.carriers.get(&carrier)).and_then(|carrier| carrier.status)
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
        self.hang_ups.closed(by == Party::Client, !owed.is_empty(), carrier.method == "DELETE", self.now);
        let left_open = owed.iter().any(|(side, slot, _)| self.outlives_its_cancel(*side, *slot, &carrier, by));
        let mut unanswered = 0;
        for (side, slot, _) in owed {
            unanswered += u64::from(self.request_left(side, slot, &carrier, by, how, facts));
        }
        let end = match by {
            _ if left_open => StreamEnd::LeftOpen,
            // The answer may have been in what is missing.
            _ if unanswered == 0 || carrier.gap => StreamEnd::Closed,
            Party::Client => StreamEnd::Disconnected,
            _ => StreamEnd::EndedWithoutAnswer,
        };
        let unanswered = if carrier.gap { 0 } else { unanswered };
        self.stream_over(number, &carrier, end, Some(self.now), unanswered, facts);
    }

    /// The session is over, or asked to be: a server that grants a DELETE closes the streams before it answers.
    fn is_ending(&self) -> bool {
        self.ending_since().is_some()
    }

    fn ending_since(&self) -> Option<u64> {
        let asked = self.carriers.values().filter(|carrier| carrier.method == "DELETE").map(|carrier| carrier.opened);
        asked.chain(self.ends.said).chain(self.end().mark()).map(|mark| mark.seq).min()
    }

    /// To end a session, servers fail what is still open in it: that answers nobody.
    fn swept_away(&self, status: Option<u16>, asked: u64) -> bool {
        status.is_some_and(|status| status >= 500) && self.ending_since().is_some_and(|since| asked < since)
    }

    pub(super) fn is_swept_away(&self, asker: Side, slot: Slot, carrier: Option<u64>) -> bool {
        let asked = self.pending[asker as usize].get(slot).map(|open| open.seq);
        asked.is_some_and(|asked| self.swept_away(self.status_of(carrier), asked))
    }

    /// The answer must come in the response to the POST itself: MCP's Streamable HTTP. The older transport, which
    /// versions after it still travel on, has a stream for all answers.
    fn answers_in_place(&self, dialect: Dialect) -> bool {
        dialect.is_mcp()
            && !matches!(dialect, Dialect::Mcp | Dialect::Mcp20241105)
            && !self.answers_elsewhere
            && !self.may_have_begun_late()
    }

    /// The request was cancelled a while ago, and it was not the server that ended the response then.
    fn outlives_its_cancel(&self, side: Side, slot: Slot, carrier: &Carrier, by: Party) -> bool {
        let Some(open) = self.pending[side as usize].get(slot) else { return false };
        let Some(cancel) = open.rare().cancel else { return false };
        let over = self.is_ending();
        self.dialect_of(open).is_legacy_mcp()
            && self.knows.times
            && self.knows.ends
            && (by != Party::Server || over)
            && carrier.status.is_none_or(|status| status == 200)
            && open.rare().after_cancel.is_empty()
            && self.gap[side.other() as usize].is_none_or(|gap| gap < open.seq)
            && self.now.at - cancel.at > self.race_window()
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
        let cancelled = open.rare().cancel.is_some();
        let (role, answers, seq) = (open.role, open.rare().answers, open.seq);
        // The connection to the server broke, or there was none. The refusal that came instead is not the server's.
        let torn = by == Party::Server && matches!(how, How::Reset | How::Error);
        // Refused by HTTP itself: that is the answer.
        let swept = self.swept_away(carrier.status, seq);
        if let Some(status) = carrier.status.filter(|status| *status >= 400 && !torn && !swept)
            && let Some(open) = self.pending[side as usize].remove(slot)
        {
            let outcome = if cancelled { Outcome::CancelledAcknowledged } else { Outcome::Failed };
            let code = Some(i64::from(status));
            self.close(open, outcome, Some(now), code, CancelEnd::Acknowledged, facts);
            self.recent[side as usize].latest_was_refused();
            self.forget_handshake(seq);
            return false;
        }
        if let Some(status @ 300..400) = carrier.status
            && !torn
            && !cancelled
        {
            self.redirected(side, slot, status, facts);
            return false;
        }
        // Accepted: the answer comes on another stream.
        if matches!(carrier.status, Some(202 | 204)) && !self.answers_in_place(dialect) {
            return false;
        }
        if role == Role::StreamCall && answers > 0 && by != Party::Tap {
            // The stream of a task that lives on, whoever closed it.
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
        let session_over = self.is_ending();
        if session_over || by == Party::Tap || (!self.knows.ends && by == Party::Unknown) {
            return false;
        }
        if torn {
            self.hang_ups.broke(now);
        }
        // Only a stream can be taken up again.
        if torn && !cancelled && !(carrier.streaming && dialect.is_legacy_mcp()) {
            if let Some(open) = self.pending[side as usize].remove(slot) {
                self.close(open, Outcome::PeerDied, None, None, CancelEnd::Moot, facts);
            }
            // Nothing of it got through.
            if how == How::Error
                && !carrier.streaming
                && let Some(Fact::Exchange(exchange)) = facts.last_mut()
            {
                exchange.cause = Cause::PeerUnreachable;
                self.recent[side as usize].latest_was_refused();
                self.forget_handshake(seq);
            }
            return true;
        }
        if let Some(rare) = self.pending[side as usize].rare_mut(slot) {
            rare.left = Some(Left { mark: now, by, torn });
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

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn a_stream_that_was_dropped_is_not_open_and_its_task_lives_on() {
        let stream = r#"
            protocol a2a
            0ms   #1 |opened POST /|
                  #1 -> "s" SendStreamingMessage {"message":{"role":"ROLE_USER"}}
                  #1 |head 200|
                  #1 |streaming|
                  #1 <- "s" result {"task":{"id":"T","status":{"state":"TASK_STATE_WORKING"}}}
        "#;
        let again = r#"
            200ms #2 |opened POST /|
                  #2 -> "t" SubscribeToTask {"id":"T"}
                  #2 |head 200|
                  #2 |streaming|
                  #2 <- "t" result {"task":{"id":"T","status":{"state":"TASK_STATE_WORKING"}}}
                  #2 <- "t" result {"statusUpdate":{"taskId":"T","status":{"state":"TASK_STATE_COMPLETED"}}}
                  #2 |closed by server|
        "#;
        for by in ["client", "server"] {
            check(&format!("{stream} #1 |closed by {by}|\n{again}\n = \"s\" became-task\n = \"t\" became-task"));
        }
        check(&format!("{stream}\n = \"s\" open-stream"));
    }
}
