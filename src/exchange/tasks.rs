//! Tasks: work that outlives the request it came from, and must reach a final state.
//!
//! MCP has them in two forms (2025-11-25: asked for by the requestor, result fetched by `tasks/result`; the
//! extension of 2026-07-28: decided by the server, result in `tasks/get`), A2A as its main noun, and a turn of ACP v2
//! is one in all but name: it runs until the agent says it is idle.

use std::collections::VecDeque;

use crate::event::{Micros, Side};
use crate::protocol::{Dialect, Role};
use crate::rpc::{Kind, Mark as Place, Message, Name};

use super::examples::Telling;
use super::fact::{Fact, Mark, Slip, SlipKind};
use super::fold::Fold;
use super::hash::{Map, print_of};
use super::let_go_work::{LetGoOf, Named};
use super::open::Open;
use super::{Cancel, CancelEnd, CancelOf, CancelTarget, Task, TaskEnd, Track};

pub(super) type TasksLeft = (Telling<Named<Doing>>, std::vec::IntoIter<(u64, Box<str>)>);

const MOST_CLOSED: usize = 1 << 12;
/// Events kept to prove what a task did.
const MOST_EVENTS: usize = 12;
/// MCP: no such task, or one that cannot be cancelled any more.
const INVALID_PARAMS: i64 = -32602;

#[derive(Debug, Default)]
pub struct Tasks {
    pub(super) open: Map<Box<str>, Doing>,
    pub(super) let_go: LetGoOf<Doing>,
    closed: VecDeque<(u64, &'static str)>,
    pub peak: u64,
}

/// A task that has not ended, or whose result nobody has fetched.
#[derive(Debug, Clone)]
pub(super) struct Doing {
    pub(super) asked_by: Side,
    pub(super) method: Name,
    pub(super) tool: Option<Name>,
    pub(super) dialect: Dialect,
    pub(super) opened: Mark,
    pub(super) state: &'static str,
    pub(super) changed_at: Micros,
    pub(super) ttl_ms: Option<f64>,
    pub(super) poll_ms: Option<f64>,
    pub(super) looked_at: Option<Mark>,
    pub(super) fetching: bool,
    pub(super) cancel: Option<(Mark, Side)>,
    pub(super) events: Vec<u64>,
    pub(super) turn: bool,
}

/// The states of all protocols in one spelling.
fn state_of(written: &str) -> &'static str {
    let plain = written.strip_prefix("TASK_STATE_").unwrap_or(written).to_ascii_lowercase().replace('-', "_");
    const STATES: &[&str] = &[
        "submitted",
        "working",
        "input_required",
        "auth_required",
        "completed",
        "failed",
        "rejected",
        "running",
        "idle",
        "unknown",
    ];
    match plain.as_str() {
        "cancelled" | "canceled" => "cancelled",
        other => STATES.iter().find(|state| **state == other).copied().unwrap_or("unknown"),
    }
}

fn is_final(state: &str) -> bool {
    matches!(state, "completed" | "failed" | "cancelled" | "rejected" | "idle")
}

/// What an answer or a notice says of a task.
struct Seen<'a> {
    name: &'a str,
    state: Option<&'a str>,
    ttl_ms: Option<f64>,
    poll_ms: Option<f64>,
}

fn task_in(message: &Message) -> Option<Seen<'_>> {
    let marks = &message.marks;
    let places = [
        (Place::ResultTaskTaskId, Place::ResultTaskStatus, Place::ResultTaskTtl, Place::ResultTaskPoll),
        (Place::ResultTaskId2, Place::ResultTaskState, Place::ResultTaskTtl, Place::ResultTaskPoll),
        (Place::StatusUpdateTask, Place::StatusUpdateState, Place::ResultTtl, Place::ResultPoll),
        (Place::ArtifactUpdateTask, Place::StatusUpdateState, Place::ResultTtl, Place::ResultPoll),
        (Place::ResultTaskId, Place::ResultStatus, Place::ResultTtlMs, Place::ResultPollMs),
    ];
    for (name, state, ttl, poll) in places {
        if let Some(name) = marks.raw(name) {
            return Some(Seen {
                name,
                state: marks.text(state).or_else(|| marks.text(Place::ResultStatusState)),
                ttl_ms: marks.number(ttl).or_else(|| marks.number(Place::ResultTtl)),
                poll_ms: marks.number(poll).or_else(|| marks.number(Place::ResultPoll)),
            });
        }
    }
    let state = marks.text(Place::ResultStatusState)?;
    Some(Seen { name: marks.raw(Place::ResultId)?, state: Some(state), ttl_ms: None, poll_ms: None })
}

impl Tasks {
    fn remember(&mut self, name: &str, state: &'static str) {
        if self.closed.len() == MOST_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back((print_of(name), state));
    }

    pub(super) fn ended(&self, name: &str) -> Option<&'static str> {
        let print = print_of(name);
        self.closed.iter().rev().find(|(known, _)| *known == print).map(|(_, state)| *state)
    }

    /// ACP v2: the turn of this session is to stop. Says whether one runs.
    pub fn cancel_turn(&mut self, session: &str, now: Mark) -> bool {
        match self.open.get_mut(session) {
            Some(turn) if turn.turn => {
                turn.cancel.get_or_insert((now, Side::Client));
                true
            }
            _ => false,
        }
    }
}

impl Fold {
    /// Reads a task out of an answer, opens or advances it. `Some(true)` when it has ended.
    pub(super) fn task_in_answer(
        &mut self,
        asker: Side,
        message: &Message,
        seq: u64,
        row: u32,
        facts: &mut Vec<Fact>,
    ) -> Option<bool> {
        let seen = task_in(message)?;
        let state = seen.state.map(state_of);
        if !self.tasks.open.contains_key(seen.name) && self.tasks.ended(seen.name).is_none() {
            let row = &self.names.rows[row as usize];
            let first = state.unwrap_or("working");
            let doing = Doing {
                asked_by: asker,
                method: row.method.clone(),
                tool: row.tool.clone(),
                dialect: self.spoken.dialect,
                opened: self.now,
                state: first,
                changed_at: self.now.at,
                ttl_ms: seen.ttl_ms,
                poll_ms: seen.poll_ms,
                looked_at: None,
                fetching: false,
                cancel: None,
                events: vec![seq, self.now.seq],
                turn: false,
            };
            self.tasks.open.insert(seen.name.into(), doing);
            self.tasks.peak = self.tasks.peak.max(self.tasks.open.len() as u64);
            self.series.opened(Track::Tasks, self.now.at);
            self.tasks.let_go.lighten(&mut self.tasks.open, |doing| doing.opened.seq);
            let core = message.marks.has(Place::ResultTaskTaskId) && self.spoken.dialect == Dialect::Mcp20251125;
            if core && first != "working" && !is_final(first) {
                self.task_slip(facts, SlipKind::TaskIllegalState, asker.other(), seen.name);
            }
        }
        Some(self.task_now(asker.other(), seen.name, state, facts))
    }

    /// A task is in this state now. Says whether it has ended.
    fn task_now(&mut self, teller: Side, name: &str, state: Option<&'static str>, facts: &mut Vec<Fact>) -> bool {
        let now = self.now;
        self.recall_task(name);
        let Some(doing) = self.tasks.open.get_mut(name) else {
            let ended = self.tasks.ended(name);
            if let (Some(ended), Some(state)) = (ended, state)
                && ended != state
                && state != "unknown"
            {
                self.task_slip(facts, SlipKind::TaskIllegalState, teller, name);
            }
            return ended.is_some();
        };
        if doing.events.len() < MOST_EVENTS && doing.events.last() != Some(&now.seq) {
            doing.events.push(now.seq);
        }
        let Some(state) = state else { return false };
        if is_final(doing.state) && state != doing.state && state != "unknown" {
            self.task_slip(facts, SlipKind::TaskIllegalState, teller, name);
            return true;
        }
        if state != doing.state {
            doing.changed_at = now.at;
        }
        doing.state = state;
        if !is_final(state) {
            return false;
        }
        // A finished task of 2025-11-25 is kept until its result is fetched.
        let uncollected = doing.dialect == Dialect::Mcp20251125 && state == "completed" && !doing.fetching;
        if !uncollected {
            self.task_over(name, TaskEnd::Finished, facts);
        }
        true
    }

    fn task_over(&mut self, name: &str, end: TaskEnd, facts: &mut Vec<Fact>) {
        let Some(doing) = self.tasks.open.remove(name) else { return };
        let ended = is_final(doing.state);
        self.tasks.remember(name, doing.state);
        let closed_at = (ended || end == TaskEnd::Finished).then_some(self.now.at);
        if closed_at.is_some() {
            self.series.closed(Track::Tasks, doing.opened.at, self.now.at);
        }
        self.task_fact(name, doing, end, closed_at, facts);
    }

    fn task_fact(&self, name: &str, doing: Doing, end: TaskEnd, closed_at: Option<Micros>, facts: &mut Vec<Fact>) {
        if let Some((cancel, by)) = doing.cancel {
            let settled = match doing.state {
                "cancelled" | "idle" => CancelEnd::Acknowledged,
                state if is_final(state) => CancelEnd::Raced,
                _ if end == TaskEnd::CancelIgnored => CancelEnd::Ignored,
                _ => CancelEnd::Undecided,
            };
            facts.push(Fact::Cancel(Cancel {
                seq: cancel.seq,
                at: cancel.at,
                end: settled,
                method: Some(doing.method.clone()),
                tool: doing.tool.clone(),
                request_seq: Some(doing.opened.seq),
                settled: closed_at.map(|at| Mark { seq: self.now.seq, at }),
                ..self.cancel_fact(by, if doing.turn { CancelOf::Session } else { CancelOf::Task }, name.to_string())
            }));
        }
        facts.push(Fact::Task(Task {
            asked_by: doing.asked_by,
            name: name.to_string(),
            method: doing.method,
            tool: doing.tool,
            dialect: doing.dialect,
            opened_seq: doing.opened.seq,
            opened_at: doing.opened.at,
            closed_at,
            state: doing.state.to_string(),
            end,
            last_looked_at: doing.looked_at,
            cancel: doing.cancel.map(|(mark, _)| mark),
            ttl_ms: doing.ttl_ms,
            events: doing.events,
            turn: doing.turn,
            doubtful: self.gap.iter().any(|gap| gap.is_some_and(|gap| gap > doing.opened.seq)),
        }));
    }

    /// `tasks/get`, `tasks/result`, `tasks/update`: somebody looks after it.
    pub(super) fn task_looked_at(&mut self, _: Side, message: &Message, place: Place, role: Role) {
        let now = self.now;
        if let Some(name) = message.marks.raw(place)
            && let Some(doing) = self.tasks.open.get_mut(name)
        {
            doing.looked_at = Some(now);
            doing.fetching |= matches!(role, Role::TaskResult(_));
            if doing.events.len() < MOST_EVENTS {
                doing.events.push(now.seq);
            }
        }
    }

    pub(super) fn cancel_task(&mut self, from: Side, message: &Message, place: Place, facts: &mut Vec<Fact>) {
        let name = message.marks.raw(place).unwrap_or_default();
        let now = self.now;
        let mut cancel = self.cancel_fact(from, CancelOf::Task, name.to_string());
        self.recall_task(name);
        if let Some(doing) = self.tasks.open.get_mut(name) {
            doing.looked_at = Some(now);
            if doing.events.len() < MOST_EVENTS {
                doing.events.push(now.seq);
            }
            if is_final(doing.state) {
                cancel.target = CancelTarget::Finished;
            } else if doing.cancel.is_some() {
                cancel.target = CancelTarget::Duplicate;
            } else {
                doing.cancel = Some((now, from));
                return;
            }
        } else if name.is_empty() {
            cancel.target = CancelTarget::Nothing;
            cancel.doubtful = !self.knows.payload;
        } else if self.tasks.ended(name).is_some() {
            cancel.target = CancelTarget::Finished;
        } else {
            cancel.target = CancelTarget::Unknown;
            // Tasks outlive sessions: this one may be from an earlier conversation.
            cancel.doubtful = true;
        }
        facts.push(Fact::Cancel(cancel));
    }

    /// The answer to a request about a task.
    pub(super) fn task_answered(&mut self, asker: Side, open: &Open, message: &Message, facts: &mut Vec<Fact>) {
        let Some(name) = open.rare().task.as_deref() else { return };
        let worker = asker.other();
        self.recall_task(name);
        if message.kind == Kind::Error {
            let code = message.marks.number(Place::ErrorCode).map(|code| code as i64);
            let now = self.now;
            let expired =
                |doing: &Doing| doing.ttl_ms.is_some_and(|ttl| (now.at - doing.opened.at) as f64 > ttl * 1000.0);
            let gone = self.tasks.open.get(name).map(|doing| !expired(doing) && doing.dialect.is_mcp());
            if gone == Some(true) && code == Some(INVALID_PARAMS) && matches!(open.role, Role::TaskGet(_)) {
                self.task_slip(facts, SlipKind::TaskUnknown, worker, name);
            }
            return;
        }
        if matches!(open.role, Role::TaskResult(_)) {
            // It blocks until the task is over: the result is in, whatever was said of the state before.
            if let Some(doing) = self.tasks.open.get_mut(name) {
                doing.fetching = true;
                if !is_final(doing.state) {
                    doing.state = "completed";
                }
                self.task_over(name, TaskEnd::Finished, facts);
            }
            return;
        }
        let state = task_in(message).and_then(|seen| seen.state).map(state_of);
        let core = self.dialect_of(open) == Dialect::Mcp20251125;
        if matches!(open.role, Role::CancelTask(_)) && core && state.is_some_and(|state| state != "cancelled") {
            self.task_slip(facts, SlipKind::TaskCancelNotHonoured, worker, name);
        }
        self.task_now(worker, name, state, facts);
    }

    /// A notice about a task.
    pub(super) fn task_status(&mut self, from: Side, message: &Message, place: Place, facts: &mut Vec<Fact>) {
        if let Some(name) = message.marks.raw(place) {
            let state = message.marks.text(Place::ParamStatus).map(state_of);
            let now = self.now;
            if let Some(doing) = self.tasks.open.get_mut(name) {
                // Told without being asked: somebody listens.
                doing.looked_at = Some(now);
            }
            self.task_now(from, name, state, facts);
        }
    }

    /// ACP v2: the prompt is acknowledged, the turn runs.
    pub(super) fn turn_runs(&mut self, open: &Open) {
        let session = self.turns.iter().find(|(_, (_, _, seq))| *seq == open.seq).map(|(session, _)| session.clone());
        let Some(session) = session else { return };
        let row = &self.names.rows[open.row as usize];
        let doing = Doing {
            asked_by: open.asker,
            method: row.method.clone(),
            tool: None,
            dialect: Dialect::Acp2,
            opened: self.now,
            state: "running",
            changed_at: self.now.at,
            ttl_ms: None,
            poll_ms: None,
            looked_at: Some(self.now),
            fetching: false,
            cancel: open.rare().cancel.map(|note| (Mark { seq: note.seq, at: note.at }, open.asker)),
            events: vec![open.seq, self.now.seq],
            turn: true,
        };
        self.tasks.open.insert(session, doing);
        self.tasks.peak = self.tasks.peak.max(self.tasks.open.len() as u64);
        self.series.opened(Track::Tasks, self.now.at);
        self.tasks.let_go.lighten(&mut self.tasks.open, |doing| doing.opened.seq);
    }

    /// ACP: news of a session. In v2 it says when a turn is over; after a cancel it shows that work goes on.
    pub(super) fn session_update(&mut self, from: Side, message: &Message, facts: &mut Vec<Fact>) {
        let Some(session) = message.marks.raw(Place::ParamSession) else { return };
        let now = self.now;
        if let Some(turn) = self.tasks.open.get_mut(session) {
            turn.looked_at = Some(now);
        }
        if let Some(state) = message.marks.text(Place::UpdateState) {
            self.task_now(from, session, Some(state_of(state)), facts);
        }
        if let Some((asker, slot, seq)) = self.turns.get(session).copied()
            && let Some(note) =
                self.pending[asker as usize].get(slot).filter(|open| open.seq == seq).and_then(|o| o.rare().cancel)
            && now.at - note.at > self.race_window()
            && let Some(rare) = self.pending[asker as usize].rare_mut(slot)
            && rare.after_cancel.len() < MOST_EVENTS
        {
            rare.after_cancel.push(now.seq);
        }
    }

    fn task_slip(&self, facts: &mut Vec<Fact>, kind: SlipKind, by: Side, name: &str) {
        let doing = self.tasks.open.get(name);
        facts.push(Fact::Slip(Slip {
            kind,
            by,
            seq: self.now.seq,
            at: self.now.at,
            dialect: self.spoken.dialect,
            method: doing.map(|doing| doing.method.clone()),
            tool: doing.and_then(|doing| doing.tool.clone()),
            subject: name.to_string(),
            also: doing.map(|doing| doing.events.clone()).unwrap_or_default(),
            on_http: false,
            doubtful: false,
        }));
    }

    /// What is not over when the session is judged, oldest first.
    pub(super) fn tasks_left(&mut self) -> TasksLeft {
        let mut names: Vec<(u64, Box<str>)> =
            self.tasks.open.iter().map(|(name, doing)| (doing.opened.seq, name.clone())).collect();
        names.sort_unstable();
        (self.tasks.let_go.examples.tell(), names.into_iter())
    }

    /// Tells of the next that is left; says whether there was one.
    pub(super) fn task_left(
        &mut self,
        left: &mut TasksLeft,
        as_of: Micros,
        ended: bool,
        facts: &mut Vec<Fact>,
    ) -> bool {
        let (name, doing) = if let Some(Named { name, what }) = left.0.next() {
            self.series.opened_about(Track::Tasks, what.opened.at);
            (name, what)
        } else {
            let Some((_, name)) = left.1.next() else { return false };
            let Some(doing) = self.tasks.open.remove(&name) else { return true };
            (name, doing)
        };
        let end = self.task_end(&doing, as_of, ended);
        let closed_at = is_final(doing.state).then_some(doing.changed_at);
        self.task_fact(&name, doing, end, closed_at, facts);
        true
    }

    fn task_end(&self, doing: &Doing, as_of: Micros, ended: bool) -> TaskEnd {
        if self.gap.iter().any(|gap| gap.is_some_and(|gap| gap > doing.opened.seq)) || !self.knows.times {
            return TaskEnd::Undecided;
        }
        let since = |at: Micros| as_of - at;
        let looked_at = doing.looked_at.map_or(doing.opened.at, |mark| mark.at);
        if is_final(doing.state) {
            // Its time to live says how long the result is kept for whoever wants it.
            let expired = doing.ttl_ms.is_some_and(|ttl| since(doing.opened.at) as f64 > ttl * 1000.0);
            return if ended || expired { TaskEnd::NeverCollected } else { TaskEnd::Finished };
        }
        if let Some((cancel, _)) = doing.cancel {
            let patience = self.limits.task_cancel_ms as Micros * 1000;
            return if since(cancel.at) > patience { TaskEnd::CancelIgnored } else { TaskEnd::Undecided };
        }
        if doing.turn {
            let quiet = since(looked_at) > self.deadline();
            return if quiet { TaskEnd::Stuck } else { TaskEnd::Running };
        }
        let poll = doing.poll_ms.unwrap_or(self.limits.task_poll_ms as f64);
        let patience = (poll * 1000.0 * f64::from(self.limits.task_polls_missed)) as Micros;
        if matches!(doing.state, "input_required" | "auth_required") && since(doing.changed_at) > self.deadline() {
            return TaskEnd::Parked;
        }
        let expired = doing.ttl_ms.is_some_and(|ttl| since(doing.opened.at) as f64 > ttl * 1000.0);
        let polled_after = doing
            .ttl_ms
            .is_some_and(|ttl| doing.looked_at.is_some_and(|mark| (mark.at - doing.opened.at) as f64 > ttl * 1000.0));
        if expired && polled_after {
            return TaskEnd::Stuck;
        }
        let fetching = doing.fetching;
        if !fetching && (since(looked_at) > patience || (ended && since(doing.opened.at) > self.deadline())) {
            return TaskEnd::Forgotten;
        }
        if ended { TaskEnd::Undecided } else { TaskEnd::Running }
    }
}
