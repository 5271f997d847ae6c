//! What the recorded client said, and what each of its messages waited for.
//!
//! Comes in: a recording. Goes out: [`Step`]s in recorded order. The needs of a step are what the server had said
//! since the step before: answers, requests of its own, notifications. A step goes out when they have come, so
//! that a slower or faster server changes the times and not the order.

use std::collections::HashMap;

use super::lifecycle::{self, Life, cancelled_id};
use crate::error::{Error, Result};
use crate::event::{Happening, Line, Micros, Party, Recording, Side, Source, What};
use crate::protocol::{Dialect, Role, protocol};
use crate::rpc::{Id, Kind, Mark};
use crate::wire::Framing;

#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub recording: Recording,
    pub dialect: Dialect,
    pub lives: Vec<Life>,
    pub steps: Vec<Step>,
    /// The steps that open the session, played once; then come those that `--times` repeats; then those that
    /// end it, played once.
    pub opening: usize,
    pub closing: usize,
    /// The life of each request line.
    pub life_of: HashMap<usize, usize>,
    /// The life each cancel ends, by the cancel's line.
    pub cancel_of: HashMap<usize, usize>,
    /// The life each answer belongs to, by the answer's line.
    pub answer_of: HashMap<usize, usize>,
    /// Lives of the server's requests, by method.
    pub asks: HashMap<String, Vec<usize>>,
    /// Lines of the server's notifications, by method.
    pub notices: HashMap<String, Vec<usize>>,
}

/// One thing the client sends: a message, or a batch of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Empty where the client closed a connection instead.
    pub lines: Vec<usize>,
    /// The life whose HTTP exchange the client closed before it was answered.
    pub hangs_up: Option<usize>,
    pub needs: Vec<Need>,
    /// From the last need (or the step before) to this one, as recorded.
    pub pause: Micros,
}

/// What a step waits for. Numbers are places in the recording's lines.
#[derive(Debug, Clone, PartialEq)]
pub enum Need {
    /// The answer to the client's request `life`. `after_cancel`: the client had cancelled it, and a server that
    /// has mended its ways will not send it.
    Answer { life: usize, line: usize, after_cancel: bool },
    /// A request of the server.
    Ask { line: usize },
    /// As many notifications of this kind as the recording had by then.
    Notice { line: usize, kind: String, count: usize, after_cancel: bool },
}

/// What makes notifications alike: the method, and the token they are about.
pub fn notice_kind(line: &Line) -> String {
    let marks = &line.message.marks;
    let about = [Mark::ProgressToken, Mark::Token, Mark::ParamTaskId, Mark::ParamSubscription];
    match about.iter().find_map(|mark| marks.raw(*mark)) {
        // Server-made tokens differ from run to run; client-made ones are the same literal.
        Some(token) => format!("{} {token}", line.message.method()),
        None => line.message.method().to_string(),
    }
}

impl Script {
    pub fn new(recording: Recording) -> Result<Script> {
        if !recording.session.knows.direction {
            return Err(Error::new("reading the recording: it does not say who sent which message; replay needs that"));
        }
        if recording.client_lines() == 0 {
            return Err(Error::new(
                "reading the recording: it holds no message of the client; there is nothing to replay",
            ));
        }
        let dialect = lifecycle::dialect(&recording.lines);
        let mut recording = recording;
        if dialect.is_lsp_like() && recording.session.source != Source::Stdio {
            // A log does not say how its messages were framed; the protocol does.
            recording.framing = Framing::ContentLength;
        }
        let closed = lifecycle::client_closed(&recording.others);
        let lives = lifecycle::lives_until(&recording.lines, dialect, closed);
        let life_of: HashMap<usize, usize> = lives.iter().enumerate().map(|(n, life)| (life.asked, n)).collect();
        let mut answer_of: HashMap<usize, usize> = HashMap::new();
        for (number, life) in lives.iter().enumerate() {
            for at in &life.answers {
                answer_of.insert(*at, number);
            }
        }
        let cancel_of: HashMap<usize, usize> =
            lives.iter().enumerate().filter_map(|(number, life)| Some((life.cancel?, number))).collect();
        let steps = steps(&recording.lines, &lives, &answer_of, &cancel_of, dialect);
        let steps = with_hang_ups(steps, &recording, &lives);
        let opening = opening(&recording.lines, &steps, dialect);
        let closing = closing(&recording.lines, &steps, dialect).max(opening);
        let mut asks: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, life) in lives.iter().enumerate().filter(|(_, life)| life.asked_by == Side::Server) {
            asks.entry(life.method.clone()).or_default().push(number);
        }
        let mut notices: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, line) in recording.lines.iter().enumerate() {
            if line.from == Side::Server && line.message.kind == Kind::Notification {
                notices.entry(line.message.method().to_string()).or_default().push(at);
            }
        }
        Ok(Script { recording, dialect, lives, steps, opening, closing, life_of, cancel_of, answer_of, asks, notices })
    }

    /// The line of the client's that names a request to cancel, and that request's life.
    pub fn cancels(&self, line: usize) -> Option<(Id, Option<usize>)> {
        let id = cancelled_id(&self.recording.lines[line], self.dialect)?;
        Some((id, self.cancel_of.get(&line).copied()))
    }

    pub fn line(&self, at: usize) -> &Line {
        &self.recording.lines[at]
    }
}

fn steps(
    lines: &[Line],
    lives: &[Life],
    answer_of: &HashMap<usize, usize>,
    cancel_of: &HashMap<usize, usize>,
    dialect: Dialect,
) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut needs: Vec<Need> = Vec::new();
    let mut notices: HashMap<String, usize> = HashMap::new();
    let mut cancelled_tokens: Vec<String> = Vec::new();
    let mut since = lines.first().map_or(0, |line| line.at);
    for (at, line) in lines.iter().enumerate() {
        if line.from == Side::Client {
            let same_batch = steps.last().and_then(|step| step.lines.last()).is_some_and(|last: &usize| {
                line.batch.is_some() && lines[*last].batch == line.batch && needs.is_empty()
            });
            match steps.last_mut() {
                Some(step) if same_batch => step.lines.push(at),
                _ => {
                    let pause = (line.at - since).max(0);
                    steps.push(Step { lines: vec![at], hangs_up: None, needs: std::mem::take(&mut needs), pause });
                }
            }
            if let Some(life) = cancel_of.get(&at) {
                let marks = &lines[lives[*life].asked].message.marks;
                for mark in [Mark::RequestProgressToken, Mark::WorkDoneToken] {
                    cancelled_tokens.extend(marks.raw(mark).map(str::to_string));
                }
            }
            since = line.at;
            continue;
        }
        let need = if line.is_response() {
            answer_of.get(&at).map(|life| {
                let after_cancel = lives[*life].cancel.is_some_and(|cancel| cancel < at);
                Need::Answer { life: *life, line: at, after_cancel }
            })
        } else if line.is_request() {
            Some(Need::Ask { line: at })
        } else if line.message.method.is_some() {
            let kind = notice_kind(line);
            let count = notices.entry(kind.clone()).or_default();
            *count += 1;
            let is_progress =
                matches!(protocol(dialect).role(line.message.method()), Role::Progress | Role::TokenProgress);
            let after_cancel = is_progress && cancelled_tokens.iter().any(|token| kind.ends_with(token.as_str()));
            Some(Need::Notice { line: at, kind, count: *count, after_cancel })
        } else {
            None
        };
        if let Some(need) = need {
            // Of notifications of one kind only the last is waited for.
            if let Need::Notice { kind, .. } = &need {
                needs.retain(|other| !matches!(other, Need::Notice { kind: before, .. } if before == kind));
            }
            needs.push(need);
            since = line.at;
        }
    }
    steps
}

/// Puts in where the client closed the exchange of a request that was still open.
fn with_hang_ups(mut steps: Vec<Step>, recording: &Recording, lives: &[Life]) -> Vec<Step> {
    let mut by_carrier: HashMap<u64, usize> = HashMap::new();
    for (number, life) in lives.iter().enumerate().filter(|(_, life)| life.asked_by == Side::Client) {
        by_carrier.extend(recording.lines[life.asked].carrier.map(|carrier| (carrier, number)));
    }
    for event in &recording.others {
        let closed = matches!(&event.what, What::Happening(Happening::CarrierClosed { by: Party::Client, .. }));
        let Some(life) = event.carrier.filter(|_| closed).and_then(|carrier| by_carrier.get(&carrier)) else {
            continue;
        };
        let asked = &recording.lines[lives[*life].asked];
        if lives[*life].answers.iter().any(|at| recording.lines[*at].seq < event.seq) {
            continue;
        }
        let place =
            steps.partition_point(|step| step.lines.first().is_none_or(|at| recording.lines[*at].seq < event.seq));
        let pause = (event.at - asked.at).max(0);
        steps.insert(place, Step { lines: Vec::new(), hangs_up: Some(*life), needs: Vec::new(), pause });
    }
    steps
}

fn opening(lines: &[Line], steps: &[Step], dialect: Dialect) -> usize {
    let protocol = protocol(dialect);
    steps
        .iter()
        .position(|step| {
            !step.lines.iter().all(|at| {
                matches!(
                    protocol.role(lines[*at].message.method()),
                    Role::Initialize | Role::Initialized | Role::Discover
                )
            })
        })
        .unwrap_or(steps.len())
}

fn closing(lines: &[Line], steps: &[Step], dialect: Dialect) -> usize {
    let protocol = protocol(dialect);
    let ends = |step: &Step| {
        step.lines.iter().all(|at| matches!(protocol.role(lines[*at].message.method()), Role::Shutdown | Role::Exit))
    };
    steps.len() - steps.iter().rev().take_while(|step| ends(step)).count()
}
