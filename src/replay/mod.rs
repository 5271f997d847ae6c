//! replay: session + live peer → divergences.
//!
//! Comes in: a recording and a peer to play it to. As the client ([`client`]) it sends what the recorded client
//! sent, each message when what caused it has come, and compares what became of every request. As the server
//! ([`server`]) it answers what the recorded server answered: what hung hangs. Every wait has a named limit and
//! ends in a verdict. This room refuses to print, and to judge: rules belong to `finding`.

pub mod child;
pub mod client;
pub mod compare;
pub mod expect;
pub mod fault;
pub mod http;
pub mod lifecycle;
pub mod matching;
pub mod play;
pub mod script;
pub mod serve_http;
pub mod server;
pub mod stdio;
pub mod values;
mod waits;

pub use compare::{Comparison, Difference, Ignore};
pub use lifecycle::{Fate, Life};
pub use play::{Ending, Note, NoteKind, Pace, Patience, Play, Round, Run};
pub use script::Script;

use std::time::Duration;

use crate::event::{Happening, Micros, Sample};

/// What comes from a live peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub at: Micros,
    pub what: HeardWhat,
}

#[derive(Debug, Clone, PartialEq)]
pub enum HeardWhat {
    /// Bytes of the server's stream, in any pieces.
    Bytes(Vec<u8>),
    /// A whole message body that came on a carrier of its own.
    Body {
        carrier: u64,
        body: Vec<u8>,
    },
    Stderr(Vec<u8>),
    /// What happened to a carrier, or to the session.
    Happening {
        carrier: Option<u64>,
        happening: Happening,
    },
    /// The server will say no more.
    Closed,
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The peer could not be reached, or not any more.
    Unreachable(String),
}

/// A server to play to.
pub trait Peer {
    /// Sends a whole message, framed as the transport wants it; gives the carrier it travels on, if any. Never
    /// waits for the peer to read.
    fn send(&mut self, body: &[u8]) -> Option<u64>;
    /// Gives up waiting on a carrier by closing it, which is a cancel in some protocols; says whether it can.
    fn hang_up(&mut self, _carrier: u64) -> bool {
        false
    }
    /// What comes next, within this time.
    fn hear(&mut self, wait: Duration) -> Option<Heard>;
    /// Says that nothing more will be sent.
    fn close(&mut self);
    /// Ends it, by force where needed.
    fn end(&mut self);
    /// What it uses now, where that can be known.
    fn usage(&self) -> Option<Sample> {
        None
    }
}

#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod tests;
