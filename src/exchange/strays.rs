//! Responses that fit no open request: without an id, a second time, before their request, or to nothing at all.

use crate::event::{Micros, Side};
use crate::rpc::{Id, Kind, Mark as Place, Message};

use super::fact::{Fact, Slip, SlipKind};
use super::fold::Fold;
use super::pending::Slot;

/// JSON-RPC: the message could not be read, or was no request.
const NOT_A_REQUEST: [f64; 2] = [-32700.0, -32600.0];
/// Answers kept for requests of the same moment. One batch of a log with a coarse clock is seldom longer.
const MOST_EARLY: usize = 1024;

/// On HTTP an answer may come on another connection than its request, and that the request is missing from a capture
/// shows on its own connection: in its acknowledgement, which may be put off for half a second.
const LATEST_LOSS: Micros = 1_000_000;

/// An answer to nothing seen so far. Logs with coarse or merged clocks may put it before its request, at the same
/// time: only when time moves on does it belong to nothing.
#[derive(Debug)]
pub struct Early {
    asker: Side,
    id: Id,
    message: Message,
    slip: Slip,
}

impl Fold {
    pub(super) fn answer_without_id(
        &mut self,
        from: Side,
        message: &Message,
        carrier: Option<u64>,
        facts: &mut Vec<Fact>,
    ) {
        let asker = from.other();
        self.carrier_answered(carrier);
        let invalid = |code: Option<f64>| code.is_some_and(|code| NOT_A_REQUEST.contains(&code));
        if let Some(about) = self.unreadable[asker as usize].take()
            && message.kind == Kind::Error
        {
            // It answers what could not be read; a request with an impossible id is over with it.
            let broken = self.pending[asker as usize]
                .iter()
                .find(|open| open.seq == about.seq && matches!(open.id, Id::Invalid(_) | Id::Null));
            if let Some(id) = broken.map(|open| open.id.clone())
                && let Some(slot) = self.pending[asker as usize].newest(&id)
            {
                self.settle_answer(asker, slot, message, facts);
            }
            return;
        }
        if message.kind == Kind::Error && self.refused(carrier) {
            return self.refusal(asker, message, carrier, facts);
        }
        // On HTTP the connection tells which request an error without an id belongs to.
        if let Some(slot) = self.only_request_on(carrier, asker) {
            self.slip(facts, SlipKind::ErrorWithoutId, from, None, String::new());
            return self.settle_answer(asker, slot, message, facts);
        }
        let code = message.marks.number(Place::ErrorCode);
        let after_notification = self.last_notification[asker as usize]
            .as_ref()
            .filter(|(mark, ..)| self.last_message[asker as usize].is_some_and(|last| last.seq == mark.seq))
            .filter(|(.., its)| *its == carrier);
        let missed = self.may_have_missed(asker);
        match after_notification {
            Some((mark, name, _)) if !invalid(code) => facts.push(Fact::Slip(Slip {
                kind: SlipKind::ReplyToNotification,
                by: from,
                seq: self.now.seq,
                at: self.now.at,
                dialect: self.spoken.dialect,
                method: Some(name.clone()),
                tool: None,
                subject: name.to_string(),
                also: vec![mark.seq],
                on_http: carrier.is_some(),
                doubtful: missed,
            })),
            _ => self.slip(facts, SlipKind::ErrorWithoutId, from, None, String::new()),
        }
    }

    /// HTTP refused what came on this carrier, and the body says why: with no id, or with one of its own where the
    /// server had not read that far. It is about the request on this carrier; or about what has no id, or is no
    /// message at all.
    pub(super) fn refusal(&mut self, asker: Side, message: &Message, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        self.carrier_answered(carrier);
        let Some(slot) = self.only_request_on(carrier, asker) else { return };
        if !self.is_swept_away(asker, slot, carrier) {
            self.settle_answer(asker, slot, message, facts);
        }
    }

    pub(super) fn answer_to_nothing(
        &mut self,
        from: Side,
        id: &Id,
        message: &Message,
        carrier: Option<u64>,
        facts: &mut Vec<Fact>,
    ) {
        let asker = from.other();
        let redelivered = self.carrier_resumes(carrier);
        let closed = self.recent[asker as usize].find(id).cloned();
        let used = closed.is_some() || self.used[asker as usize].contains(id);
        self.carrier_answered(carrier);
        if used && (redelivered || self.was_redelivered(asker, id)) {
            return;
        }
        let mut slip = Slip {
            kind: SlipKind::ResponseUnknown,
            by: from,
            seq: self.now.seq,
            at: self.now.at,
            dialect: self.spoken.dialect,
            method: None,
            tool: None,
            subject: id.to_string(),
            also: Vec::new(),
            on_http: carrier.is_some(),
            doubtful: false,
        };
        if used {
            slip.kind = SlipKind::DuplicateResponse;
            if let Some(closed) = closed {
                if closed.many_answers {
                    slip.kind = SlipKind::StreamAfterFinal;
                }
                slip.method = Some(closed.method);
                slip.tool = closed.tool;
                slip.also = vec![closed.seq, closed.closed_seq];
            }
            // After a gap the id may have been asked again unseen.
            slip.doubtful = self.gap[asker as usize].is_some() && !self.spoken.dialect.ids_are_used_up();
            return self.keep_early(Early { asker, id: id.clone(), message: message.clone(), slip }, facts);
        }
        if asker == Side::Server && self.spoken.dialect.is_modern_mcp() && !self.spoken.shook_hands {
            slip.kind = SlipKind::WrongDirection;
        }
        slip.doubtful = self.gap[asker as usize].is_some() || self.could_be_from_before(asker, id);
        // It may be an answer to what the server asked another client.
        slip.doubtful |= from == Side::Client && self.many_clients(carrier);
        self.keep_early(Early { asker, id: id.clone(), message: message.clone(), slip }, facts);
    }

    fn keep_early(&mut self, early: Early, facts: &mut Vec<Fact>) {
        if self.early.len() < MOST_EARLY {
            self.early.push(early);
        } else {
            facts.push(Fact::Slip(early.slip));
        }
    }

    /// Time has moved on: what came early belonged to nothing.
    pub(super) fn give_up_on_early(&mut self, now: Micros, facts: &mut Vec<Fact>) {
        let mut kept = Vec::new();
        for early in std::mem::take(&mut self.early) {
            let unsure = early.slip.on_http && !early.slip.doubtful && self.unsure.len() < MOST_EARLY;
            if early.slip.at >= now {
                kept.push(early);
            } else if unsure {
                self.unsure.push_back(early.slip);
            } else {
                facts.push(Fact::Slip(early.slip));
            }
        }
        self.early = kept;
    }

    /// By now a loss that explains it would have been told.
    pub(super) fn give_up_on_unsure(&mut self, now: Micros, facts: &mut Vec<Fact>) {
        let due = |slip: &Slip| slip.at < now.saturating_sub(LATEST_LOSS);
        while self.unsure.front().is_some_and(due)
            && let Some(slip) = self.unsure.pop_front()
        {
            facts.push(Fact::Slip(slip));
        }
    }

    /// Something that this side said is missing: it may have been the request of an answer that fits none.
    pub(super) fn doubt_strays(&mut self, side: Side) {
        let used_up = self.spoken.dialect.ids_are_used_up();
        let early = self.early.iter_mut().map(|early| &mut early.slip);
        for slip in early.chain(self.unsure.iter_mut()).filter(|slip| slip.by != side) {
            slip.doubtful |= slip.kind == SlipKind::ResponseUnknown || !used_up;
        }
    }

    /// A request whose answer stands before it, at the same time.
    pub(super) fn answer_from_before(&mut self, asker: Side, slot: Slot, facts: &mut Vec<Fact>) {
        let Some(id) = self.pending[asker as usize].get(slot).map(|open| open.id.clone()) else { return };
        let Some(place) = self.early.iter().position(|early| early.asker == asker && early.id == id) else { return };
        let early = self.early.swap_remove(place);
        if !self.goes_on(asker, slot, &early.message, facts) {
            self.settle_answer(asker, slot, &early.message, facts);
        }
    }

    /// The request may have been sent before the recording began.
    pub(super) fn could_be_from_before(&self, asker: Side, id: &Id) -> bool {
        if !self.may_have_begun_late() {
            return false;
        }
        let early = self.first.is_some_and(|first| self.now.at - first.at <= self.deadline()) || !self.knows.times;
        match (id, self.used[asker as usize].least) {
            (Id::Int(int), Some(least)) => *int < least,
            _ => early,
        }
    }
}
