//! The session is judged: what became of everything that is still open.
//!
//! A recording that just stops proves nothing against what is open in it, unless requests were visibly given up one
//! after another. Where the session ended, it matters who ended it, and how long a request had been waiting then.

use crate::event::{Micros, Party, Side};
use crate::protocol::Role;
use crate::rpc::Id;

use super::examples::{Example, Telling};
use super::fact::{Cause, Exchange, Fact, Mark, MovedOn, Sign};
use super::fold::Fold;
use super::hash::Map;
use super::leavings::WorksLeft;
use super::open::{Left, Open};
use super::pending::Slot;
use super::tasks::TasksLeft;
use super::{Cancel, CancelEnd, CancelTarget, Outcome};

/// A next request sooner than this is rather a second call beside the first than a second try.
const SHORTEST_PATIENCE: Micros = 50_000;
/// A client that waits for each answer must have left this much time before it counts as having gone on.
const SHORTEST_WAIT: Micros = 250_000;

/// Who ended the session, when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    No,
    ByClient(Mark),
    /// It ended, closed its output or died before the client closed.
    ByServer(Mark),
}

impl End {
    pub(super) fn mark(self) -> Option<Mark> {
        match self {
            End::No => None,
            End::ByClient(mark) | End::ByServer(mark) => Some(mark),
        }
    }
}

/// How many facts are told before they are heard.
pub(super) const FACTS_AT_A_TIME: usize = 1024;

/// How far a session that is being judged has been told.
pub struct Finish {
    pub as_of: Micros,
    pub(super) end: End,
    habits: [Habit; 2],
    /// The server's own open requests, oldest first.
    roots: Vec<(u64, Id)>,
    /// Those that were let go, which are older than all that is open; oldest first.
    let_go: Telling<Open>,
    /// Oldest first.
    open: std::vec::IntoIter<(u64, Slot, Side)>,
    pub(super) works: Option<WorksLeft>,
    pub(super) tasks: Option<TasksLeft>,
    pub(super) streams: Option<std::vec::IntoIter<(u64, Carried)>>,
    /// The HTTP exchanges that are still open, and what became of the requests on them.
    pub(super) carried: Map<u64, Carried>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    pub(super) unanswered: u64,
    pub(super) outlives_a_cancel: bool,
}

/// What one side does about requests that are not answered.
#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    /// It sends the next request after this time, again and again.
    interval: Option<Micros>,
    /// Of which method and tool the first of that row was.
    row: u32,
    /// It waits for each answer, as far as was seen.
    waits: bool,
    /// How many requests look given up.
    given_up: u32,
}

impl Fold {
    pub fn end(&self) -> End {
        match (self.ends.client, self.ends.server) {
            (Some(client), Some(server)) if server.seq < client.seq => End::ByServer(server),
            (Some(client), _) => End::ByClient(client),
            (None, Some(server)) => End::ByServer(server),
            (None, None) => End::No,
        }
    }

    pub(super) fn long_enough_to_give_up(&self, gap: Micros) -> bool {
        gap >= SHORTEST_PATIENCE.max(self.round_trips.median().unwrap_or(0) * 2)
    }

    /// Tells what became of everything that is open, all at once.
    pub fn finish(&mut self, as_of: Option<Micros>, facts: &mut Vec<Fact>) -> Micros {
        let mut finish = self.begin_to_finish(as_of, facts);
        while self.finish_some(&mut finish, facts) {}
        finish.as_of
    }

    /// Begins to tell what became of everything that is open, as of a moment not before the last event.
    pub fn begin_to_finish(&mut self, as_of: Option<Micros>, facts: &mut Vec<Fact>) -> Finish {
        let as_of = as_of.unwrap_or(self.now.at).max(self.now.at);
        self.give_up_on_early(Micros::MAX, facts);
        self.give_up_redirected(0, facts);
        self.give_up_on_unsure(Micros::MAX, facts);
        let end = self.end();
        self.session_over(as_of, facts);
        let habits = [self.habit(Side::Client, end), self.habit(Side::Server, end)];
        let mut roots: Vec<(u64, Id)> = self.pending[Side::Server as usize]
            .iter()
            .filter(|open| open.rare().cancel.is_none())
            .map(|open| (open.seq, open.id.clone()))
            .collect();
        let asked_by_server = |example: &&Example<Open>| {
            example.one.asker == Side::Server && example.stands_for > 0 && example.one.rare().cancel.is_none()
        };
        let let_go = self.let_go.examples.all.iter().filter(asked_by_server);
        roots.extend(let_go.map(|example| (example.one.seq, example.one.id.clone())));
        roots.sort_unstable();
        let mut open: Vec<(u64, Slot, Side)> = Vec::with_capacity(self.open_requests());
        for side in [Side::Client, Side::Server] {
            open.extend(self.pending[side as usize].all().map(|(seq, slot)| (seq, slot, side)));
        }
        open.sort_unstable_by_key(|(seq, ..)| *seq);
        self.series.reached(as_of);
        let carried = self.carriers.keys().map(|carrier| (*carrier, Carried::default())).collect();
        Finish {
            as_of,
            end,
            habits,
            roots,
            let_go: self.let_go.examples.tell(),
            open: open.into_iter(),
            works: None,
            tasks: None,
            streams: None,
            carried,
        }
    }

    /// Tells some more of it; says whether there is still more. What is open may be a million requests: their facts
    /// are heard as they come, and never stand beside each other.
    pub fn finish_some(&mut self, finish: &mut Finish, facts: &mut Vec<Fact>) -> bool {
        for _ in 0..FACTS_AT_A_TIME {
            let settled = if let Some(open) = finish.let_go.next() {
                if open.rare().cancel.is_none() || !self.ends_the_wait(self.dialect_of(&open)) {
                    self.series.opened_about(Fold::track(open.asker), open.at);
                }
                self.settle_open(&open, finish, finish.habits[open.asker as usize], facts)
            } else {
                let Some((_, slot, side)) = finish.open.next() else { return self.finish_rest(finish, facts) };
                let Some(open) = self.pending[side as usize].remove(slot) else { continue };
                self.settle_open(&open, finish, finish.habits[side as usize], facts)
            };
            if let Some(carried) = settled.carrier.and_then(|carrier| finish.carried.get_mut(&carrier)) {
                carried.unanswered += u64::from(settled.outcome.never_closed());
                carried.outlives_a_cancel |= settled.outcome == Outcome::CancelledSilent
                    && settled.waited > self.race_window()
                    && !settled.doubtful;
            }
            facts.push(Fact::Exchange(settled));
        }
        true
    }

    fn habit(&self, side: Side, end: End) -> Habit {
        let mut candidates: Vec<&Open> = self.pending[side as usize]
            .iter()
            .filter(|open| self.may_be_given_up(open) && end.mark().is_none_or(|mark| open.seq < mark.seq))
            .collect();
        candidates.sort_unstable_by_key(|open| open.seq);
        let mut habit =
            Habit { waits: self.overlapped[side as usize] == 0 && self.waited[side as usize] >= 2, ..Habit::default() };
        if self.knows.times {
            // Rows of requests, each of which was open when its asker sent the very next one.
            let mut best = 0;
            for row in candidates.chunk_by(|one, next| one.next().is_some_and(|mark| mark.seq == next.seq)) {
                if let Some((interval, alike)) = self.interval(row)
                    && alike > best
                {
                    best = alike;
                    habit.interval = Some(interval);
                    let near = |open: &&&Open| {
                        open.next().is_some_and(|next| ((next.at - open.at) - interval).abs() <= self.spread(interval))
                    };
                    habit.row = row.iter().find(near).map_or(row[0].row, |open| open.row);
                }
            }
        }
        habit.given_up = candidates.iter().filter(|open| self.strong_sign(open, habit).is_some()).count() as u32;
        habit
    }

    /// The time after which each of a row was followed by the next, if it is the same time again and again; and how
    /// many bear that out.
    fn interval(&self, row: &[&Open]) -> Option<(Micros, usize)> {
        let mut gaps: Vec<Micros> = row.iter().filter_map(|open| open.next().map(|next| next.at - open.at)).collect();
        gaps.sort_unstable();
        let median = *gaps.get(gaps.len() / 2)?;
        let spread = self.spread(median);
        let alike = gaps.iter().filter(|gap| (**gap - median).abs() <= spread).count();
        // Two tries of the very same call, each given up after the same time, are a habit too. Different calls at an
        // even pace must be more before chance is ruled out.
        let tries =
            row.iter().filter(|open| open.again().is_some_and(|again| ((again.at - open.at) - median).abs() <= spread));
        let fits = |open: &&&Open| open.next().is_some_and(|next| ((next.at - open.at) - median).abs() <= spread);
        let mut kinds = row.iter().filter(fits).map(|open| open.row);
        let first = kinds.next();
        let one_kind = kinds.all(|kind| Some(kind) == first);
        let least = self.limits.give_ups_in_a_row.max(2) as usize + if one_kind { 0 } else { 2 };
        let enough = alike >= least || (tries.count() >= 2 && alike >= 2);
        (enough && alike * 2 >= gaps.len() && self.long_enough_to_give_up(median)).then_some((median, alike))
    }

    fn spread(&self, interval: Micros) -> Micros {
        interval * Micros::from(self.limits.give_up_spread_percent) / 100
    }

    fn may_be_given_up(&self, open: &Open) -> bool {
        open.rare().cancel.is_none()
            && !open.role.may_stay_open()
            && open.role != Role::Discover
            && self.gap[open.asker.other() as usize].is_none_or(|gap| gap < open.seq)
            && self.names.rows[open.row as usize].overlapped == 0
    }

    fn strong_sign(&self, open: &Open, habit: Habit) -> Option<MovedOn> {
        if !self.may_be_given_up(open) {
            return None;
        }
        if let Some(again) = open.again()
            && (self.long_enough_to_give_up(again.at - open.at) || !self.knows.times)
        {
            return Some(MovedOn { seq: again.seq, after: again.at - open.at, sign: Sign::AskedAgain });
        }
        let (interval, next) = (habit.interval?, open.next()?);
        let (gap, spread) = (next.at - open.at, self.spread(interval));
        // Of the same call also a longer pause counts: it was given up no later than that.
        let fits = gap >= interval - spread && (gap <= interval + spread || open.row == habit.row);
        fits.then_some(MovedOn { seq: next.seq, after: gap, sign: Sign::SameInterval })
    }

    /// Did the asker visibly stop waiting?
    fn moved_on(&self, open: &Open, end: End, habit: Habit) -> Option<MovedOn> {
        let cut = end == End::No;
        // What shows first counts: a connection closed at the very end says nothing new.
        let left_at = open.rare().left.map_or(u64::MAX, |left| left.mark.seq);
        let strong = self.strong_sign(open, habit).filter(|moved| moved.seq < left_at);
        if strong.is_some() && (!cut || habit.given_up >= self.limits.give_ups_in_a_row) {
            return strong;
        }
        if let Some(Left { mark: left, by: Party::Client, .. }) = open.rare().left
            && end.mark().is_none_or(|mark| left.seq < mark.seq)
        {
            return Some(MovedOn { seq: left.seq, after: left.at - open.at, sign: Sign::HungUp });
        }
        // That a client which waits for each answer sent its next request is a weak sign: it is heard only where the
        // client closed before the deadline could tell.
        let next = open.next().filter(|next| next.seq < left_at)?;
        if !(habit.waits && self.knows.times && self.may_be_given_up(open)) {
            return None;
        }
        let gap = next.at - open.at;
        let least = SHORTEST_WAIT.max(self.round_trips.median().unwrap_or(0) * 5);
        let answered_later = self.newest_answered[open.asker.other() as usize] > open.seq;
        let End::ByClient(closed) = end else { return None };
        let early = closed.at - open.at < self.deadline();
        (early && answered_later && gap >= least).then_some(MovedOn { seq: next.seq, after: gap, sign: Sign::WentOn })
    }

    fn settle_open(&mut self, open: &Open, finish: &Finish, habit: Habit, facts: &mut Vec<Fact>) -> Exchange {
        let Finish { as_of, end, ref roots, .. } = *finish;
        let dialect = self.dialect_of(open);
        let peer = open.asker.other();
        // The answer may be missing, or the cancel after which none was owed.
        let missing = |side: Side| self.gap[side as usize].is_some_and(|gap| gap > open.seq);
        let cancellable = open.rare().cancel.is_none() && self.ends_the_wait(dialect);
        let doubtful = missing(peer) || (cancellable && missing(open.asker));
        let until = end.mark().filter(|mark| mark.seq > open.seq).map_or(as_of, |mark| mark.at);
        let mut exchange = Exchange {
            asked_by: open.asker,
            generation: open.generation,
            method: self.names.rows[open.row as usize].method.clone(),
            tool: self.names.rows[open.row as usize].tool.clone(),
            carrier: open.carrier,
            dialect,
            role: open.role,
            opened_seq: open.seq,
            opened_at: open.at,
            closed_at: None,
            outcome: Outcome::InFlight,
            cause: Cause::None,
            cancel: open.rare().cancel.map(|note| Mark { seq: note.seq, at: note.at }),
            cancel_of: open.rare().cancel.map(|note| note.of),
            answer: open.rare().first_answer,
            error_code: None,
            end: end.mark(),
            moved_on: None,
            root: None,
            after_cancel: open.rare().after_cancel.clone(),
            waited: until - open.rare().cancel.map_or(open.at, |note| note.at),
            ended_by_server: None,
            doubtful,
            id: open.id.clone(),
        };
        if open.rare().cancel.is_some() {
            self.settle_cancelled(&mut exchange, end, facts);
        } else {
            self.settle_unanswered(open, &mut exchange, end, habit, roots);
        }
        if let Some(at) = exchange.closed_at
            && exchange.cancel.is_none()
        {
            self.series.ended(Fold::track(open.asker), open.at, at);
        }
        // A stream that answers lives as long as it likes.
        if open.role == Role::StreamCall && open.rare().answers > 0 && open.rare().cancel.is_none() {
            self.series.excused(Fold::track(open.asker), open.at);
        }
        self.names.rows[open.row as usize].outcomes.add(exchange.outcome);
        exchange
    }

    fn settle_cancelled(&self, exchange: &mut Exchange, end: End, facts: &mut Vec<Fact>) {
        let Some(cancel) = exchange.cancel else { return };
        exchange.outcome =
            if exchange.after_cancel.is_empty() { Outcome::CancelledSilent } else { Outcome::CancelledIgnored };
        if exchange.dialect.is_mcp() {
            exchange.closed_at = Some(cancel.at);
        }
        let decided = end != End::No || exchange.waited > self.race_window();
        let settled = match exchange.outcome {
            Outcome::CancelledIgnored => CancelEnd::Ignored,
            _ if exchange.doubtful || !decided => CancelEnd::Undecided,
            _ => CancelEnd::Silent,
        };
        exchange.doubtful |= settled == CancelEnd::Undecided;
        facts.push(Fact::Cancel(Cancel {
            seq: cancel.seq,
            at: cancel.at,
            named: exchange.id.to_string(),
            target: CancelTarget::Open,
            end: settled,
            method: Some(exchange.method.clone()),
            tool: exchange.tool.clone(),
            dialect: exchange.dialect,
            request_seq: Some(exchange.opened_seq),
            on_http: exchange.carrier.is_some(),
            doubtful: exchange.doubtful,
            ..self.cancel_fact(exchange.asked_by, exchange.cancel_of.unwrap_or(super::CancelOf::Request), String::new())
        }));
    }

    fn settle_unanswered(&self, open: &Open, exchange: &mut Exchange, end: End, habit: Habit, roots: &[(u64, Id)]) {
        if open.role == Role::StreamCall && open.rare().answers > 0 {
            exchange.outcome = if end == End::No { Outcome::OpenStream } else { Outcome::BecameTask };
            return;
        }
        if exchange.doubtful {
            exchange.cause = Cause::CaptureGap;
            return;
        }
        // A client that tries out which era a server is from expects no answer from an old one.
        if open.role == Role::Discover {
            return;
        }
        exchange.cause = self.cause(open, end, roots, exchange);
        exchange.moved_on = self.moved_on(open, end, habit);
        // Closed after the session was over is closed because it was over.
        if let Some(Left { mark: left, by, torn }) = open.rare().left
            && by != Party::Client
            && exchange.moved_on.is_none()
            && end.mark().is_none_or(|mark| left.seq < mark.seq)
        {
            if torn {
                exchange.outcome = Outcome::PeerDied;
                exchange.cause = Cause::PeerDead;
                exchange.end = Some(left);
                exchange.closed_at = Some(left.at);
                return;
            }
            exchange.outcome = Outcome::Orphaned;
            exchange.cause = Cause::CarrierEnded;
            exchange.ended_by_server = Some(by == Party::Server);
            exchange.end = Some(left);
            return;
        }
        if let Some(Left { mark: left, by: Party::Client, .. }) = open.rare().left
            && exchange.moved_on.is_some_and(|moved| moved.sign == Sign::HungUp)
            && left.at - open.at < self.deadline()
            && self.client_went(left, end)
        {
            (exchange.outcome, exchange.cause) = if self.server_died_before(left) {
                (Outcome::PeerDied, Cause::PeerDead)
            } else {
                (Outcome::LostInShutdown, Cause::SessionEnded)
            };
            exchange.moved_on = None;
            exchange.end = Some(left);
            exchange.closed_at = Some(left.at);
            return;
        }
        if exchange.moved_on.is_some() {
            exchange.outcome = Outcome::Abandoned;
            return;
        }
        let late = self.knows.times && exchange.waited >= self.deadline() && !open.role.may_stay_open();
        let after_end = end.mark().is_some_and(|mark| mark.seq < open.seq);
        exchange.outcome = match end {
            End::No if open.role == Role::Listen => Outcome::OpenStream,
            End::No if late => Outcome::Overdue,
            End::No => Outcome::InFlight,
            _ if late && !after_end => Outcome::Orphaned,
            // Without times, that others asked later were answered is all there is to go by.
            _ if !self.knows.times && exchange.cause == Cause::PeerAlive => Outcome::Orphaned,
            // That the client took its leave may be in what is missing.
            End::ByServer(_)
                if open.asker == Side::Client && self.gap[Side::Client as usize].is_some_and(|gap| gap > open.seq) =>
            {
                exchange.cause = Cause::CaptureGap;
                return;
            }
            End::ByServer(_)
                if open.asker == Side::Client && !self.ends.stopped_by_signal && self.ends.said.is_none() =>
            {
                exchange.cause = Cause::PeerDead;
                Outcome::PeerDied
            }
            _ => {
                exchange.cause = Cause::SessionEnded;
                exchange.ended_by_server = self.ends.missing.then_some(true);
                Outcome::LostInShutdown
            }
        };
        if matches!(exchange.outcome, Outcome::PeerDied | Outcome::LostInShutdown) {
            exchange.closed_at = end.mark().map(|mark| mark.at.max(open.at));
        }
    }

    /// Why nothing came, as far as the wire tells.
    fn cause(&self, open: &Open, end: End, roots: &[(u64, Id)], exchange: &mut Exchange) -> Cause {
        let peer = open.asker.other();
        let answered_since = self.newest_answered[peer as usize] > open.seq;
        if open.asker == Side::Client {
            // A request of the server's own, sent while it worked on this one and never answered; or one before it,
            // after which the server answered nothing any more.
            let inner = roots.get(roots.partition_point(|(seq, _)| *seq <= open.seq));
            let before = roots.first().filter(|(seq, _)| {
                *seq < open.seq && self.last_response[peer as usize].is_none_or(|last| last.seq < *seq)
            });
            if let Some((seq, id)) = inner.or(before)
                && !answered_since
            {
                exchange.root = Some((id.clone(), *seq));
                return Cause::Blocked;
            }
        }
        if answered_since {
            return Cause::PeerAlive;
        }
        match end {
            End::ByServer(_) if open.asker == Side::Client => Cause::PeerDead,
            // Silent is who left others unanswered too, for long enough to be missed.
            _ if open.next().is_some_and(|next| self.now.at - next.at > self.race_window()) => Cause::PeerSilent,
            _ => Cause::None,
        }
    }
}
