//! event: message → event.
//!
//! Comes in: bytes and happenings of one conversation, live or from a log. Goes out: [`Event`]s, numbered and
//! stamped, handed to a [`Sink`]. There is one event type for everything that happens, so that live, imported
//! and sample traffic walk through the same door. This room refuses to judge: nothing here knows a protocol.

pub mod base64;
pub mod http;
pub mod line;
mod losses;
pub mod recording;
pub mod redact;
pub mod scribe;
pub mod session;
pub mod sink;
pub mod spool;
pub mod stamper;
pub mod stdio;
pub mod tape;
pub mod transcript;

pub use losses::Losses;
pub use recording::{Line, Recording};
pub use scribe::{OpenBody, Scribe};
pub use session::{Knows, Session, SessionKey, Source};
pub use sink::{Bodies, Collected, NoBodies, Sink};
pub use stamper::Stamper;

use serde::{Deserialize, Serialize};

use crate::rpc::Message;
use crate::wire::Fault;

/// Microseconds since the Unix epoch. In a session that knows no times it only counts up.
pub type Micros = i64;

/// The two ends of a conversation. The client is the one that connected (or started the server).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    /// `->` from the client to the server, `<-` the other way: the notation of transcripts.
    pub fn arrow(self) -> &'static str {
        match self {
            Side::Client => "->",
            Side::Server => "<-",
        }
    }
}

/// Which stored stream of bytes a [`Span`] points into. One session may have several.
pub type StreamId = u64;

/// What the client sent: stdin of a tapped server, or small request bodies one after another.
pub const CLIENT_STREAM: StreamId = 0;
/// What the server sent: stdout of a tapped server, or small response bodies one after another.
pub const SERVER_STREAM: StreamId = 1;
/// stderr of a tapped server.
pub const STDERR_STREAM: StreamId = 2;
/// Streams from here on belong to one carrier each: bodies too long to wait for.
pub const FIRST_CARRIER_STREAM: StreamId = 16;

pub fn stream_of(from: Side) -> StreamId {
    match from {
        Side::Client => CLIENT_STREAM,
        Side::Server => SERVER_STREAM,
    }
}

/// Where raw bytes lie: `len` bytes of a stream, from `start` on. The bytes reached the sink before the event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Span {
    pub stream: StreamId,
    pub start: u64,
    pub len: u64,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub session: SessionKey,
    /// Counts the events of a session from 1, without gaps; the order of everything.
    pub seq: u64,
    pub at: Micros,
    /// Which HTTP exchange (or WebSocket, or TCP connection) it travelled on, numbered within its session.
    pub carrier: Option<u64>,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A message, or a frame that is none. `body` is its raw text; items of a batch share the batch's.
    Message { from: Side, message: Message, body: Span },
    /// Bytes that would not cut.
    Fault { from: Side, fault: Fault, bytes: Span },
    /// A line of the server's stderr.
    Stderr { bytes: Span },
    /// Anything else; serialised as it is, into the store and into event lines.
    Happening(Happening),
}

/// Everything that happens around the messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Happening {
    /// The server process was started, or the first connection was made.
    Opened { pid: Option<u32> },
    /// One direction of the conversation ended. `from` is the side that would have sent on it.
    Closed { from: Side, by: Party, how: How },
    /// The server process ended.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// Something is missing here: the tap, the disk or the capture lost it.
    Lost { from: Option<Side>, events: u64, bytes: u64, why: String },
    /// An HTTP request was opened; its number is the event's carrier. Secrets are hashed before they come here.
    CarrierOpened { method: String, target: String, headers: Vec<(String, String)> },
    /// The head of the HTTP response.
    CarrierHead { status: u16, headers: Vec<(String, String)> },
    /// The response is an event stream or an upgraded connection: it may stay open.
    CarrierStreaming { resumes: Option<String> },
    /// The next message on this carrier stands in the server-sent event of this id (an id without a message only
    /// marks where to resume). The same id on a later stream that resumes is a redelivery, not a second answer.
    StreamEvent { id: String },
    /// Fields that came after a body.
    CarrierTrailers { from: Side, headers: Vec<(String, String)> },
    /// The exchange is over. Bytes are of the bodies, as they travelled.
    CarrierClosed { by: Party, how: How, request_bytes: u64, response_bytes: u64 },
    /// The session was ended by its own means: HTTP DELETE, or 404 for a session that is gone.
    SessionEnded { by: Side, how: String },
    /// A reading of the tapped process and its descendants.
    Sample(Sample),
    /// What a log says of itself, or an importer of a log, that a reader of the report should know.
    Note { text: String },
}

/// Who ended something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    Client,
    Server,
    /// rpctap itself: a drain time that ran out, a shutdown.
    Tap,
    Unknown,
}

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// In order: end of input, FIN, a complete response.
    Eof,
    /// Torn: RST, broken pipe, a body cut off.
    Reset,
    /// Given up after a limit.
    Timeout,
    Error,
}

/// What the tapped process tree used at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    pub rss_bytes: u64,
    pub threads: u64,
    pub files: u64,
    pub sockets: u64,
    pub cpu_ms: u64,
    pub processes: u64,
}

impl Event {
    /// Who sent it, for messages and faults.
    pub fn from(&self) -> Option<Side> {
        match &self.what {
            What::Message { from, .. } | What::Fault { from, .. } => Some(*from),
            _ => None,
        }
    }

    pub fn message(&self) -> Option<(Side, &Message)> {
        match &self.what {
            What::Message { from, message, .. } => Some((*from, message)),
            _ => None,
        }
    }

    /// Where its raw bytes lie, if it has any.
    pub fn span(&self) -> Option<Span> {
        match &self.what {
            What::Message { body, .. } => Some(*body),
            What::Fault { bytes, .. } | What::Stderr { bytes } => Some(*bytes),
            What::Happening(_) => None,
        }
    }
}
