//! What HTTP carries twice, and is one message all the same.
//!
//! A POST that was answered with a redirect is sent again to where that points; a POST that HTTP refused (no
//! credentials yet, too many at once) is sent again as it was, id and all; and a stream that is taken up again
//! delivers events that had been on their way. None of these is a second request.

use std::collections::VecDeque;

use crate::event::Side;
use crate::rpc::{Id, Kind, Message};

use super::fact::{Fact, Mark};
use super::fold::Fold;
use super::ids::UsedIds;
use super::pending::{Open, Slot};
use super::{CancelEnd, Outcome};

/// Redirects that nobody has followed yet; a client follows at once or not at all.
const MOST_REDIRECTED: usize = 16;
/// Requests that were delivered again, whose second answer is no fault.
const MOST_REDELIVERED: usize = 256;

#[derive(Debug, Default)]
pub struct Twice {
    redirected: VecDeque<Redirected>,
    /// The ids of events that brought a message.
    events: UsedIds,
    redelivered: VecDeque<Id>,
}

#[derive(Debug)]
struct Redirected {
    side: Side,
    slot: Slot,
    seq: u64,
    status: u16,
    at: Mark,
}

impl Fold {
    /// The answer to the POST of a request was a redirect: the request goes on elsewhere, or ends with that.
    pub(super) fn redirected(&mut self, side: Side, slot: Slot, status: u16, facts: &mut Vec<Fact>) {
        let Some(open) = self.pending[side as usize].get(slot) else { return };
        self.twice.redirected.push_back(Redirected { side, slot, seq: open.seq, status, at: self.now });
        if self.twice.redirected.len() > MOST_REDIRECTED {
            self.give_up_redirected(MOST_REDIRECTED, facts);
        }
    }

    /// Nobody followed: all but the latest `kept` were answered by HTTP, with the redirect.
    pub(super) fn give_up_redirected(&mut self, kept: usize, facts: &mut Vec<Fact>) {
        while self.twice.redirected.len() > kept
            && let Some(Redirected { side, slot, seq, status, at }) = self.twice.redirected.pop_front()
        {
            if self.pending[side as usize].get(slot).is_none_or(|open| open.seq != seq) {
                continue;
            }
            if let Some(open) = self.pending[side as usize].remove(slot) {
                let now = std::mem::replace(&mut self.now, at);
                self.close(open, Outcome::Failed, Some(at), Some(i64::from(status)), CancelEnd::Moot, facts);
                self.recent[side as usize].latest_was_refused();
                self.now = now;
            }
        }
    }

    /// Is this the request that was redirected a moment ago? Then that one ends here, and is this one; its
    /// generation is told.
    pub(super) fn follows_redirect(&mut self, new: &Open) -> Option<u32> {
        let slot = self.pending[new.asker as usize].newest(&new.id)?;
        let earlier = self.pending[new.asker as usize].get(slot)?;
        let same = earlier.method == new.method && earlier.print == new.print && earlier.cancel.is_none();
        let known = self.twice.redirected.iter().position(|known| known.seq == earlier.seq);
        let told =
            known.is_some() || self.status_of(earlier.carrier).is_some_and(|status| (300..400).contains(&status));
        if !(same && told && new.carrier.is_some() && new.carrier != earlier.carrier) {
            return None;
        }
        if let Some(known) = known {
            self.twice.redirected.remove(known);
        }
        let earlier = self.pending[new.asker as usize].remove(slot)?;
        self.series.closed(Fold::track(earlier.asker), earlier.at, self.now.at);
        self.names.rows[earlier.row as usize].count -= 1;
        self.forget_handshake(earlier.seq);
        Some(earlier.generation)
    }

    /// HTTP did not let this `initialize` through: the next one is the first.
    pub(super) fn forget_handshake(&mut self, seq: u64) {
        if self.handshake.asked.is_some_and(|asked| asked.seq == seq) {
            self.handshake.asked = None;
        }
    }

    /// HTTP refused the request that last had this id, or is about to: no server took it.
    pub(super) fn was_refused(&self, open: &Open) -> bool {
        let pending = &self.pending[open.asker as usize];
        match pending.newest(&open.id).and_then(|slot| pending.get(slot)) {
            Some(earlier) => self.status_of(earlier.carrier).is_some_and(|status| status >= 300),
            None => self.recent[open.asker as usize].find(&open.id).is_some_and(|closed| closed.refused),
        }
    }

    /// The next message on this carrier stands in the event of this id.
    pub(super) fn stream_event(&mut self, carrier: Option<u64>, id: &str) {
        if let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) {
            carrier.event = Some(Id::Text(id.into()));
            carrier.names_events = true;
        }
    }

    /// A request or a notification that had come before, on the stream that this one takes up. Answers have ways of
    /// their own to be known again.
    pub(super) fn comes_again(&mut self, from: Side, message: &Message, carrier: Option<u64>) -> bool {
        let Some(carrier) = carrier.and_then(|carrier| self.carriers.get_mut(&carrier)) else { return false };
        if from != Side::Server {
            return false;
        }
        // The items of a batch stand in one event.
        if message.batch_index.is_none_or(|index| index == 0) {
            carrier.redelivers = match carrier.event.take() {
                Some(event) => !self.twice.events.insert(&event) && carrier.resumes,
                None => false,
            };
        }
        match message.kind {
            Kind::Notification => carrier.redelivers,
            Kind::Request => {
                // Without ids on its events a stream that resumes may repeat whatever was asked before.
                let may_repeat = carrier.redelivers || (carrier.resumes && !carrier.names_events);
                let id = message.id.as_ref().map(Id::canonical).filter(|_| may_repeat);
                let Some(id) = id.filter(|id| self.used[Side::Server as usize].contains(id)) else { return false };
                if self.twice.redelivered.len() == MOST_REDELIVERED {
                    self.twice.redelivered.pop_front();
                }
                self.twice.redelivered.push_back(id);
                true
            }
            _ => false,
        }
    }

    /// A client that got the request twice may answer twice.
    pub(super) fn was_redelivered(&self, asker: Side, id: &Id) -> bool {
        asker == Side::Server && self.twice.redelivered.contains(id)
    }
}
