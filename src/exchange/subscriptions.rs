//! Subscriptions of MCP 2026-07-28: a request that stays open, and the notices that name it by its id.

use crate::event::Side;
use crate::protocol::Role;
use crate::rpc::{Id, Mark as Place, Message};

use super::fact::{Fact, SlipKind};
use super::fold::Fold;

impl Fold {
    /// MCP 2026-07-28: the subscription stands.
    pub(super) fn listen_acknowledged(&mut self, from: Side, message: &Message, facts: &mut Vec<Fact>) {
        self.subscription(from, message, true, facts);
    }

    pub(super) fn subscription_notice(&mut self, from: Side, message: &Message, facts: &mut Vec<Fact>) {
        self.subscription(from, message, false, facts);
    }

    fn subscription(&mut self, from: Side, message: &Message, acknowledges: bool, facts: &mut Vec<Fact>) {
        let Some(raw) = message.marks.raw(Place::ParamSubscription) else { return };
        let asker = from.other();
        let id = Id::from_raw(raw);
        let missed = self.may_have_missed(asker);
        let pending = &mut self.pending[asker as usize];
        let strict = pending.newest(&id.canonical());
        let slot = strict.or_else(|| pending.find_loosely(&id, None).map(|(slot, _)| slot));
        let kind = match slot.and_then(|slot| pending.get_mut(slot)).filter(|open| open.role == Role::Listen) {
            None if missed => return,
            None => SlipKind::SubscriptionUnknown,
            Some(_) if strict.is_none() => SlipKind::IdTypeMismatch,
            Some(open) if acknowledges => {
                open.acknowledged = true;
                return;
            }
            Some(open) if !open.acknowledged => SlipKind::SubscriptionBeforeAcknowledged,
            Some(_) => return,
        };
        self.slip(facts, kind, from, message.method.clone(), raw.to_string());
    }
}
