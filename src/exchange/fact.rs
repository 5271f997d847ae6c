//! What the pairing knows for certain: one fact per request, cancel, task, token and stream, when it is settled
//! (or when the session is finished), and one per irregularity, when it is seen.

use crate::event::{Micros, Side};
use crate::protocol::{Dialect, Role};
use crate::rpc::{Id, Name};

use super::Outcome;
use super::ends::{CancelEnd, CancelOf, CancelTarget, StreamEnd, TaskEnd, TokenEnd};

/// Everything the fold tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    Exchange(Exchange),
    Cancel(Cancel),
    Task(Task),
    Token(Token),
    Stream(Stream),
    Slip(Slip),
}

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    pub asked_by: Side,
    pub id: Id,
    /// Counts the uses of this id by this side, from 1.
    pub generation: u32,
    pub method: Name,
    /// The tool (or prompt, or command) called, where the method names one.
    pub tool: Option<Name>,
    pub carrier: Option<u64>,
    /// The rules this request stands under: a pipe may mix versions.
    pub dialect: Dialect,
    pub role: Role,
    pub opened_seq: u64,
    pub opened_at: Micros,
    /// When nobody waited for it any more: the answer, a cancel that needs none, the end of the session.
    pub closed_at: Option<Micros>,
    pub outcome: Outcome,
    pub cause: Cause,
    /// The first cancel that named it.
    pub cancel: Option<Mark>,
    pub cancel_of: Option<CancelOf>,
    /// The first answer.
    pub answer: Option<Mark>,
    pub error_code: Option<i64>,
    /// When the client closed its end, for answers that came only then.
    pub end: Option<Mark>,
    /// The next request that shows that the asker had moved on.
    pub moved_on: Option<MovedOn>,
    /// The request in the other direction this one waits behind.
    pub root: Option<(Id, u64)>,
    /// Things of this request that were seen after the race window of its cancel: progress, mostly.
    pub after_cancel: Vec<u64>,
    /// How long nothing came (after the cancel, if there is one), until an answer, the end or the judgement.
    pub waited: Micros,
    /// Its HTTP response, or the session, ended without an answer: by the server, or by nobody knows whom.
    pub ended_by_server: Option<bool>,
    /// A loss, a truncation or a late start touches it: nothing may be proven by its silence.
    pub doubtful: bool,
}

/// A moment: which event, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub seq: u64,
    pub at: Micros,
}

/// How we know that the asker did not wait any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedOn {
    pub seq: u64,
    pub after: Micros,
    pub sign: Sign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    /// The same method with the same params again, under a new id.
    AskedAgain,
    /// One of a row of requests, each followed by the next after the same time.
    SameInterval,
    /// A client that otherwise waits for each answer sent its next request.
    WentOn,
    /// It closed the HTTP response that should have brought the answer.
    HungUp,
}

impl Sign {
    pub fn name(self) -> &'static str {
        match self {
            Sign::AskedAgain => "asked-again",
            Sign::SameInterval => "same-interval",
            Sign::WentOn => "went-on",
            Sign::HungUp => "hung-up",
        }
    }
}

/// Why a request was never answered, as far as the wire tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// It was answered, or there is nothing to explain.
    None,
    /// The other side went on answering others.
    PeerAlive,
    /// The other side answered nothing any more.
    PeerSilent,
    /// The other side died.
    PeerDead,
    /// The other side was not there: the request did not get through.
    PeerUnreachable,
    /// The other side waits itself, for the answer to a request of its own.
    Blocked,
    /// The session ended before an answer could be expected.
    SessionEnded,
    /// Its HTTP response ended without an answer.
    CarrierEnded,
    /// The recording has a gap where the answer may have been.
    CaptureGap,
}

impl Cause {
    pub const ALL: [Cause; 9] = [
        Cause::None,
        Cause::PeerAlive,
        Cause::PeerSilent,
        Cause::PeerDead,
        Cause::PeerUnreachable,
        Cause::Blocked,
        Cause::SessionEnded,
        Cause::CarrierEnded,
        Cause::CaptureGap,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Cause::None => "none",
            Cause::PeerAlive => "peer-alive",
            Cause::PeerSilent => "peer-silent",
            Cause::PeerDead => "peer-dead",
            Cause::PeerUnreachable => "peer-unreachable",
            Cause::Blocked => "blocked",
            Cause::SessionEnded => "session-ended",
            Cause::CarrierEnded => "carrier-ended",
            Cause::CaptureGap => "capture-gap",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cancel {
    pub sent_by: Side,
    pub of: CancelOf,
    pub seq: u64,
    pub at: Micros,
    /// What it named, as written: an id, a session, a task, a token.
    pub named: String,
    pub target: CancelTarget,
    pub end: CancelEnd,
    pub method: Option<Name>,
    pub tool: Option<Name>,
    pub dialect: Dialect,
    /// The request it named and what settled it.
    pub request_seq: Option<u64>,
    pub settled: Option<Mark>,
    /// From the answer to the cancel, where the answer was first.
    pub too_late_by: Option<Micros>,
    pub on_http: bool,
    pub doubtful: bool,
}

/// A task (MCP, A2A) or a turn (ACP v2): opened by a request, ended by a state.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Who asked for it; the other side does the work.
    pub asked_by: Side,
    pub name: String,
    pub method: Name,
    pub tool: Option<Name>,
    pub dialect: Dialect,
    pub opened_seq: u64,
    pub opened_at: Micros,
    pub closed_at: Option<Micros>,
    /// The last state seen, as written.
    pub state: String,
    pub end: TaskEnd,
    pub last_looked_at: Option<Mark>,
    pub cancel: Option<Mark>,
    pub ttl_ms: Option<f64>,
    pub events: Vec<u64>,
    /// A turn of ACP v2.
    pub turn: bool,
    pub doubtful: bool,
}

/// A progress token that somebody opened by itself (LSP's work-done progress).
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub opened_by: Side,
    pub name: String,
    pub dialect: Dialect,
    pub opened_seq: u64,
    pub opened_at: Micros,
    pub closed_at: Option<Micros>,
    pub end: TokenEnd,
    pub reports: u64,
    /// How long nothing was heard of it, until it ended, the session did, or it was judged.
    pub quiet: Micros,
    pub doubtful: bool,
}

/// An HTTP exchange that may stay open: an event stream, a waiting POST.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub carrier: u64,
    pub method: String,
    pub dialect: Dialect,
    pub opened_seq: u64,
    pub opened_at: Micros,
    pub closed_at: Option<Micros>,
    pub end: StreamEnd,
    /// Requests that travelled on it and were not answered.
    pub unanswered: u64,
    pub status: Option<u16>,
    pub streaming: bool,
}

/// One irregularity, seen at one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Slip {
    pub kind: SlipKind,
    /// Who did it.
    pub by: Side,
    pub seq: u64,
    pub at: Micros,
    pub dialect: Dialect,
    pub method: Option<Name>,
    pub tool: Option<Name>,
    /// The id, token or task concerned, as written.
    pub subject: String,
    /// Other events that prove it: the first answer, the request.
    pub also: Vec<u64>,
    pub on_http: bool,
    /// A loss or a late start may explain it.
    pub doubtful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SlipKind {
    DuplicateResponse,
    ResponseUnknown,
    IdTypeMismatch,
    IdPrecisionLoss,
    IdReuseInFlight,
    IdReuseAfterClose,
    IdReuseAfterCancel,
    InvalidId,
    NullId,
    FractionalId,
    AnsweredAfterRetry,
    ProgressAfterClose,
    ProgressUnknown,
    ProgressTokenReuse,
    ProgressNotIncreasing,
    WrongDirection,
    BeforeInitialize,
    AfterShutdown,
    ReplyToNotification,
    BatchNotAllowed,
    MalformedResponse,
    DuplicateKey,
    CancelledUnasked,
    TaskIllegalState,
    TaskCancelNotHonoured,
    TaskUnknown,
    TaskNotDeclared,
    InputRequiredNotAllowed,
    SubscriptionBeforeAcknowledged,
    SubscriptionUnknown,
    StoppedOtherwise,
    StreamAfterFinal,
    SessionNeverEnded,
    ErrorWithoutId,
    Unreadable,
    Fault,
}
