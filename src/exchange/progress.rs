//! Progress: on the token of a request (MCP, LSP), or on a token somebody made (LSP).

use std::collections::VecDeque;

use crate::event::{Micros, Side};
use crate::rpc::{Mark as Place, Message};

use super::fact::{Fact, Mark, Slip, SlipKind};
use super::fold::Fold;
use super::hash::print_of;
use super::{Cancel, CancelEnd, CancelOf, CancelTarget, Token, TokenEnd};

/// Closed tokens that are remembered, to tell late progress from progress about nothing.
const MOST_CLOSED: usize = 1 << 12;
/// Events kept to prove that work went on after a cancel.
const MOST_PROOFS: usize = 8;

/// The tokens of one side's requests that are closed.
#[derive(Debug, Default)]
pub struct Tokens {
    closed: VecDeque<ClosedToken>,
}

#[derive(Debug)]
struct ClosedToken {
    print: u64,
    closed: Mark,
    still_used: bool,
    carrier: Option<u64>,
}

impl Tokens {
    pub fn closed(&mut self, token: &str, at: Mark, still_used: bool, carrier: Option<u64>) {
        if self.closed.len() == MOST_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back(ClosedToken { print: print_of(token), closed: at, still_used, carrier });
    }

    fn find(&self, token: &str) -> Option<&ClosedToken> {
        let print = print_of(token);
        self.closed.iter().rev().find(|known| known.print == print)
    }
}

/// A token that was made by itself: what it stands for must end.
#[derive(Debug, Clone)]
pub struct Work {
    pub opened_by: Side,
    pub opened: Mark,
    pub begun: Option<Mark>,
    pub last_at: Micros,
    pub reports: u64,
    pub cancel: Option<Mark>,
}

impl Fold {
    /// MCP's `notifications/progress`.
    pub(super) fn progress(&mut self, from: Side, message: &Message, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        let Some(token) = message.marks.raw(Place::ProgressToken) else { return };
        let value = message.marks.number(Place::Progress);
        self.progress_on(from, token, value, carrier, facts);
    }

    fn progress_on(
        &mut self,
        from: Side,
        token: &str,
        value: Option<f64>,
        carrier: Option<u64>,
        facts: &mut Vec<Fact>,
    ) {
        let asker = from.other();
        // A stream that is taken up again may bring what came before.
        let redelivered = self.carrier_resumes(carrier);
        let key = self.token_key(token, carrier);
        let other = other_writing(token).map(|other| self.token_key(&other, carrier).into_owned());
        let pending = &mut self.pending[asker as usize];
        let known = if pending.by_token.contains_key(&*key) { &*key } else { other.as_deref().unwrap_or(&key) };
        if let Some(active) = pending.by_token.get_mut(known) {
            let slot = active.slot;
            let backwards = value.is_some_and(|value| value <= active.last);
            if let Some(value) = value {
                active.last = value.max(active.last);
            }
            if backwards
                && !redelivered
                && self.spoken.dialect.is_mcp()
                && let Some(open) = self.pending[asker as usize].get(slot)
            {
                let mut slip = self.slip_about(SlipKind::ProgressNotIncreasing, from, open);
                slip.also = vec![open.seq];
                slip.subject = token.to_string();
                facts.push(Fact::Slip(slip));
            }
            let cancelled = self.pending[asker as usize].get(slot).and_then(|open| open.rare().cancel);
            if cancelled.is_some_and(|note| self.now.at - note.at > self.race_window())
                && let Some(rare) = self.pending[asker as usize].rare_mut(slot)
                && rare.after_cancel.len() < MOST_PROOFS
            {
                rare.after_cancel.push(self.now.seq);
            }
            return;
        }
        let closed = self.tokens[asker as usize]
            .find(&key)
            .or_else(|| other.as_deref().and_then(|other| self.tokens[asker as usize].find(other)));
        let kind = match closed {
            Some(closed) if closed.still_used || redelivered => return,
            None if self.many_clients(carrier) && !self.brought_a_request(carrier) => return,
            // Two connections keep no order between them.
            Some(closed) if closed.carrier != carrier && self.now.at - closed.closed.at <= self.race_window() => return,
            Some(_) => SlipKind::ProgressAfterClose,
            None => SlipKind::ProgressUnknown,
        };
        let also = closed.map(|closed| vec![closed.closed.seq]).unwrap_or_default();
        let forgotten = self.let_go.requests > 0;
        let doubtful = closed.is_none() && (self.may_have_missed(asker) || !self.knows.payload || forgotten);
        self.token_slip(facts, kind, from, token, also, doubtful);
    }

    fn token_slip(&self, facts: &mut Vec<Fact>, kind: SlipKind, by: Side, token: &str, also: Vec<u64>, doubtful: bool) {
        facts.push(Fact::Slip(Slip {
            kind,
            by,
            seq: self.now.seq,
            at: self.now.at,
            dialect: self.spoken.dialect,
            method: None,
            tool: None,
            subject: token.to_string(),
            also,
            on_http: false,
            doubtful,
        }));
    }

    /// LSP: the server makes a token of its own.
    pub(super) fn token_created(&mut self, from: Side, message: &Message, _: &mut Vec<Fact>) {
        if let Some(token) = message.marks.raw(Place::Token) {
            let work =
                Work { opened_by: from, opened: self.now, begun: None, last_at: self.now.at, reports: 0, cancel: None };
            self.works.insert(token.into(), work);
            self.let_go_works.lighten(&mut self.works, |work| work.opened.seq);
        }
    }

    /// LSP's `$/progress`.
    pub(super) fn token_progress(
        &mut self,
        from: Side,
        message: &Message,
        carrier: Option<u64>,
        facts: &mut Vec<Fact>,
    ) {
        let Some(token) = message.marks.raw(Place::Token) else { return };
        let kind = message.marks.text(Place::ProgressKind);
        if !self.works.contains_key(token) {
            let asker = from.other() as usize;
            let key = self.token_key(token, carrier);
            let of_request =
                self.pending[asker].by_token.contains_key(&*key) || self.tokens[asker].find(&key).is_some();
            if !of_request && kind != Some("begin") {
                self.recall_work(token);
            }
            if !self.works.contains_key(token) && (of_request || kind != Some("begin")) {
                return self.progress_on(from, token, None, carrier, facts);
            }
            if !self.works.contains_key(token) {
                // Begun without having been made: told once, then followed like any other.
                let doubtful = self.may_have_missed(from) || self.may_have_missed(from.other());
                self.token_slip(facts, SlipKind::ProgressUnknown, from, token, Vec::new(), doubtful);
                self.token_created(from, message, facts);
            }
        }
        let now = self.now;
        let Some(work) = self.works.get_mut(token) else { return };
        work.last_at = now.at;
        work.reports += 1;
        match kind {
            Some("begin") => {
                work.begun.get_or_insert(now);
            }
            Some("end") => {
                if let Some(work) = self.works.remove(token) {
                    self.tokens[from.other() as usize].closed(token, now, false, carrier);
                    self.work_over(token, work, TokenEnd::Ended, Some(now), now.at, facts);
                }
            }
            _ => {}
        }
    }

    pub(super) fn work_over(
        &mut self,
        token: &str,
        work: Work,
        end: TokenEnd,
        at: Option<Mark>,
        until: Micros,
        facts: &mut Vec<Fact>,
    ) {
        if let Some(cancel) = work.cancel {
            let settled = if end == TokenEnd::Ended { CancelEnd::Acknowledged } else { CancelEnd::Silent };
            facts.push(Fact::Cancel(Cancel {
                seq: cancel.seq,
                at: cancel.at,
                end: settled,
                settled: at,
                request_seq: Some(work.opened.seq),
                ..self.cancel_fact(work.opened_by.other(), CancelOf::Token, token.to_string())
            }));
        }
        facts.push(Fact::Token(Token {
            opened_by: work.opened_by,
            name: token.to_string(),
            dialect: self.spoken.dialect,
            opened_seq: work.begun.unwrap_or(work.opened).seq,
            opened_at: work.opened.at,
            closed_at: at.map(|at| at.at),
            end,
            reports: work.reports,
            quiet: until - work.last_at,
            doubtful: self.gap[work.opened_by as usize].is_some_and(|gap| gap > work.opened.seq),
        }));
    }

    /// LSP's `window/workDoneProgress/cancel`: no reply is owed.
    pub(super) fn cancel_token(&mut self, from: Side, message: &Message, facts: &mut Vec<Fact>) {
        let token = message.marks.raw(Place::Token).unwrap_or_default();
        let now = self.now;
        if let Some(work) = self.works.get_mut(token)
            && work.cancel.is_none()
        {
            work.cancel = Some(now);
            return;
        }
        let mut cancel = self.cancel_fact(from, CancelOf::Token, token.to_string());
        cancel.target = if token.is_empty() {
            CancelTarget::Nothing
        } else if self.works.contains_key(token) {
            CancelTarget::Duplicate
        } else if self.tokens[from as usize].find(token).is_some() {
            CancelTarget::Finished
        } else if self.pending[from as usize].by_token.contains_key(token) {
            // The token of an own request: its own cancel would be the way, but it means something.
            return;
        } else {
            CancelTarget::Unknown
        };
        cancel.doubtful = self.may_have_missed(from.other()) || !self.knows.payload;
        facts.push(Fact::Cancel(cancel));
    }
}

/// `3` for `"3"` and the other way round: some clients write the token of a request either way.
fn other_writing(token: &str) -> Option<String> {
    match token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.parse::<i64>().ok().map(|_| inner.to_string()),
        None => token.parse::<i64>().ok().map(|_| format!("\"{token}\"")),
    }
}
