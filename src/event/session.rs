//! What is known of a conversation apart from its events.

use serde::{Deserialize, Serialize};

use super::Micros;

/// Tells sessions apart within one run of a tap or importer. The store gives them its own numbers.
pub type SessionKey = u32;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    #[serde(skip)]
    pub key: SessionKey,
    /// What the user called it, or a name made from the command, the address or the file.
    pub name: String,
    pub source: Source,
    /// The tapped command, the upstream address or the imported file; for people, never run.
    pub target: String,
    pub started_at: Micros,
    pub knows: Knows,
}

/// How the traffic was come by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// `rpctap record`.
    Stdio,
    /// `rpctap proxy`.
    Http,
    /// An importer, by its format's name.
    Import(String),
}

/// What this way of capturing can know at all. What it cannot softens the verdicts it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knows {
    /// Events have real times. Without them nothing can be overdue, raced or slow.
    pub times: bool,
    /// Who sent a message is recorded, not guessed.
    pub direction: bool,
    /// Ids are on record, and whose they are: an answer names its request.
    pub ids: bool,
    /// Params, results and errors are on record, so that cancels and tokens can be read.
    pub payload: bool,
    /// The end of a stream, a connection or the process would have been recorded.
    pub ends: bool,
}

impl Knows {
    pub const ALL: Knows = Knows { times: true, direction: true, ids: true, payload: true, ends: true };
}
