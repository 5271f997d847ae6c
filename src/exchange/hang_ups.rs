//! Clients that close HTTP exchanges: to give up one request, or because they go.
//!
//! A client that exits or is killed closes everything it has open at once, and nothing comes from it after that. Then
//! its open requests are lost with it; they were not given up one by one.

use super::fact::Mark;
use super::fold::{End, Fold};

#[derive(Debug, Default)]
pub struct HangUps {
    /// The last message of the client, or exchange it opened.
    last_act: u64,
    /// The first exchange that the client closed with a request open on it, and the last that it closed at all.
    first: Option<Mark>,
    last: Option<Mark>,
    /// The last exchange that ended otherwise: the client was there.
    ended_otherwise: u64,
    /// The last that broke under a request: the server was not there.
    broke: Option<Mark>,
}

impl HangUps {
    pub fn client_acts(&mut self, now: Mark) {
        self.last_act = now.seq;
    }

    pub fn broke(&mut self, now: Mark) {
        self.broke = Some(now);
    }

    pub fn closed(&mut self, by_client: bool, owed: bool, deletes: bool, now: Mark) {
        if by_client {
            self.last = Some(now);
            if owed {
                self.first.get_or_insert(now);
            }
        } else if !deletes {
            self.ended_otherwise = now.seq;
        }
    }
}

impl Fold {
    /// It hung up because the server had died just before.
    pub(super) fn server_died_before(&self, left: Mark) -> bool {
        self.hang_ups.broke.is_some_and(|broke| broke.seq < left.seq && left.at - broke.at <= self.race_window())
    }

    /// The client hung up on a request then. Did it hang up on everything, for good?
    pub(super) fn client_went(&self, left: Mark, end: End) -> bool {
        let at_once = |mark: Mark| (mark.at - left.at).abs() <= self.race_window();
        let HangUps { last_act, first, last, ended_otherwise, .. } = self.hang_ups;
        let no_more_than_leave = match end {
            End::No => true,
            End::ByClient(mark) => at_once(mark),
            End::ByServer(_) => false,
        };
        no_more_than_leave
            && self.knows.times
            && self.knows.ends
            && self.carriers.is_empty()
            && last_act < left.seq
            && ended_otherwise < left.seq
            && first.is_some_and(at_once)
            && last.is_some_and(at_once)
    }
}
