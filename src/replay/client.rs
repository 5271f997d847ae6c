//! Plays the recorded client to a live server.
//!
//! Comes in: a script and a peer. Goes out: a [`Run`]: everything that was sent and heard, as events like any
//! other, with notes on what could not be played. A step waits for what caused it; a cancel goes out only while
//! its request is open; every wait has a limit with a name.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::play::{Ending, Note, NoteKind, Play, Round, Run};
use super::script::Script;
use super::values::Values;
use super::{HeardWhat, Peer};
use crate::event::scribe::Scribe;
use crate::event::stamper::Stamper;
use crate::event::{Collected, Happening, How, Knows, Party, Recording, Session, Side, Sink, Source};
use crate::rpc::Id;
use crate::rpc::edit::{is_at, rewrite};

/// At most this many notes of one kind; the rest is counted in the last.
const MOST_NOTES: usize = 20;

pub(super) type Use = (Id, u32);

pub(super) struct Player<'a> {
    pub(super) how: &'a Play,
    pub(super) script: &'a Script,
    pub(super) peer: &'a mut dyn Peer,
    pub(super) stamper: Stamper,
    pub(super) scribe: Scribe,
    pub(super) kept: Collected,
    pub(super) session: Session,
    pub(super) lines: Recording,
    pub(super) read: usize,
    pub(super) deadline: Instant,
    pub(super) ending: Option<Ending>,
    pub(super) exited: bool,
    pub(super) exit: Option<(Option<i32>, Option<i32>)>,
    pub(super) bytes: u64,
    pub(super) values: Values,
    pub(super) round: u32,
    pub(super) stride: i64,
    /// Our requests that were answered, sent, cancelled: live id, and how often it had been used.
    pub(super) answered: HashSet<Use>,
    pub(super) sent: HashSet<Use>,
    pub(super) cancelled: HashSet<Use>,
    pub(super) sent_in_order: Vec<Use>,
    /// How many requests had been sent when each round ended.
    pub(super) round_ends: Vec<usize>,
    /// The recorded life behind a live id, and which use of it this is.
    pub(super) playing: HashMap<Id, (usize, u32)>,
    /// The carrier each of our requests travels on.
    pub(super) carriers: HashMap<Id, u64>,
    pub(super) open_asks: HashMap<String, Vec<usize>>,
    pub(super) heard_of_method: HashMap<String, usize>,
    pub(super) notices: HashMap<String, usize>,
    pub(super) notices_before: HashMap<String, usize>,
    /// Kinds of notifications that did not come once are not waited for again.
    pub(super) given_up: HashSet<String>,
    /// Recorded line of a server's request → live id, this round.
    pub(super) asks: HashMap<usize, Id>,
    pub(super) asked_as: HashMap<usize, usize>,
    pub(super) not_sent: HashSet<usize>,
    pub(super) last_heard: Instant,
    pub(super) notes: Vec<Note>,
    pub(super) rounds: Vec<Round>,
    pub(super) stderr_tail: Vec<u8>,
}

impl<'a> Player<'a> {
    pub(super) fn new(how: &'a Play, script: &'a Script, peer: &'a mut dyn Peer, stamper: Stamper) -> Player<'a> {
        let session = Session {
            key: 1,
            name: format!("replay of {}", script.recording.session.name),
            source: if how.target.contains("://") { Source::Http } else { Source::Stdio },
            target: how.target.clone(),
            started_at: stamper.now(),
            knows: Knows::ALL,
        };
        let mut kept = Collected::default();
        kept.session(&session);
        let stride = script.recording.lines.iter().filter_map(|line| match (line.from, &line.message.id) {
            (Side::Client, Some(Id::Int(id))) => Some(*id),
            _ => None,
        });
        let mut notes = Vec::new();
        if script.recording.losses > 0 {
            let text = format!("the recording has {} gaps; what was lost there is not played", script.recording.losses);
            notes.push(Note { kind: NoteKind::Recording, text });
        }
        let missing =
            script.recording.lines.iter().filter(|line| line.from == Side::Client && line.body.is_none()).count();
        if missing > 0 {
            let text = format!(
                "{missing} messages of the client are on record without their text; they are sent without params"
            );
            notes.push(Note { kind: NoteKind::Recording, text });
        }
        Player {
            lines: Recording::new(&session),
            read: 0,
            deadline: Instant::now() + Duration::from_millis(how.patience.run_ms),
            ending: None,
            exited: false,
            exit: None,
            bytes: 0,
            values: Values::of(&script.recording.lines),
            round: 0,
            stride: stride.max().unwrap_or(0).clamp(0, 1 << 40) + 1,
            answered: HashSet::new(),
            sent: HashSet::new(),
            cancelled: HashSet::new(),
            sent_in_order: Vec::new(),
            round_ends: Vec::new(),
            playing: HashMap::new(),
            carriers: HashMap::new(),
            open_asks: script.asks.clone(),
            heard_of_method: HashMap::new(),
            notices: HashMap::new(),
            notices_before: HashMap::new(),
            given_up: HashSet::new(),
            asks: HashMap::new(),
            asked_as: HashMap::new(),
            not_sent: HashSet::new(),
            last_heard: Instant::now(),
            notes,
            rounds: Vec::new(),
            stderr_tail: Vec::new(),
            scribe: Scribe::new(session.key),
            how,
            script,
            peer,
            stamper,
            kept,
            session,
        }
    }

    pub(super) fn play(&mut self) {
        let script = self.script;
        self.scribe.happening(self.stamper.now(), None, Happening::Opened { pid: None }, &mut self.kept);
        for step in 0..script.opening {
            self.step(step);
        }
        for round in 0..self.how.times.max(1) {
            self.round = round;
            if round > 0 {
                self.asks.clear();
                self.open_asks = script.asks.clone();
                self.notices_before = self.notices.clone();
            }
            for step in script.opening..script.closing {
                self.step(step);
            }
            self.await_owed();
            if self.how.times > 1 {
                self.rounds.push(Round { usage: self.peer.usage(), ..Round::default() });
                self.round_ends.push(self.sent_in_order.len());
            }
            if self.ending.is_some() {
                break;
            }
        }
        for step in script.closing..script.steps.len() {
            self.step(step);
        }
        self.await_owed();
        self.settle();
        self.count_rounds();
    }

    /// What each round left behind, told when everything has had its time to be answered: what is merely slow does
    /// not pile up.
    fn count_rounds(&mut self) {
        let left = |upto: usize, cancelled: bool| {
            let uses = self.sent_in_order[..upto].iter();
            uses.filter(|live| !self.answered.contains(*live) && self.cancelled.contains(*live) == cancelled).count()
                as u64
        };
        let counts: Vec<(u64, u64)> = self.round_ends.iter().map(|end| (left(*end, false), left(*end, true))).collect();
        for (round, (open, cancelled)) in self.rounds.iter_mut().zip(counts) {
            (round.open, round.cancelled) = (open, cancelled);
        }
    }

    fn step(&mut self, number: usize) {
        let script = self.script;
        let step = &script.steps[number];
        for need in &step.needs {
            self.await_need(need);
        }
        let longest = Duration::from_millis(self.how.patience.pause_ms);
        let pause = self.how.pace.of(step.pause).min(longest);
        let until = Instant::now() + pause;
        while self.ending.is_none() && Instant::now() < until {
            self.listen(until.saturating_duration_since(Instant::now()));
        }
        // What has already come must be known before we decide what may still be sent.
        while self.ending.is_none() && self.listen(Duration::ZERO) {}
        if self.ending.is_some() {
            if self.round == 0 {
                self.not_sent.extend(&step.lines);
            }
            return;
        }
        if let Some(life) = step.hangs_up {
            return self.hang_up(life);
        }
        let mut texts = Vec::new();
        for at in &step.lines {
            match self.outgoing(*at, number < script.opening) {
                Some(text) => texts.push(text),
                None if self.round == 0 => {
                    self.not_sent.insert(*at);
                }
                None => {}
            }
        }
        if texts.is_empty() {
            return;
        }
        let in_batch = script.line(step.lines[0]).batch.is_some();
        let body = if in_batch { format!("[{}]", texts.join(",")) } else { texts.swap_remove(0) };
        self.send(body.as_bytes());
    }

    /// The client closed the exchange: so do we, or say it in words where there is nothing to close.
    fn hang_up(&mut self, life: usize) {
        let life = &self.script.lives[life];
        let live = self.use_of(life);
        if self.answered.contains(&live) {
            let text = format!("{} was answered before it could be given up", life.words());
            return self.note(NoteKind::ServerWasFaster, text);
        }
        let carrier = self.carriers.get(&live.0).copied();
        if let Some(carrier) = carrier.filter(|carrier| self.peer.hang_up(*carrier)) {
            let by = Party::Client;
            let closed = Happening::CarrierClosed { by, how: How::Reset, request_bytes: 0, response_bytes: 0 };
            self.scribe.happening(self.stamper.now(), Some(carrier), closed, &mut self.kept);
            self.cancelled.insert(live);
        } else if self.script.dialect.disconnect_cancels() {
            let id = live.0.to_raw();
            self.cancelled.insert(live);
            let cancel =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            self.send(cancel.as_bytes());
        }
    }

    pub(super) fn send(&mut self, body: &[u8]) {
        let at = self.stamper.now();
        let carrier = self.peer.send(body);
        if carrier.is_some() {
            let opened =
                Happening::CarrierOpened { method: "POST".to_string(), target: "/".to_string(), headers: Vec::new() };
            self.scribe.happening(at, carrier, opened, &mut self.kept);
        }
        self.scribe.body(Side::Client, at, carrier, body, &mut self.kept);
        let before = self.lines.lines.len();
        self.read_lines();
        if let Some(carrier) = carrier {
            let asked = self.lines.lines[before..].iter().filter(|line| line.from == Side::Client && line.is_request());
            self.carriers.extend(asked.filter_map(|line| Some((line.message.id.as_ref()?.canonical(), carrier))));
        }
    }

    /// The text of a line as it must be said now, or nothing when it must not.
    fn outgoing(&mut self, at: usize, opening: bool) -> Option<String> {
        let script = self.script;
        let line = script.line(at);
        let mut text = line.text();
        if let Some(life) = script.cancel_of.get(&at).map(|life| &script.lives[*life]) {
            let live = self.use_of(life);
            if self.answered.contains(&live) {
                let text = format!("{} was answered before its cancel could go out", life.words());
                self.note(NoteKind::ServerWasFaster, text);
                return None;
            }
            // Where closing is the cancel, a recorded message is played by closing.
            if script.dialect.disconnect_cancels() && self.carriers.contains_key(&live.0) {
                self.hang_up(self.script.cancel_of[&at]);
                return None;
            }
            self.cancelled.insert(live);
        }
        if line.is_response() {
            if let Some(life) = script.answer_of.get(&at).map(|life| &script.lives[*life]) {
                let Some(live) = self.asks.get(&life.asked).cloned() else {
                    self.note(NoteKind::NotSent, format!("the answer to {}: the server did not ask it", life.words()));
                    return None;
                };
                text = rewrite(&text, &mut |path, _| is_at(path, &["id"]).then(|| live.to_raw()))?;
            }
        } else if let Some(number) = script.life_of.get(&at) {
            let live = self.use_of(&script.lives[*number]);
            self.playing.insert(live.0.clone(), (*number, live.1));
            self.sent_in_order.push(live.clone());
            self.sent.insert(live);
        }
        let values = &self.values;
        let (round, stride) = (self.round, self.stride);
        let is_cancel = script.cancels(at).is_some();
        let is_response = line.is_response();
        let renamed = rewrite(&text, &mut |path, literal| {
            if round > 0 && !is_response && !opening {
                let is_id = is_at(path, &["id"])
                    || is_at(path, &["params", "_meta", "progressToken"])
                    || is_at(path, &["params", "workDoneToken"])
                    || is_at(path, &["params", "partialResultToken"])
                    || (is_cancel && (is_at(path, &["params", "requestId"]) || is_at(path, &["params", "id"])));
                if is_id {
                    return Some(renamed(&Id::from_raw(literal), round, stride).to_raw());
                }
            }
            if path.len() > 1 { values.live(literal).cloned() } else { None }
        });
        Some(renamed.unwrap_or(text))
    }

    /// The id a recorded request of the client's has in this round.
    pub(super) fn use_of(&self, life: &super::Life) -> Use {
        let id = if self.round == 0 { life.id.clone() } else { renamed(&life.id, self.round, self.stride) };
        (id.canonical(), life.generation)
    }

    pub(super) fn note(&mut self, kind: NoteKind, text: String) {
        if self.notes.iter().filter(|note| note.kind == kind).count() < MOST_NOTES {
            self.notes.push(Note { kind, text });
        }
    }

    pub(super) fn finish(mut self) -> Run {
        let played = self.ending.clone();
        self.scribe.end(Side::Client, self.stamper.now(), Party::Client, How::Eof, &mut self.kept);
        self.read_lines();
        self.peer.close();
        let until = Instant::now() + Duration::from_millis(self.how.patience.drain_ms);
        while !self.exited && Instant::now() < until {
            match self.peer.hear(until.saturating_duration_since(Instant::now())) {
                Some(heard) => {
                    let done = matches!(heard.what, HeardWhat::Unreachable(_) | HeardWhat::Closed);
                    self.take(heard);
                    if done && !matches!(self.ending, Some(Ending::ServerClosed)) {
                        break;
                    }
                }
                None => break,
            }
            if self.is_flooded() {
                break;
            }
        }
        self.peer.end();
        Run {
            session: self.session,
            kept: self.kept,
            lines: self.lines.lines,
            asked_as: self.asked_as,
            not_sent: self.not_sent,
            values: self.values,
            notes: self.notes,
            ending: match (played, self.exit) {
                // Its output ends a moment before it does.
                (Some(Ending::ServerClosed), Some((code, signal))) => Ending::ServerEnded { code, signal },
                (played, _) => played.unwrap_or(Ending::Played),
            },
            rounds: self.rounds,
            stderr_tail: String::from_utf8_lossy(&self.stderr_tail).into_owned(),
        }
    }
}

/// The id that takes the place of `id` in a later round.
pub fn renamed(id: &Id, round: u32, stride: i64) -> Id {
    match id {
        Id::Int(int) => Id::Int(int.saturating_add(stride.saturating_mul(i64::from(round)))),
        Id::Text(text) => Id::Text(format!("{text}.{round}").into()),
        other => other.clone(),
    }
}
