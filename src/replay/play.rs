//! How to play, and what came of it: the words a replay of the client is spoken of in.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::Peer;
use super::client::Player;
use super::script::Script;
use super::values::Values;
use crate::event::{Collected, Line, Micros, Sample, Session, Stamper};

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
    /// So are more messages than this beyond ten times the recorded ones.
    pub flood_messages: usize,
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
            flood_messages: 50_000,
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
