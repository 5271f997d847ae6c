//! What became of each request, told by order alone.
//!
//! Comes in: the lines of a recorded or a live run. Goes out: one [`Life`] per request, in the order they were
//! asked. Unlike the verdicts of `finding` this knows no deadlines, so that a run played at another pace is still
//! the same: answered, failed, cancelled and what came of it, or left hanging when the lines ended.

use std::collections::HashMap;

use crate::event::{Event, Happening, Line, Micros, Side, What};
use crate::protocol::{Dialect, Role, Strength, hear, protocol};
use crate::rpc::{Id, Kind, Mark};

/// What counts as running on after a cancel: later than this, so that what crossed it on the way does not.
pub const RACE_MICROS: Micros = 250_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Life {
    pub asked_by: Side,
    pub id: Id,
    /// Counts the uses of this id by this side, from 1.
    pub generation: u32,
    pub method: String,
    pub tool: Option<String>,
    /// Places in the lines.
    pub asked: usize,
    pub answers: Vec<usize>,
    /// The first cancel that came while it was open.
    pub cancel: Option<usize>,
    /// Progress seen after the cancel and the race window.
    pub ran_on: usize,
    pub fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    Answered,
    Failed,
    LeftHanging,
    CancelledSilent,
    CancelledRanOn,
    CancelledAnswered,
    CancelledFailed,
}

impl Fate {
    pub fn words(self) -> &'static str {
        match self {
            Fate::Answered => "answered",
            Fate::Failed => "answered with an error",
            Fate::LeftHanging => "left hanging",
            Fate::CancelledSilent => "cancelled, then silent",
            Fate::CancelledRanOn => "cancelled, but ran on",
            Fate::CancelledAnswered => "cancelled, then answered",
            Fate::CancelledFailed => "cancelled, then answered with an error",
        }
    }
}

impl Life {
    /// `2 tools/call (search)`
    pub fn words(&self) -> String {
        match &self.tool {
            Some(tool) => format!("{} {} ({tool})", self.id, self.method),
            None => format!("{} {}", self.id, self.method),
        }
    }

    fn settle(&mut self, lines: &[Line]) {
        let failed = |at: &usize| lines[*at].message.kind == Kind::Error;
        self.fate = match (self.cancel, self.answers.first()) {
            (None, None) => Fate::LeftHanging,
            (None, Some(at)) => {
                if failed(at) {
                    Fate::Failed
                } else {
                    Fate::Answered
                }
            }
            (Some(_), Some(at)) => {
                if failed(at) {
                    Fate::CancelledFailed
                } else {
                    Fate::CancelledAnswered
                }
            }
            (Some(_), None) => {
                if self.ran_on > 0 {
                    Fate::CancelledRanOn
                } else {
                    Fate::CancelledSilent
                }
            }
        };
    }
}

/// Which protocol the lines speak, as far as the strongest sign says.
pub fn dialect(lines: &[Line]) -> Dialect {
    let mut best = (Strength::Nothing, Dialect::Plain);
    for line in lines {
        if let Some(heard) = hear(&line.message)
            && heard.strength > best.0
        {
            best = (heard.strength, heard.dialect);
        }
    }
    best.1
}

/// The id a cancel names, where the line is one.
pub fn cancelled_id(line: &Line, dialect: Dialect) -> Option<Id> {
    match protocol(dialect).role(line.message.method()) {
        Role::CancelRequest(mark) => line.message.marks.raw(mark).map(Id::from_raw),
        _ => None,
    }
}

/// When the client closed its end, by `seq`.
pub fn client_closed(events: &[Event]) -> Option<u64> {
    let closed = |event: &&Event| matches!(event.what, What::Happening(Happening::Closed { from: Side::Client, .. }));
    events.iter().find(closed).map(|event| event.seq)
}

pub fn lives(lines: &[Line], dialect: Dialect) -> Vec<Life> {
    lives_until(lines, dialect, None)
}

/// Like [`lives`]; what is answered only after the client closed its end was left hanging: some servers settle
/// everything when they shut down.
pub fn lives_until(lines: &[Line], dialect: Dialect, closed: Option<u64>) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut latest: HashMap<(Side, Id), usize> = HashMap::new();
    let mut tokens: HashMap<(Side, String), usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let message = &line.message;
        if line.is_request() {
            let id = message.id.clone().unwrap_or(Id::Null);
            let key = (line.from, id.canonical());
            let generation = latest.get(&key).map_or(1, |before| lives[*before].generation + 1);
            latest.insert(key, lives.len());
            for token in [Mark::RequestProgressToken, Mark::WorkDoneToken] {
                if let Some(token) = message.marks.raw(token) {
                    tokens.insert((line.from, token.to_string()), lives.len());
                }
            }
            let tool = protocol(dialect).tool(message.method()).and_then(|mark| message.marks.text(mark));
            lives.push(Life {
                asked_by: line.from,
                id,
                generation,
                method: message.method().to_string(),
                tool: tool.map(str::to_string),
                asked: at,
                answers: Vec::new(),
                cancel: None,
                ran_on: 0,
                fate: Fate::LeftHanging,
            });
        } else if line.is_response() {
            if closed.is_none_or(|closed| line.seq < closed)
                && let Some(id) = &message.id
                && let Some(life) = latest.get(&(line.from.other(), id.canonical()))
            {
                lives[*life].answers.push(at);
            }
        } else if let Some(id) = cancelled_id(line, dialect) {
            // A cancel names a request of its own sender; only a server's end of a subscription names another's.
            if let Some(life) = latest.get(&(line.from, id.canonical())).map(|life| &mut lives[*life])
                && life.answers.is_empty()
            {
                life.cancel.get_or_insert(at);
            }
        } else if matches!(protocol(dialect).role(message.method()), Role::Progress | Role::TokenProgress)
            && let Some(token) = message.marks.raw(Mark::ProgressToken).or_else(|| message.marks.raw(Mark::Token))
            && let Some(life) = tokens.get(&(line.from.other(), token.to_string())).map(|life| &mut lives[*life])
            && let Some(cancel) = life.cancel
            && line.at > lines[cancel].at + RACE_MICROS
        {
            life.ran_on += 1;
        }
    }
    for life in &mut lives {
        life.settle(lines);
    }
    lives
}
