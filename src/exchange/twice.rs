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
use super::open::Open;
use super::pending::Slot;
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
        let carrier = new.carrier?;
        let pending = &self.pending[new.asker as usize];
        let same = |earlier: &Open| {
            earlier.id == new.id
                && earlier.method == new.method
                && earlier.print == new.print
                && earlier.rare().cancel.is_none()
                && earlier.carrier != Some(carrier)
        };
        let known = self.twice.redirected.iter().position(|known| {
            known.side == new.asker && pending.get(known.slot).is_some_and(|open| open.seq == known.seq && same(open))
        });
        let slot = match known.and_then(|known| self.twice.redirected.remove(known)) {
            Some(known) => known.slot,
            // The end of the redirect's body may still be on its way.
            None => pending.newest(&new.id).filter(|slot| {
                let on_its_way = |open: &Open| matches!(self.status_of(open.carrier), Some(300..400));
                pending.get(*slot).is_some_and(|open| same(open) && on_its_way(open))
            })?,
        };
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

#[cfg(test)]
mod tests {
    use crate::finding::{Options, check, judge_talk};

    #[test]
    fn alike_requests_on_their_way_round_are_each_one() {
        let ask = |carrier: u64| format!("#{carrier} |opened POST /mcp|\n #{carrier} -> 1 tools/list\n");
        let redirect = |carrier: u64| format!("#{carrier} |head 307|\n #{carrier} |closed by server|\n");
        let answer =
            |carrier: u64| format!("#{carrier} |head 200|\n #{carrier} <- 1 result\n #{carrier} |closed by server|\n");
        // The third is sent on before its redirect is over.
        let talk = [
            "protocol mcp-2026-07-28\n".to_string(),
            ask(1) + &ask(2) + &redirect(1) + &redirect(2) + &ask(3) + &ask(4) + &answer(3) + &answer(4),
            ask(5) + "#5 |head 308|\n" + &ask(6) + "#5 |closed by server|\n" + &answer(6),
        ]
        .concat();
        check(&talk);
        let talk = crate::event::transcript::parse(&talk).expect("a conversation");
        let (judged, _) = judge_talk(&talk, &Options::default());
        assert_eq!((judged.requests(), judged.methods[0].count), (3, 3));
    }

    #[test]
    fn redirects_that_nobody_follows_do_not_pile_up() {
        let mut talk = String::from("protocol mcp-2025-06-18\n");
        for n in 1..100 {
            talk += &format!("+1s #{n} |opened POST /mcp Mcp-Session-Id: a|\n #{n} -> {n} tools/list\n");
            talk += &format!("#{n} |head 301|\n #{n} |closed by server|\n = {n} failed\n");
        }
        check(&talk);
    }
}
