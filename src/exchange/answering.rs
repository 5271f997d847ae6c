//! A response arrives: which request it is for, and what that request came to.

use crate::event::{Micros, Side};
use crate::protocol::{Dialect, Role, software::Named};
use crate::rpc::{Id, Kind, Mark as Place, Message, Oddity};

use super::ends::CancelOf;
use super::fact::{Cause, Exchange, Fact, Mark, Slip, SlipKind};
use super::fold::Fold;
use super::ids::Closed;
use super::open::Open;
use super::pending::Slot;
use super::{Cancel, CancelEnd, CancelTarget, Outcome};

/// LSP and ACP: the request was cancelled.
pub const REQUEST_CANCELLED: i64 = -32800;

impl Fold {
    pub(super) fn answer(&mut self, from: Side, message: &Message, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        let asker = from.other();
        if message.oddities.has(Oddity::BothResultAndError) || message.oddities.has(Oddity::NeitherResultNorError) {
            let subject = message.id.as_ref().map(Id::to_string).unwrap_or_default();
            self.slip(facts, SlipKind::MalformedResponse, from, None, subject);
        }
        let id = message.id.as_ref().map(Id::canonical);
        self.last_response[from as usize] = Some(self.now);
        let Some(id) = id.filter(|id| *id != Id::Null || self.pending[asker as usize].newest(&Id::Null).is_some())
        else {
            return self.answer_without_id(from, message, carrier, facts);
        };
        let apart = self.many_clients(carrier) && self.brought_a_request(carrier);
        let fits =
            |slot: &Slot| !apart || self.pending[asker as usize].get(*slot).is_some_and(|open| open.carrier == carrier);
        let slot = match self.pending[asker as usize].find(&id, carrier).filter(fits) {
            Some(slot) => slot,
            None => {
                let closed = self.recent[asker as usize].find(&id).map(|closed| closed.outcome);
                let known = closed.is_some() || self.used[asker as usize].contains(&id);
                let loosely = if known { None } else { self.pending[asker as usize].find_loosely(&id, carrier) };
                let Some((slot, rounded)) = loosely else {
                    if let Some(open) = self.recall(asker, &id) {
                        self.carrier_answered(carrier);
                        return self.settle(asker, open, message, facts);
                    }
                    if !known && message.kind == Kind::Error && self.refused(carrier) {
                        return self.refusal(asker, message, carrier, facts);
                    }
                    return self.answer_to_nothing(from, &id, message, carrier, facts);
                };
                let kind = if rounded { SlipKind::IdPrecisionLoss } else { SlipKind::IdTypeMismatch };
                if let Some(open) = self.pending[asker as usize].get(slot) {
                    let mut slip = self.slip_about(kind, from, open);
                    slip.also = vec![open.seq];
                    slip.subject = format!("{} for {}", id, open.id);
                    facts.push(Fact::Slip(slip));
                }
                slot
            }
        };
        self.carrier_answered(carrier);
        if message.kind == Kind::Error && self.refused(carrier) && self.is_swept_away(asker, slot, carrier) {
            return;
        }
        self.answers_elsewhere |= asker == Side::Client && self.is_side_stream(carrier);
        if self.goes_on(asker, slot, message, facts) {
            return;
        }
        self.settle_answer(asker, slot, message, facts);
    }

    /// Streaming methods (A2A) are answered until their stream says that it is over.
    pub(super) fn goes_on(&mut self, asker: Side, slot: Slot, message: &Message, facts: &mut Vec<Fact>) -> bool {
        let now = self.now;
        let Some(open) = self.pending[asker as usize].get(slot) else { return false };
        if open.role != Role::StreamCall || message.kind == Kind::Error {
            return false;
        }
        let (method, row) = (open.seq, open.row);
        if let Some(rare) = self.pending[asker as usize].rare_mut(slot) {
            rare.answers += 1;
            rare.first_answer.get_or_insert(now);
        }
        let last = message.marks.raw(Place::ResultFinal) == Some("true")
            || self.task_in_answer(asker, message, method, row, facts).is_some_and(|ended| ended)
            || message.marks.has(Place::ResultMessage)
            || message.marks.text(Place::ResultKind) == Some("message");
        !last
    }

    pub(super) fn settle_answer(&mut self, asker: Side, slot: Slot, message: &Message, facts: &mut Vec<Fact>) {
        if let Some(open) = self.pending[asker as usize].remove(slot) {
            self.settle(asker, open, message, facts);
        }
    }

    fn settle(&mut self, asker: Side, open: Open, message: &Message, facts: &mut Vec<Fact>) {
        let dialect = self.dialect_of(&open);
        let code = message.marks.number(Place::ErrorCode).map(|code| code as i64);
        let failed = message.kind == Kind::Error;
        self.newest_answered[asker.other() as usize] = self.newest_answered[asker.other() as usize].max(open.seq);
        if open.role == Role::Initialize && self.handshake.asked.is_some_and(|asked| asked.seq == open.seq) {
            self.handshake.answered = Some(self.now);
            self.remember_server(message);
        }
        if open.rare().cancel.is_none() {
            match open.next() {
                None => self.waited[asker as usize] += 1,
                Some(_) => {
                    self.overlapped[asker as usize] += 1;
                    self.names.rows[open.row as usize].overlapped += 1;
                }
            }
            if failed && code == Some(REQUEST_CANCELLED) && dialect.is_lsp_like() {
                let slip = self.slip_about(SlipKind::CancelledUnasked, asker.other(), &open);
                facts.push(Fact::Slip(Slip { also: vec![open.seq], ..slip }));
            }
        }
        self.note_late_answer(&open, facts);
        let (outcome, cancel_end) = match open.rare().cancel {
            Some(note) => self.after_cancel(&open, note.at, message, dialect),
            None => (self.uncancelled(&open, asker, message, failed, facts), CancelEnd::Moot),
        };
        // A request that was left hanging must not stretch the window it is judged by.
        if outcome.was_answered() && !open.role.may_stay_open() {
            self.round_trips.add(self.now.at - open.at);
        }
        if open.rare().cancel.is_some_and(|note| note.of == CancelOf::Session)
            && let Some(slip) = self.stopped_otherwise(&open, message, cancel_end)
        {
            facts.push(Fact::Slip(slip));
        }
        if let Role::TaskGet(_) | Role::CancelTask(_) | Role::TaskResult(_) = open.role {
            self.task_answered(asker, &open, message, facts);
        }
        if open.role == Role::Turn && dialect == Dialect::Acp2 && !failed {
            self.turn_runs(&open);
        }
        let answer = Some(self.now);
        self.close(open, outcome, answer, code, cancel_end, facts);
    }

    /// Why the answered request ends as it does, when nobody cancelled it.
    fn uncancelled(
        &mut self,
        open: &Open,
        asker: Side,
        message: &Message,
        failed: bool,
        facts: &mut Vec<Fact>,
    ) -> Outcome {
        if self.was_left_until_the_end(open) {
            return Outcome::AnsweredAfterClose;
        }
        if failed {
            return Outcome::Failed;
        }
        let marks = &message.marks;
        match marks.text(Place::ResultType) {
            Some("input_required") => {
                if open.role != Role::Call {
                    let slip = self.slip_about(SlipKind::InputRequiredNotAllowed, asker.other(), open);
                    facts.push(Fact::Slip(Slip { also: vec![open.seq], ..slip }));
                }
                self.chain_waits(marks.raw(Place::ResultState));
                return Outcome::InputRequired;
            }
            Some("task") => {
                if !open.asked_task {
                    let slip = self.slip_about(SlipKind::TaskNotDeclared, asker.other(), open);
                    facts.push(Fact::Slip(Slip { also: vec![open.seq], ..slip }));
                }
                self.task_in_answer(asker, message, open.seq, open.row, facts);
                return Outcome::BecameTask;
            }
            _ => {}
        }
        let a2a = self.spoken.dialect.is_a2a() && matches!(open.role, Role::Send | Role::StreamCall);
        let mcp = open.asked_task && marks.has(Place::ResultTaskTaskId);
        if (mcp || a2a) && self.task_in_answer(asker, message, open.seq, open.row, facts).is_some() {
            return Outcome::BecameTask;
        }
        Outcome::Answered
    }

    /// Open for a while when the client closed its end, and answered only then.
    fn was_left_until_the_end(&self, open: &Open) -> bool {
        let Some(end) = self.ends.client else { return false };
        // Streams may outlive the end; a script that writes its requests and closes at once is in order.
        open.asker == Side::Client
            && self.knows.times
            && !open.role.may_stay_open()
            && open.seq < end.seq
            && self.now.seq > end.seq
            && end.at - open.at > self.race_window().min(self.deadline())
            || (open.asker == Side::Client
                && self.knows.times
                && self.ends.client.is_some_and(|end| open.seq < end.seq && self.now.seq > end.seq)
                && open.again().is_some_and(|again| self.long_enough_to_give_up(again.at - open.at)))
    }

    fn after_cancel(
        &self,
        open: &Open,
        cancelled_at: Micros,
        message: &Message,
        dialect: Dialect,
    ) -> (Outcome, CancelEnd) {
        let stopped = message.marks.text(Place::StopReason) == Some("cancelled")
            || (dialect == Dialect::Bsp && message.marks.raw(Place::StatusCode) == Some("3"))
            || message.marks.text(Place::PermissionOutcome) == Some("cancelled");
        if message.kind == Kind::Error || stopped {
            return (Outcome::CancelledAcknowledged, CancelEnd::Acknowledged);
        }
        let in_time = !self.knows.times || self.now.at - cancelled_at <= self.race_window();
        if in_time && open.rare().after_cancel.is_empty() {
            (Outcome::CancelledRaced, CancelEnd::Raced)
        } else {
            (Outcome::CancelledIgnored, CancelEnd::Ignored)
        }
    }

    /// ACP v1: after `session/cancel` the prompt must be answered, with `cancelled` as its stop reason.
    fn stopped_otherwise(&self, open: &Open, message: &Message, end: CancelEnd) -> Option<Slip> {
        let failed = message.kind == Kind::Error;
        if open.role != Role::Turn || self.dialect_of(open) != Dialect::Acp1 || (end != CancelEnd::Ignored && !failed) {
            return None;
        }
        let mut slip = self.slip_about(SlipKind::StoppedOtherwise, open.asker.other(), open);
        slip.also = vec![open.seq, open.rare().cancel?.seq];
        Some(slip)
    }

    /// The asker had visibly given it up, and the answer came all the same.
    fn note_late_answer(&self, open: &Open, facts: &mut Vec<Fact>) {
        let Some(again) = open.again() else { return };
        let alone = self.overlapped[open.asker as usize] == 1 && self.waited[open.asker as usize] >= 2;
        if open.rare().cancel.is_none()
            && self.knows.times
            && alone
            && !self.many_clients(open.carrier)
            && !open.role.may_stay_open()
            && again.at - open.at >= self.race_window()
            && self.long_enough_to_give_up(again.at - open.at)
        {
            let mut slip = self.slip_about(SlipKind::AnsweredAfterRetry, open.asker.other(), open);
            slip.also = vec![open.seq, again.seq];
            facts.push(Fact::Slip(slip));
        }
    }

    fn remember_server(&mut self, message: &Message) {
        let places = [(Place::ServerName, Place::ServerVersion), (Place::AgentName, Place::AgentVersion)];
        for (name, version) in places {
            if let Some(name) = message.marks.text(name) {
                let version = message.marks.text(version).unwrap_or_default();
                self.servers = Some(Named { name: name.to_string(), version: version.to_string() });
            }
        }
    }

    pub(super) fn slip_about(&self, kind: SlipKind, by: Side, open: &Open) -> Slip {
        let row = &self.names.rows[open.row as usize];
        Slip {
            kind,
            by,
            seq: self.now.seq,
            at: self.now.at,
            dialect: self.dialect_of(open),
            method: Some(row.method.clone()),
            tool: row.tool.clone(),
            subject: open.id.to_string(),
            also: Vec::new(),
            on_http: open.carrier.is_some(),
            doubtful: false,
        }
    }

    /// Books the end of a request that something on the wire ended.
    pub(super) fn close(
        &mut self,
        open: Open,
        outcome: Outcome,
        answer: Option<Mark>,
        error_code: Option<i64>,
        cancel_end: CancelEnd,
        facts: &mut Vec<Fact>,
    ) {
        let now = self.now;
        let row = &mut self.names.rows[open.row as usize];
        row.outcomes.add(outcome);
        if outcome.was_answered() {
            row.latency.add(now.at - open.at);
        }
        let (method, tool) = (row.method.clone(), row.tool.clone());
        let dialect = self.dialect_of(&open);
        // Where a cancel ends the wait, the wait ended then.
        if !open.rare().cancel.is_some_and(|_| self.ends_the_wait(dialect)) {
            self.series.closed(Fold::track(open.asker), open.at, now.at);
        }
        for token in open.rare().tokens.iter().flatten() {
            let still_used = outcome == Outcome::BecameTask;
            self.tokens[open.asker as usize].closed(token, now, still_used, open.carrier);
        }
        if let Some(note) = open.rare().cancel {
            facts.push(Fact::Cancel(Cancel {
                sent_by: open.asker,
                of: note.of,
                seq: note.seq,
                at: note.at,
                named: open.id.to_string(),
                target: CancelTarget::Open,
                end: cancel_end,
                method: Some(method.clone()),
                tool: tool.clone(),
                dialect,
                request_seq: Some(open.seq),
                settled: answer,
                too_late_by: None,
                on_http: open.carrier.is_some(),
                doubtful: false,
            }));
        }
        self.recent[open.asker as usize].push(Closed {
            id: open.id.clone(),
            generation: open.generation,
            seq: open.seq,
            closed_seq: now.seq,
            closed_at: now.at,
            method: method.clone(),
            tool: tool.clone(),
            outcome,
            many_answers: open.rare().answers > 0,
            initialize: open.role == Role::Initialize,
            refused: self.refused(open.carrier),
        });
        let (end, cause) = match outcome {
            Outcome::AnsweredAfterClose => (self.ends.client, Cause::None),
            Outcome::PeerDied => (Some(now), Cause::PeerDead),
            _ => (None, Cause::None),
        };
        facts.push(Fact::Exchange(Exchange {
            asked_by: open.asker,
            generation: open.generation,
            method,
            tool,
            carrier: open.carrier,
            dialect,
            role: open.role,
            opened_seq: open.seq,
            opened_at: open.at,
            closed_at: Some(now.at),
            outcome,
            cause,
            cancel: open.rare().cancel.map(|note| Mark { seq: note.seq, at: note.at }),
            cancel_of: open.rare().cancel.map(|note| note.of),
            answer,
            error_code,
            end,
            moved_on: None,
            root: None,
            after_cancel: open.rare().after_cancel.clone(),
            waited: now.at - open.rare().cancel.map_or(open.at, |note| note.at),
            ended_by_server: None,
            doubtful: false,
            id: open.id,
        }));
    }

    /// MCP: after a cancel nobody waits any more.
    pub(super) fn ends_the_wait(&self, dialect: Dialect) -> bool {
        dialect.is_mcp()
    }
}
