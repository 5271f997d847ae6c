//! The recorded server, on stage: what it says to a live client, and when.
//!
//! Comes in: the live client's messages, one by one, with the time. Goes out: [`Cue`]s as they fall due. Each
//! line of the recorded server hangs on a line of the client's: an answer on its request (or on the cancel it came
//! after), progress on the request it is about, everything else on the last thing the client had said. What the
//! recorded server never said is never said: what hung hangs. No clock and no transport are known here.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::compare::Ignore;
use super::fault::{Fault, FaultEnd};
use super::lifecycle::cancelled_id;
use super::matching::Matching;
use super::play::Pace;
use super::script::Script;
use crate::event::{Happening, Line, Micros, Party, Side, What};
use crate::protocol::{Role, protocol};
use crate::rpc::edit::{is_at, rewrite};
use crate::rpc::{Id, Kind, Mark};

/// What to do with a request the recording does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    /// Answer with an error that says what is nearest.
    Error,
    Hang,
    /// Hand it to a real server.
    Forward,
}

/// Something to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Cue {
    Say {
        text: String,
        /// The live request this belongs to, for transports where answers travel with their request.
        about: Option<Id>,
        /// It settles that request.
        is_answer: bool,
    },
    /// The recorded server closed the connection here, or a fault does.
    Disconnect,
    Forward(String),
}

/// What will be said: ready, or a recorded line that gets its live values when its time has come.
enum Planned {
    Ready(Cue),
    Line { at: usize, to: Option<Id> },
}

pub struct Stage {
    script: Script,
    pace: Pace,
    unmatched: Unmatched,
    faults: Vec<Fault>,
    matching: Matching,
    /// Server lines by the client line they hang on; those before any client line under `None`.
    hanging: HashMap<Option<usize>, Vec<usize>>,
    /// Client answers that must have come before a server line may be said.
    gates: HashMap<usize, Vec<usize>>,
    /// Where the recorded server closed: after this client line.
    closes_after: Option<(usize, Micros)>,
    /// Client lines that have had their live counterpart.
    played: HashSet<usize>,
    /// Waits for gates: server lines, with the time they may be said at the earliest.
    gated: Vec<(usize, Micros)>,
    due: BTreeMap<(Micros, u64), Planned>,
    order: u64,
    /// Recorded life → live id, and token.
    live: HashMap<usize, (Id, Option<String>)>,
    /// Live id → recorded life.
    lives: HashMap<Id, usize>,
    /// Live id of a request of ours → recorded life.
    asked: HashMap<Id, usize>,
    /// Answers that were owed after a cancel and have been said, by life.
    said: HashSet<usize>,
    client_notices: HashMap<String, Vec<usize>>,
    /// How many notifications of each method have been played, which is where to look for the next.
    notices_played: HashMap<String, usize>,
    /// Recorded lives of the client's requests by progress token and by id, as written.
    by_token: HashMap<String, usize>,
    by_id: HashMap<String, usize>,
    answer_of: HashMap<usize, usize>,
    notes: Vec<String>,
}

impl Stage {
    pub fn new(script: Script, pace: Pace, unmatched: Unmatched, faults: Vec<Fault>, ignore: Ignore) -> Stage {
        let matching = Matching::new(&script, ignore);
        let mut stage = Stage {
            hanging: HashMap::new(),
            gates: HashMap::new(),
            closes_after: None,
            played: HashSet::new(),
            gated: Vec::new(),
            due: BTreeMap::new(),
            order: 0,
            live: HashMap::new(),
            lives: HashMap::new(),
            asked: HashMap::new(),
            said: HashSet::new(),
            client_notices: HashMap::new(),
            notices_played: HashMap::new(),
            by_token: HashMap::new(),
            by_id: HashMap::new(),
            answer_of: script.answer_of.clone(),
            notes: Vec::new(),
            matching,
            pace,
            unmatched,
            faults,
            script,
        };
        stage.hang_up();
        stage
    }

    /// Decides what each recorded line hangs on.
    fn hang_up(&mut self) {
        let script = &self.script;
        let lines = &script.recording.lines;
        let role = |line: &Line| protocol(script.dialect).role(line.message.method());
        let mut tokens: HashMap<&str, usize> = HashMap::new();
        for (number, life) in script.lives.iter().enumerate().filter(|(_, life)| life.asked_by == Side::Client) {
            self.by_id.insert(life.id.to_raw(), number);
            let marks = &lines[life.asked].message.marks;
            for mark in [Mark::RequestProgressToken, Mark::WorkDoneToken] {
                self.by_token.extend(marks.raw(mark).map(|token| (token.to_string(), number)));
            }
        }
        let mut last_client = None;
        let mut answers: Vec<usize> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            if line.from == Side::Client {
                last_client = Some(at);
                if line.is_response() {
                    answers.push(at);
                } else if line.message.kind == Kind::Notification {
                    self.client_notices.entry(line.message.method().to_string()).or_default().push(at);
                }
                for mark in [Mark::RequestProgressToken, Mark::WorkDoneToken, Mark::PartialResultToken] {
                    if let Some(token) = line.message.marks.raw(mark) {
                        tokens.insert(token, at);
                    }
                }
                continue;
            }
            let mut on = last_client;
            if line.is_response() {
                if let Some(life) = script.answer_of.get(&at).map(|life| &script.lives[*life]) {
                    on = Some(life.cancel.filter(|cancel| *cancel < at).unwrap_or(life.asked));
                }
            } else if matches!(role(line), Role::Progress | Role::TokenProgress)
                && let Some(token) =
                    line.message.marks.raw(Mark::ProgressToken).or_else(|| line.message.marks.raw(Mark::Token))
                && let Some(asked) = tokens.get(token)
            {
                on = Some(*asked);
            }
            self.hanging.entry(on).or_default().push(at);
            let from = answers.partition_point(|answer| Some(*answer) <= on);
            if from < answers.len() {
                self.gates.insert(at, answers[from..].to_vec());
            }
        }
        for event in &script.recording.others {
            match &event.what {
                What::Happening(Happening::Closed { from: Side::Client, .. }) => break,
                What::Happening(
                    Happening::Closed { from: Side::Server, by: Party::Server, .. } | Happening::Exited { .. },
                ) => {
                    let before = lines.iter().rposition(|line| line.from == Side::Client && line.seq < event.seq);
                    self.closes_after = before.map(|line| (line, event.at - lines[line].at));
                    break;
                }
                _ => {}
            }
        }
    }

    /// What the recorded server said before the client said anything.
    pub fn open(&mut self, now: Micros) {
        for at in self.hanging.get(&None).cloned().unwrap_or_default() {
            self.say(at, now, None, false);
        }
    }

    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// When something falls due next.
    pub fn next_due(&self) -> Option<Micros> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// What is due by now, in order.
    pub fn due(&mut self, now: Micros) -> Vec<Cue> {
        let later = self.due.split_off(&(now + 1, 0));
        let planned: Vec<Planned> = std::mem::replace(&mut self.due, later).into_values().collect();
        let cue = |planned| match planned {
            Planned::Ready(cue) => Some(cue),
            Planned::Line { at, to } => self.line_cue(at, to),
        };
        planned.into_iter().filter_map(cue).collect()
    }

    /// A message of the live client.
    pub fn hear(&mut self, line: &Line, now: Micros) {
        match line.message.kind {
            Kind::Request => self.hear_request(line, now),
            Kind::Notification => self.hear_notice(line, now),
            Kind::Result | Kind::Error => {
                let id = line.message.id.as_ref().map(Id::canonical);
                let life = id.and_then(|id| self.asked.get(&id).copied());
                if let Some(answer) = life.and_then(|life| self.script.lives[life].answers.first().copied()) {
                    self.play(answer, now, None);
                }
            }
            Kind::Unreadable(_) => {
                let error = r#"{"code":-32700,"message":"rpctap replay: this is not JSON-RPC"}"#;
                let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{error}}}");
                self.push(now, Cue::Say { text, about: None, is_answer: false });
            }
        }
    }

    fn hear_request(&mut self, line: &Line, now: Micros) {
        let id = line.message.id.clone().unwrap_or(Id::Null);
        let fault = self.faults.iter().find(|fault| fault.hits(line)).cloned();
        let mut now = now;
        if let Some(fault) = &fault {
            now += fault.delay.as_micros() as Micros;
            match fault.end {
                FaultEnd::AsRecorded => {}
                FaultEnd::Drop => return,
                FaultEnd::Disconnect => return self.push(now, Cue::Disconnect),
                FaultEnd::Error(code) => {
                    return self
                        .push(now, answer(&id, &format!(r#"{{"code":{code},"message":"rpctap replay: --fault"}}"#)));
                }
            }
        }
        let Some(found) = self.matching.find(line) else {
            let nearest = self.matching.nearest(&self.script, line);
            self.notes.push(format!("{} {}: not in the recording; {nearest}", id, line.message.method()));
            match self.unmatched {
                Unmatched::Hang => {}
                Unmatched::Forward => self.push(now, Cue::Forward(line.text())),
                Unmatched::Error => {
                    let message = serde_json::Value::from(format!("rpctap replay: not in the recording; {nearest}"));
                    self.push(now, answer(&id, &format!(r#"{{"code":-32601,"message":{message}}}"#)));
                }
            }
            return;
        };
        let asked = self.script.lives[found.life].asked;
        let token =
            [Mark::RequestProgressToken, Mark::WorkDoneToken].iter().find_map(|mark| line.message.marks.raw(*mark));
        self.lives.insert(id.canonical(), found.life);
        self.live.insert(found.life, (id, token.map(str::to_string)));
        if !found.again {
            self.play(asked, now, Some(found.life));
            return;
        }
        self.said.remove(&found.life);
        // The recording has no more of these: only what answers the request itself is said again.
        self.notes.push(format!(
            "{}: asked more often than recorded; the last answer is given again",
            self.script.lives[found.life].words()
        ));
        for at in self.hanging.get(&Some(asked)).cloned().unwrap_or_default() {
            if self.answer_of.get(&at) == Some(&found.life) {
                self.say(at, now, Some(asked), true);
            }
        }
        self.after_cancel(found.life, now);
    }

    fn hear_notice(&mut self, line: &Line, now: Micros) {
        if let Some(id) = cancelled_id(line, self.script.dialect) {
            let life = self.lives.get(&id.canonical()).copied();
            if let Some(cancel) = life.and_then(|life| self.script.lives[life].cancel) {
                self.play(cancel, now, None);
            }
            return;
        }
        // The next of this method.
        let nth = self.notices_played.entry(line.message.method().to_string()).or_default();
        let next = self.client_notices.get(line.message.method()).and_then(|lines| lines.get(*nth));
        *nth += 1;
        if let Some(at) = next.copied() {
            self.play(at, now, None);
        }
    }

    /// The live client has said what stands at `at`: everything that hangs on it follows.
    fn play(&mut self, at: usize, now: Micros, life: Option<usize>) {
        if !self.played.insert(at) && life.is_none() {
            return;
        }
        let now_open: Vec<(usize, Micros)> = {
            let played = &self.played;
            let gates = &self.gates;
            let is_open =
                |line: usize| gates.get(&line).is_none_or(|gates| gates.iter().all(|gate| played.contains(gate)));
            let (open, shut) = std::mem::take(&mut self.gated).into_iter().partition(|(line, _)| is_open(*line));
            self.gated = shut;
            open
        };
        for (line, earliest) in now_open {
            // Its own pause counts from the answer it waited for.
            let pause = self.pace.of(self.script.line(line).at - self.script.line(at).at).as_micros() as Micros;
            self.push_line(line, (now + pause).max(earliest.min(now)));
        }
        for line in self.hanging.get(&Some(at)).cloned().unwrap_or_default() {
            self.say(line, now, Some(at), false);
        }
        if let Some(life) = life {
            self.after_cancel(life, now);
        }
        if let Some((line, pause)) = self.closes_after
            && line == at
        {
            let pause = self.pace.of(pause).as_micros() as Micros;
            // After everything said up to here.
            let last = self.due.keys().next_back().map_or(now, |(at, _)| *at);
            self.push((now + pause).max(last), Cue::Disconnect);
        }
    }

    /// An answer that came only after a cancel: without the cancel it comes when it came then.
    fn after_cancel(&mut self, life: usize, now: Micros) {
        let recorded = &self.script.lives[life];
        let Some(cancel) = recorded.cancel else { return };
        if let Some(first) = recorded.answers.iter().find(|at| **at > cancel).copied() {
            let pause = self.script.line(first).at - self.script.line(recorded.asked).at;
            let scaled = match self.pace {
                Pace::Instant => pause,
                pace => pace.of(pause).as_micros() as Micros,
            };
            self.push_line(first, now + scaled);
        }
    }

    fn say(&mut self, at: usize, now: Micros, on: Option<usize>, again: bool) {
        let from = on.or(Some(0)).map_or(0, |on| self.script.line(on).at);
        let pause = self.pace.of(self.script.line(at).at - from).as_micros() as Micros;
        let shut = self.gates.get(&at).is_some_and(|gates| !gates.iter().all(|gate| self.played.contains(gate)));
        if shut && !again {
            self.gated.push((at, now + pause));
        } else {
            self.push_line(at, now + pause);
        }
    }

    fn push_line(&mut self, at: usize, when: Micros) {
        let life = self.answer_of.get(&at).and_then(|life| self.live.get(life));
        let to = life.map(|(id, _)| id.clone());
        self.order += 1;
        self.due.insert((when, self.order), Planned::Line { at, to });
    }

    /// A recorded line with the live id and token in it.
    fn line_cue(&mut self, at: usize, to: Option<Id>) -> Option<Cue> {
        let line = self.script.line(at);
        let mut text = line.text();
        if line.is_response() {
            let life = *self.answer_of.get(&at)?;
            let id = to?;
            text = rewrite(&text, &mut |path, _| is_at(path, &["id"]).then(|| id.to_raw()))?;
            let streams = self.script.lives[life].answers.len() > 1;
            // One of two ways it may come: by the cancel or by the clock.
            if !streams && self.script.lives[life].cancel.is_some() && !self.said.insert(life) {
                return None;
            }
            let is_answer = self.script.lives[life].answers.last() == Some(&at);
            return Some(Cue::Say { text, about: Some(id), is_answer });
        }
        if line.is_request() {
            let life = *self.script.life_of.get(&at)?;
            self.asked.insert(line.message.id.as_ref().unwrap_or(&Id::Null).canonical(), life);
        }
        let mut about = None;
        let marks = &line.message.marks;
        let token = marks.raw(Mark::ProgressToken).or_else(|| marks.raw(Mark::Token));
        if let Some(token) = token {
            let asker = self.by_token.get(token).and_then(|life| self.live.get(life));
            if let Some((id, live_token)) = asker {
                // A client that asks for no progress gets none.
                let live_token = live_token.clone()?;
                about = Some(id.clone());
                text = rewrite(&text, &mut |path, _| {
                    (is_at(path, &["params", "progressToken"]) || is_at(path, &["params", "token"]))
                        .then(|| live_token.clone())
                })?;
            }
        }
        if let Some(subscription) = marks.raw(Mark::ParamSubscription) {
            let listen = self.by_id.get(subscription).and_then(|life| self.live.get(life));
            if let Some((id, _)) = listen {
                let raw = id.to_raw();
                about = Some(id.clone());
                let place = ["params", "_meta", "io.modelcontextprotocol/subscriptionId"];
                text = rewrite(&text, &mut |path, _| is_at(path, &place).then(|| raw.clone()))?;
            }
        }
        Some(Cue::Say { text, about, is_answer: false })
    }

    fn push(&mut self, when: Micros, cue: Cue) {
        self.order += 1;
        self.due.insert((when, self.order), Planned::Ready(cue));
    }
}

fn answer(id: &Id, error: &str) -> Cue {
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", id.to_raw());
    Cue::Say { text, about: Some(id.clone()), is_answer: true }
}
