//! The listening half of a player: every wait, each with its limit, and what is heard meanwhile.
//!
//! Comes in: what a step needs, and what the peer says. Goes out: whether it came in time; notes where it did not.

use std::time::{Duration, Instant};

use super::client::{Player, Use, renamed};
use super::play::{Ending, NoteKind};
use super::script::{Need, notice_kind};
use super::{Heard, HeardWhat};
use crate::event::{Happening, How, Line, Party, Side};
use crate::rpc::{Id, Kind, Mark};

/// Among this many requests of one method that still wait, the one with the same params is looked for.
const MOST_ASKS_COMPARED: usize = 256;
const STDERR_TAIL_BYTES: usize = 2_000;

impl Player<'_> {
    pub(super) fn await_need(&mut self, need: &Need) {
        let patience = self.how.patience;
        match need {
            Need::Answer { life, line, after_cancel } => {
                let life = &self.script.lives[*life];
                let id = self.use_of(life);
                let limit = if *after_cancel { self.tail_limit(life.cancel, *line) } else { patience.answer_ms };
                if !self.sent.contains(&id) {
                    return;
                }
                let came = self.await_that(limit, |player| player.answered.contains(&id));
                if !came && !*after_cancel && self.ending.is_none() {
                    let text = format!("no answer to {} within {} ms (answer limit)", life.words(), limit);
                    self.note(NoteKind::GaveUpWaiting, text);
                }
            }
            Need::Ask { line } => {
                let came = self.await_that(patience.answer_ms, |player| player.asks.contains_key(line));
                if !came && self.ending.is_none() {
                    let method = self.script.line(*line).message.method().to_string();
                    let text =
                        format!("the server did not ask {method} within {} ms (answer limit)", patience.answer_ms);
                    self.note(NoteKind::GaveUpWaiting, text);
                }
            }
            Need::Notice { kind, count, line, after_cancel } => {
                if self.given_up.contains(kind) {
                    return;
                }
                let kind_now = self.live_kind(kind, *line);
                let wanted = self.notices_before.get(&kind_now).copied().unwrap_or(0) + count;
                let came = self.await_that(patience.notice_ms, |player| {
                    player.notices.get(&kind_now).copied().unwrap_or(0) >= wanted
                });
                if !came && self.ending.is_none() {
                    self.given_up.insert(kind.clone());
                    if !*after_cancel {
                        let text = format!("{kind} did not come within {} ms (notification limit)", patience.notice_ms);
                        self.note(NoteKind::GaveUpWaiting, text);
                    }
                }
            }
        }
    }

    /// A notification's kind as it reads in this round: its token may be ours, renamed, or the server's, learned.
    fn live_kind(&self, kind: &str, line: usize) -> String {
        let message = &self.script.line(line).message;
        let Some(token) = message.marks.raw(Mark::ProgressToken).or_else(|| message.marks.raw(Mark::Token)) else {
            return kind.to_string();
        };
        let live = match self.values.live(token) {
            Some(live) => live.clone(),
            None if self.round > 0 => renamed(&Id::from_raw(token), self.round, self.stride).to_raw(),
            None => token.to_string(),
        };
        format!("{} {live}", message.method())
    }

    /// How long what came after a cancel in the recording may take now: thrice as long as then, and a little.
    fn tail_limit(&self, cancel: Option<usize>, line: usize) -> u64 {
        let recorded = cancel.map_or(0, |cancel| self.script.line(line).at - self.script.line(cancel).at).max(0) as u64;
        (recorded * 3 / 1000 + 300).min(self.how.patience.answer_ms)
    }

    fn await_that(&mut self, limit_ms: u64, come: impl Fn(&Player<'_>) -> bool) -> bool {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        loop {
            if come(self) {
                return true;
            }
            let now = Instant::now();
            if self.ending.is_some() || now >= until {
                return false;
            }
            self.listen(until - now);
        }
    }

    /// Waits for the answers that came in the recording after its client's last word.
    pub(super) fn await_owed(&mut self) {
        let script = self.script;
        let last_client = script.steps.last().and_then(|step| step.lines.last()).copied().unwrap_or(0);
        let mut after_cancel_limit = 0;
        let mut owed = Vec::new();
        for life in script.lives.iter().filter(|life| life.asked_by == Side::Client) {
            let Some(answer) = life.answers.first() else { continue };
            let id = self.use_of(life);
            if !self.sent.contains(&id) || self.answered.contains(&id) {
                continue;
            }
            if life.cancel.is_some() {
                after_cancel_limit = after_cancel_limit.max(self.tail_limit(life.cancel, *answer));
            }
            owed.push((id, life));
        }
        let must: Vec<Use> = owed.iter().filter(|(_, life)| life.cancel.is_none()).map(|(id, _)| id.clone()).collect();
        let may: Vec<Use> = owed.iter().filter(|(_, life)| life.cancel.is_some()).map(|(id, _)| id.clone()).collect();
        // Those already waited for in vain keep nobody waiting again.
        let answer_ms = if self.notes.iter().any(|note| note.kind == NoteKind::GaveUpWaiting) {
            0
        } else {
            self.how.patience.answer_ms
        };
        if !must.is_empty() {
            self.await_that(answer_ms, |player| must.iter().all(|id| player.answered.contains(id)));
        }
        if !may.is_empty() {
            self.await_that(after_cancel_limit, |player| may.iter().all(|id| player.answered.contains(id)));
        }
        // Progress that went on after a cancel shows itself in the time it took to show itself then.
        let mut tail = 0;
        for life in script.lives.iter().filter(|life| life.ran_on > 0) {
            let last = script.recording.lines.iter().skip(last_client).map(|line| line.at).max().unwrap_or(0);
            let cancel = life.cancel.map_or(last, |cancel| script.line(cancel).at);
            tail = tail.max((((last - cancel).max(0) as u64) / 1000 + 100).min(self.how.patience.hang_ms));
        }
        if tail > 0 {
            let until = Instant::now() + Duration::from_millis(tail);
            while self.ending.is_none() && Instant::now() < until {
                self.listen(until.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// Whoever is still unanswered has this long to prove that it is not left hanging.
    pub(super) fn settle(&mut self) {
        let started = Instant::now();
        let until = started + Duration::from_millis(self.how.patience.hang_ms);
        let open = |player: &Player<'_>| {
            player.sent.iter().any(|id| !player.answered.contains(id) && !player.cancelled.contains(id))
        };
        while open(self) && self.ending.is_none() && Instant::now() < until {
            self.listen(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Takes in what comes within `wait`; says whether anything came.
    pub(super) fn listen(&mut self, wait: Duration) -> bool {
        let now = Instant::now();
        if now >= self.deadline {
            self.ending.get_or_insert(Ending::RunLimit);
            return false;
        }
        let Some(heard) = self.peer.hear(wait.min(self.deadline - now)) else { return false };
        self.last_heard = Instant::now();
        self.take(heard);
        true
    }

    pub(super) fn take(&mut self, heard: Heard) {
        let Heard { at, what } = heard;
        match what {
            HeardWhat::Bytes(bytes) => {
                self.bytes += bytes.len() as u64;
                self.scribe.bytes(Side::Server, at, &bytes, &mut self.kept);
            }
            HeardWhat::Body { carrier, body } => {
                self.bytes += body.len() as u64;
                self.scribe.body(Side::Server, at, Some(carrier), &body, &mut self.kept);
            }
            HeardWhat::Stderr(bytes) => {
                self.bytes += bytes.len() as u64;
                self.stderr_tail.extend_from_slice(&bytes);
                let surplus = self.stderr_tail.len().saturating_sub(STDERR_TAIL_BYTES);
                self.stderr_tail.drain(..surplus);
                self.scribe.stderr(at, &bytes, &mut self.kept);
            }
            HeardWhat::Happening { carrier, happening } => {
                self.scribe.happening(at, carrier, happening, &mut self.kept);
            }
            HeardWhat::Closed => {
                self.scribe.end(Side::Server, at, Party::Server, How::Eof, &mut self.kept);
                self.ending.get_or_insert(Ending::ServerClosed);
            }
            HeardWhat::Exited { code, signal } => {
                self.exited = true;
                self.exit = Some((code, signal));
                self.scribe.happening(at, None, Happening::Exited { code, signal }, &mut self.kept);
                // Its last words may still be in the pipe.
                let until = Instant::now() + Duration::from_millis(500);
                while self.ending.is_none() && Instant::now() < until {
                    match self.peer.hear(until.saturating_duration_since(Instant::now())) {
                        Some(heard) => self.take(heard),
                        None => break,
                    }
                }
                if matches!(self.ending, None | Some(Ending::ServerClosed)) {
                    self.ending = Some(Ending::ServerEnded { code, signal });
                }
            }
            HeardWhat::Unreachable(why) => {
                self.ending.get_or_insert(Ending::Unreachable(why));
            }
        }
        if self.is_flooded() {
            self.ending.get_or_insert(Ending::Flooded);
        }
        self.read_lines();
    }

    pub(super) fn is_flooded(&self) -> bool {
        let rounds = self.how.times.max(1) as usize;
        let usual = self.script.recording.lines.len().saturating_mul(10).saturating_mul(rounds);
        self.bytes > self.how.patience.flood_bytes
            || self.kept.events.len() > usual.saturating_add(self.how.patience.flood_messages)
    }

    /// Looks at the events that are new.
    pub(super) fn read_lines(&mut self) {
        while self.read < self.kept.events.len() {
            let event = self.kept.events[self.read].clone();
            self.read += 1;
            let before = self.lines.lines.len();
            self.lines.take(&event, &mut self.kept);
            if self.lines.lines.len() > before && self.lines.lines[before].from == Side::Server {
                self.heard_line(before);
            }
        }
    }

    fn heard_line(&mut self, at: usize) {
        let line = self.lines.lines[at].clone();
        let script = self.script;
        if line.is_response() {
            let Some(id) = line.message.id.as_ref().map(Id::canonical) else { return };
            if let Some((life, generation)) = self.playing.get(&id).copied() {
                if let Some(answer) = script.lives[life].answers.first() {
                    self.learn(*answer, &line);
                }
                self.answered.insert((id, generation));
            }
        } else if line.is_request() {
            self.asked(at, &line);
        } else if line.message.kind == Kind::Notification {
            *self.notices.entry(notice_kind(&line)).or_default() += 1;
            let nth = self.heard_of_method.entry(line.message.method().to_string()).or_default();
            *nth += 1;
            let recorded = script.notices.get(line.message.method()).and_then(|lines| lines.get(*nth - 1));
            if let Some(recorded) = recorded {
                self.learn(*recorded, &line);
            }
        }
    }

    fn learn(&mut self, recorded: usize, live: &Line) {
        if let (Some(recorded), Some(live)) = (&self.script.line(recorded).body, &live.body) {
            self.values.learn(recorded, live);
        }
    }

    /// A request of the server: which recorded one is it?
    fn asked(&mut self, at: usize, line: &Line) {
        let script = self.script;
        let same =
            |life: &usize| script.line(script.lives[*life].asked).message.params_print == line.message.params_print;
        let free = self.open_asks.get_mut(line.message.method()).filter(|free| !free.is_empty());
        let found = free.map(|free| {
            let place = free.iter().take(MOST_ASKS_COMPARED).position(same).unwrap_or(0);
            &script.lives[free.remove(place)]
        });
        let id = line.message.id.clone().unwrap_or(Id::Null);
        let Some(life) = found else {
            let method = line.message.method();
            let answer = if method == "ping" {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}", id.to_raw())
            } else {
                self.note(
                    NoteKind::Unexpected,
                    format!("the server asked {method}, which the recording has no answer to"),
                );
                let error = r#"{"code":-32601,"message":"not in the recording"}"#;
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", id.to_raw())
            };
            self.send(answer.as_bytes());
            return;
        };
        let asked = life.asked;
        self.asks.insert(asked, id);
        if self.round == 0 {
            self.asked_as.insert(asked, at);
        }
        self.learn(asked, line);
    }
}
