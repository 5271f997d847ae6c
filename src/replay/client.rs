//! Plays the recorded client to a live server.
//!
//! Comes in: a script and a peer. Goes out: a [`Run`]: everything that was sent and heard, as events like any
//! other, with notes on what could not be played. A step waits for what caused it; a cancel goes out only while
//! its request is open; every wait has a limit with a name.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::script::{Need, Script, notice_kind};
use super::values::Values;
use super::{Heard, HeardWhat, Peer};
use crate::event::scribe::Scribe;
use crate::event::stamper::Stamper;
use crate::event::{
    Collected, Happening, How, Knows, Line, Micros, Party, Recording, Sample, Session, Side, Sink, Source,
};
use crate::rpc::edit::{is_at, rewrite};
use crate::rpc::{Id, Kind, Mark};

/// How fast recorded pauses are played. The server's own time is its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    Instant,
    Recorded,
    /// This many times as fast.
    Times(f64),
}

impl Pace {
    pub fn of(self, recorded: Micros) -> Duration {
        let recorded = recorded.max(0) as f64;
        match self {
            Pace::Instant => Duration::ZERO,
            Pace::Recorded => Duration::from_micros(recorded as u64),
            Pace::Times(speed) => Duration::from_micros((recorded / speed.max(1e-6)) as u64),
        }
    }
}

impl std::str::FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        match text {
            "instant" => return Ok(Pace::Instant),
            "recorded" => return Ok(Pace::Recorded),
            _ => {}
        }
        let number = text.trim_end_matches(['x', 'X', '×']);
        match number.parse::<f64>() {
            Ok(speed) if speed.is_finite() && speed > 0.0 && number != text => Ok(Pace::Times(speed)),
            _ => Err(format!(
                "{text} is no pace: write instant, recorded, or a number with x (10x is ten times as fast)"
            )),
        }
    }
}

/// How long each kind of wait may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For an answer, or a request of the server, that came in the recording.
    pub answer_ms: u64,
    /// For a notification that came in the recording; many are a matter of timing.
    pub notice_ms: u64,
    /// An unanswered request is left hanging when nothing has come for this long.
    pub hang_ms: u64,
    /// After the end of our messages, until the server has ended.
    pub drain_ms: u64,
    /// A recorded pause is cut to this.
    pub pause_ms: u64,
    /// For the whole run.
    pub run_ms: u64,
    /// More than this from the server is a flood.
    pub flood_bytes: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            answer_ms: 10_000,
            notice_ms: 1_000,
            hang_ms: 3_000,
            drain_ms: 2_000,
            pause_ms: 1_000,
            run_ms: 600_000,
            flood_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Something a reader of the result should know. Holds text from the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub kind: NoteKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// The request was answered before its cancel could go out.
    ServerWasFaster,
    /// A limit ran out.
    GaveUpWaiting,
    /// A message could not be sent: what it answers never came.
    NotSent,
    /// The server asked something the recording has no answer to.
    Unexpected,
    /// The recording itself is not whole.
    Recording,
}

impl NoteKind {
    pub fn name(self) -> &'static str {
        match self {
            NoteKind::ServerWasFaster => "server-was-faster",
            NoteKind::GaveUpWaiting => "gave-up-waiting",
            NoteKind::NotSent => "not-sent",
            NoteKind::Unexpected => "unexpected",
            NoteKind::Recording => "recording",
        }
    }
}

/// How a run came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Everything was played.
    Played,
    /// The server ended first.
    ServerEnded {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The server closed its output and said no more.
    ServerClosed,
    Unreachable(String),
    /// The limit of the whole run.
    RunLimit,
    Flooded,
}

/// One repetition: what it left behind.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Round {
    /// Requests unanswered and not cancelled, over all rounds so far.
    pub open: u64,
    /// Cancelled requests nothing came for, over all rounds so far.
    pub cancelled: u64,
    pub usage: Option<Sample>,
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    pub session: Session,
    pub kept: Collected,
    /// The live run, line by line.
    pub lines: Vec<Line>,
    /// The live request in the place of a recorded one of the server, by line numbers.
    pub asked_as: HashMap<usize, usize>,
    /// Client messages of the first round that were not sent.
    pub not_sent: HashSet<usize>,
    pub values: Values,
    pub notes: Vec<Note>,
    pub ending: Ending,
    pub rounds: Vec<Round>,
    pub stderr_tail: String,
}

#[derive(Debug, Clone)]
pub struct Play {
    pub pace: Pace,
    pub patience: Patience,
    /// How often the middle of the script is played.
    pub times: u32,
    /// What the live session is called.
    pub target: String,
}

impl Play {
    pub fn run(&self, script: &Script, peer: &mut dyn Peer, stamper: Stamper) -> Run {
        let mut player = Player::new(self, script, peer, stamper);
        player.play();
        player.finish()
    }
}

/// At most this many notes of one kind; the rest is counted in the last.
const MOST_NOTES: usize = 20;
/// Among this many requests of one method that still wait, the one with the same params is looked for.
const MOST_ASKS_COMPARED: usize = 256;
const STDERR_TAIL_BYTES: usize = 2_000;

type Use = (Id, u32);

struct Player<'a> {
    how: &'a Play,
    script: &'a Script,
    peer: &'a mut dyn Peer,
    stamper: Stamper,
    scribe: Scribe,
    kept: Collected,
    session: Session,
    lines: Recording,
    read: usize,
    deadline: Instant,
    ending: Option<Ending>,
    exited: bool,
    bytes: u64,
    values: Values,
    round: u32,
    stride: i64,
    /// Our requests that were answered, sent, cancelled: live id, and how often it had been used.
    answered: HashSet<Use>,
    sent: HashSet<Use>,
    cancelled: HashSet<Use>,
    /// The recorded life behind a live id, and which use of it this is.
    playing: HashMap<Id, (usize, u32)>,
    open_asks: HashMap<String, Vec<usize>>,
    heard_of_method: HashMap<String, usize>,
    notices: HashMap<String, usize>,
    notices_before: HashMap<String, usize>,
    /// Kinds of notifications that did not come once are not waited for again.
    given_up: HashSet<String>,
    /// Recorded line of a server's request → live id, this round.
    asks: HashMap<usize, Id>,
    asked_as: HashMap<usize, usize>,
    not_sent: HashSet<usize>,
    last_heard: Instant,
    notes: Vec<Note>,
    rounds: Vec<Round>,
    stderr_tail: Vec<u8>,
}

impl<'a> Player<'a> {
    fn new(how: &'a Play, script: &'a Script, peer: &'a mut dyn Peer, stamper: Stamper) -> Player<'a> {
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
            bytes: 0,
            values: Values::of(&script.recording.lines),
            round: 0,
            stride: stride.max().unwrap_or(0).clamp(0, 1 << 40) + 1,
            answered: HashSet::new(),
            sent: HashSet::new(),
            cancelled: HashSet::new(),
            playing: HashMap::new(),
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

    fn play(&mut self) {
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
                self.count_round();
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
    }

    fn count_round(&mut self) {
        let open = self.sent.iter().filter(|id| !self.answered.contains(id) && !self.cancelled.contains(id)).count();
        let cancelled = self.cancelled.iter().filter(|id| !self.answered.contains(id)).count();
        self.rounds.push(Round { open: open as u64, cancelled: cancelled as u64, usage: self.peer.usage() });
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
        let in_batch = script.line(step.lines[0]).batch.is_some();
        if texts.is_empty() {
            return;
        }
        let body = if in_batch { format!("[{}]", texts.join(",")) } else { texts.swap_remove(0) };
        self.send(body.as_bytes());
    }

    fn send(&mut self, body: &[u8]) {
        let at = self.stamper.now();
        let carrier = self.peer.send(body);
        if carrier.is_some() {
            let opened =
                Happening::CarrierOpened { method: "POST".to_string(), target: "/".to_string(), headers: Vec::new() };
            self.scribe.happening(at, carrier, opened, &mut self.kept);
        }
        self.scribe.body(Side::Client, at, carrier, body, &mut self.kept);
        self.read_lines();
    }

    /// The text of a line as it must be said now, or nothing when it must not.
    fn outgoing(&mut self, at: usize, opening: bool) -> Option<String> {
        let script = self.script;
        let line = script.line(at);
        let mut text = line.text();
        if let Some((_, life)) = script.cancels(at) {
            if let Some(life) = life.map(|life| &script.lives[life]) {
                let live = self.use_of(life);
                if self.answered.contains(&live) {
                    let text = format!("{} was answered before its cancel could go out", life.words());
                    self.note(NoteKind::ServerWasFaster, text);
                    return None;
                }
                self.cancelled.insert(live);
            }
        }
        if line.is_response() {
            if let Some(life) = script.answer_of.get(&at).map(|life| &script.lives[*life]) {
                let Some(live) = self.asks.get(&life.asked).cloned() else {
                    self.note(NoteKind::NotSent, format!("the answer to {}: the server did not ask it", life.words()));
                    return None;
                };
                text = rewrite(&text, &mut |path, _| is_at(path, &["id"]).then(|| live.to_raw()))?;
            }
        } else if line.is_request() {
            if let Some(number) = script.life_of.get(&at) {
                let live = self.use_of(&script.lives[*number]);
                self.playing.insert(live.0.clone(), (*number, live.1));
                self.sent.insert(live);
            }
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
    fn use_of(&self, life: &super::Life) -> Use {
        let id = if self.round == 0 { life.id.clone() } else { renamed(&life.id, self.round, self.stride) };
        (id.canonical(), life.generation)
    }

    fn await_need(&mut self, need: &Need) {
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
    fn await_owed(&mut self) {
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
    fn settle(&mut self) {
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
    fn listen(&mut self, wait: Duration) -> bool {
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

    fn take(&mut self, heard: Heard) {
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
        if self.bytes > self.how.patience.flood_bytes {
            self.ending.get_or_insert(Ending::Flooded);
        }
        self.read_lines();
    }

    /// Looks at the events that are new.
    fn read_lines(&mut self) {
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

    fn note(&mut self, kind: NoteKind, text: String) {
        if self.notes.iter().filter(|note| note.kind == kind).count() < MOST_NOTES {
            self.notes.push(Note { kind, text });
        }
    }

    fn finish(mut self) -> Run {
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
            if self.bytes > self.how.patience.flood_bytes {
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
            ending: played.unwrap_or(Ending::Played),
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
