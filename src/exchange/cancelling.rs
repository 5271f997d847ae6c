//! A cancel arrives: what it names, and what may come of it.

use crate::event::Side;
use crate::protocol::{Dialect, Role};
use crate::rpc::{Id, Mark as Place, Message, Oddity};

use super::fact::{Fact, Mark, SlipKind};
use super::fold::Fold;
use super::open::CancelNote;
use super::pending::Slot;
use super::{Cancel, CancelEnd, CancelOf, CancelTarget, Outcome};

impl Fold {
    pub(super) fn cancel_request(
        &mut self,
        from: Side,
        message: &Message,
        place: Place,
        carrier: Option<u64>,
        facts: &mut Vec<Fact>,
    ) {
        let unreadable = !self.knows.payload || message.oddities.has(Oddity::PayloadCut);
        let id = message.marks.raw(place).map(|raw| Id::from_raw(raw).canonical());
        let mut cancel = self.cancel_fact(from, CancelOf::Request, String::new());
        cancel.on_http = carrier.is_some();
        let id = match id {
            Some(id) if !matches!(id, Id::Null | Id::Invalid(_)) => id,
            other => {
                cancel.named = other.map(|id| id.to_string()).unwrap_or_default();
                cancel.target = CancelTarget::Nothing;
                cancel.doubtful = unreadable;
                return facts.push(Fact::Cancel(cancel));
            }
        };
        cancel.named = id.to_string();
        let own = &self.pending[from as usize];
        let many_clients = self.many_clients(carrier);
        if many_clients && own.several(&id) {
            // Whose request it means cannot be told; that this is no way to cancel can.
            if self.spoken.dialect.is_modern_mcp() {
                cancel.target = CancelTarget::Forbidden;
            }
            cancel.doubtful = true;
            cancel.end = CancelEnd::Undecided;
            return facts.push(Fact::Cancel(cancel));
        }
        let mut found = own.newest(&id);
        if found.is_none()
            && !self.used[from as usize].contains(&id)
            && let Some((slot, rounded)) = own.find_loosely(&id, None)
            && !rounded
        {
            found = Some(slot);
            if let Some(open) = own.get(slot) {
                let mut slip = self.slip_about(SlipKind::IdTypeMismatch, from, open);
                slip.subject = format!("{id} for {}", open.id);
                slip.also = vec![open.seq];
                facts.push(Fact::Slip(slip));
            }
        }
        if found.is_none()
            && let Some(open) = self.recall(from, &id)
        {
            return self.cancel_recalled(open, CancelOf::Request);
        }
        match found {
            Some(slot) => self.cancel_open(from, slot, cancel, carrier, facts),
            None => {
                cancel.doubtful = many_clients;
                self.cancel_closed(from, &id, cancel, facts);
            }
        }
    }

    fn cancel_open(&mut self, from: Side, slot: Slot, mut cancel: Cancel, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        let Some(open) = self.pending[from as usize].get(slot) else { return };
        let dialect = self.dialect_of(open);
        let row = &self.names.rows[open.row as usize];
        cancel.method = Some(row.method.clone());
        cancel.tool = row.tool.clone();
        cancel.dialect = dialect;
        cancel.request_seq = Some(open.seq);
        if open.rare().cancel.is_some() {
            cancel.target = CancelTarget::Duplicate;
            return facts.push(Fact::Cancel(cancel));
        }
        let over_http = dialect.is_modern_mcp() && (carrier.is_some() || open.carrier.is_some());
        if (dialect.is_legacy_mcp() && open.role == Role::Initialize) || over_http {
            cancel.target = CancelTarget::Forbidden;
            facts.push(Fact::Cancel(cancel.clone()));
        }
        // Also a forbidden cancel may be heeded: what comes after it is seen in its light.
        self.mark_cancelled(from, slot, CancelOf::Request);
    }

    /// From here on the request counts as cancelled; where nobody waits after a cancel, the wait is over.
    pub(super) fn mark_cancelled(&mut self, asker: Side, slot: Slot, of: CancelOf) {
        let now = self.now;
        let Some(open) = self.pending[asker as usize].get(slot) else { return };
        let (dialect, opened_at) = (self.dialect_of(open), open.at);
        if self.ends_the_wait(dialect) {
            self.series.closed(Fold::track(asker), opened_at, now.at);
        }
        if let Some(rare) = self.pending[asker as usize].rare_mut(slot) {
            rare.cancel = Some(CancelNote { seq: now.seq, at: now.at, of });
        }
    }

    fn cancel_closed(&mut self, from: Side, id: &Id, mut cancel: Cancel, facts: &mut Vec<Fact>) {
        if let Some(closed) = self.recent[from as usize].find(id) {
            cancel.method = Some(closed.method.clone());
            cancel.tool = closed.tool.clone();
            cancel.request_seq = Some(closed.seq);
            cancel.settled = Some(Mark { seq: closed.closed_seq, at: closed.closed_at });
            cancel.too_late_by = self.knows.times.then_some(self.now.at - closed.closed_at);
            let task = closed.outcome == Outcome::BecameTask && cancel.dialect.is_mcp();
            let forbidden = task || (closed.initialize && cancel.dialect.is_legacy_mcp());
            cancel.target = match closed.outcome {
                _ if forbidden => CancelTarget::Forbidden,
                outcome if outcome.was_cancelled() => CancelTarget::Duplicate,
                _ => CancelTarget::Finished,
            };
            return facts.push(Fact::Cancel(cancel));
        }
        if self.used[from as usize].contains(id) {
            cancel.target = CancelTarget::Finished;
            return facts.push(Fact::Cancel(cancel));
        }
        let theirs = self.pending[from.other() as usize].newest(id);
        if let Some(slot) = theirs {
            let listens = self.pending[from.other() as usize].get(slot).is_some_and(|open| open.role == Role::Listen);
            if listens && from == Side::Server {
                // One of the two ways in which a server ends a subscription.
                return self.end_listening(slot, facts);
            }
            cancel.target = CancelTarget::WrongDirection;
            cancel.request_seq = self.pending[from.other() as usize].get(slot).map(|open| open.seq);
        } else {
            cancel.target = CancelTarget::Unknown;
        }
        cancel.doubtful |= self.gap[from as usize].is_some() || self.could_be_from_before(from, id);
        facts.push(Fact::Cancel(cancel));
    }

    fn end_listening(&mut self, slot: Slot, facts: &mut Vec<Fact>) {
        if let Some(open) = self.pending[Side::Client as usize].remove(slot) {
            self.close(open, Outcome::Answered, Some(self.now), None, CancelEnd::Moot, facts);
        }
    }

    /// ACP: `session/cancel` names a session; what runs in it is to stop.
    pub(super) fn cancel_session(&mut self, from: Side, message: &Message, facts: &mut Vec<Fact>) {
        let Some(session) = message.marks.raw(Place::ParamSession) else {
            let mut cancel = self.cancel_fact(from, CancelOf::Session, String::new());
            cancel.target = CancelTarget::Nothing;
            cancel.doubtful = !self.knows.payload || message.oddities.has(Oddity::PayloadCut);
            return facts.push(Fact::Cancel(cancel));
        };
        let session: Box<str> = session.into();
        let mut cancel = self.cancel_fact(from, CancelOf::Session, session.to_string());
        let running =
            self.turns.get(&session).copied().filter(|(asker, slot, seq)| {
                self.pending[*asker as usize].get(*slot).is_some_and(|open| open.seq == *seq)
            });
        match running {
            Some((asker, slot, _)) => {
                let (seq, row, again) = match self.pending[asker as usize].get(slot) {
                    Some(open) => (open.seq, open.row, open.rare().cancel.is_some()),
                    None => return,
                };
                if again {
                    cancel.target = CancelTarget::Duplicate;
                    cancel.request_seq = Some(seq);
                    cancel.method = Some(self.names.rows[row as usize].method.clone());
                    facts.push(Fact::Cancel(cancel));
                } else {
                    self.mark_cancelled(asker, slot, CancelOf::Session);
                }
            }
            None if self.spoken.dialect == Dialect::Acp2 && self.tasks.cancel_turn(&session, self.now) => {}
            None => {
                let known = self.turns.contains_key(&session);
                cancel.target = if known { CancelTarget::Finished } else { CancelTarget::Unknown };
                cancel.doubtful = self.may_have_missed(from);
                facts.push(Fact::Cancel(cancel));
            }
        }
    }

    pub(super) fn cancel_fact(&self, from: Side, of: CancelOf, named: String) -> Cancel {
        Cancel {
            sent_by: from,
            of,
            seq: self.now.seq,
            at: self.now.at,
            named,
            target: CancelTarget::Open,
            end: CancelEnd::Moot,
            method: None,
            tool: None,
            dialect: self.spoken.dialect,
            request_seq: None,
            settled: None,
            too_late_by: None,
            on_http: false,
            doubtful: false,
        }
    }
}
