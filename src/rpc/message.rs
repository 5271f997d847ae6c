//! One JSON-RPC message, as far as its envelope tells.
//!
//! Kinds are told apart by which keys are *present*, never by whether values are truthy: `result: null` is a
//! success and id `0` is an id. What cannot be read is a message too: [`Kind::Unreadable`], with the reason.

use std::sync::Arc;

use super::{Id, Marks};

/// A method's name, shared between all messages that carry it.
pub type Name = Arc<str>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// `None` when the key is absent. A request whose id is `null` has `Some(Id::Null)`.
    pub id: Option<Id>,
    pub method: Option<Name>,
    pub marks: Marks,
    pub oddities: Oddities,
    /// Fingerprint of the raw text of `params` without its `_meta`; 0 when there are none. Equal calls under
    /// different ids have equal fingerprints.
    pub params_print: u64,
    /// The place in its batch, where it came in one.
    pub batch_index: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A method and an id.
    Request,
    /// A method and no id.
    Notification,
    /// A `result` (or, with [`Oddity::NeitherResultNorError`], just an id).
    Result,
    /// An `error`, also where a `result` stands beside it ([`Oddity::BothResultAndError`]).
    Error,
    Unreadable(Unreadable),
}

/// Why a frame is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unreadable {
    /// Not JSON from the first byte on: a stray print to stdout.
    StrayText,
    /// Began as JSON and broke.
    BadJson,
    /// JSON, but neither an object nor an array of objects.
    NotAnObject,
    /// An object with none of method, id, result and error.
    NotJsonRpc,
    /// `[]`.
    EmptyBatch,
    /// A batch with more items than the limit: the rest of it is not read.
    BatchTooLong,
    /// The log that held it cut it off.
    Truncated,
}

impl Unreadable {
    pub const ALL: [Unreadable; 7] = [
        Unreadable::StrayText,
        Unreadable::BadJson,
        Unreadable::NotAnObject,
        Unreadable::NotJsonRpc,
        Unreadable::EmptyBatch,
        Unreadable::BatchTooLong,
        Unreadable::Truncated,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Unreadable::StrayText => "stray-text",
            Unreadable::BadJson => "bad-json",
            Unreadable::NotAnObject => "not-an-object",
            Unreadable::NotJsonRpc => "not-json-rpc",
            Unreadable::EmptyBatch => "empty-batch",
            Unreadable::BatchTooLong => "batch-too-long",
            Unreadable::Truncated => "truncated",
        }
    }

    pub fn from_name(name: &str) -> Option<Unreadable> {
        Unreadable::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// What is odd about a message that can still be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum Oddity {
    /// A key stands twice in the envelope. The last value counts, as in most parsers.
    DuplicateKey = 1,
    /// `jsonrpc` is absent. Real programs leave it out.
    NoVersion = 1 << 1,
    /// `jsonrpc` is there and is not `"2.0"`.
    OtherVersion = 1 << 2,
    InvalidUtf8 = 1 << 3,
    BothResultAndError = 1 << 4,
    NeitherResultNorError = 1 << 5,
    /// `method` beside `result` or `error`.
    MethodInResponse = 1 << 6,
    /// `method` is not a string; the message is kept as a request or notification without a name.
    MethodNotText = 1 << 7,
    /// `error` is not an object with a numeric `code`.
    MalformedError = 1 << 8,
    /// `params` is neither an object nor an array.
    ScalarParams = 1 << 9,
    /// The log that held the message cut off its payload; the envelope is whole.
    PayloadCut = 1 << 10,
}

impl Oddity {
    pub const ALL: [Oddity; 11] = [
        Oddity::DuplicateKey,
        Oddity::NoVersion,
        Oddity::OtherVersion,
        Oddity::InvalidUtf8,
        Oddity::BothResultAndError,
        Oddity::NeitherResultNorError,
        Oddity::MethodInResponse,
        Oddity::MethodNotText,
        Oddity::MalformedError,
        Oddity::ScalarParams,
        Oddity::PayloadCut,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Oddity::DuplicateKey => "duplicate-key",
            Oddity::NoVersion => "no-version",
            Oddity::OtherVersion => "other-version",
            Oddity::InvalidUtf8 => "invalid-utf-8",
            Oddity::BothResultAndError => "both-result-and-error",
            Oddity::NeitherResultNorError => "neither-result-nor-error",
            Oddity::MethodInResponse => "method-in-response",
            Oddity::MethodNotText => "method-not-text",
            Oddity::MalformedError => "malformed-error",
            Oddity::ScalarParams => "scalar-params",
            Oddity::PayloadCut => "payload-cut",
        }
    }
}

/// A set of [`Oddity`], small enough for one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Oddities(pub u16);

impl Oddities {
    pub fn has(self, oddity: Oddity) -> bool {
        self.0 & oddity as u16 != 0
    }

    pub fn add(&mut self, oddity: Oddity) {
        self.0 |= oddity as u16;
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL.into_iter().filter(move |oddity| self.has(*oddity))
    }
}

impl Message {
    pub fn unreadable(reason: Unreadable) -> Message {
        Message {
            kind: Kind::Unreadable(reason),
            id: None,
            method: None,
            marks: Marks::default(),
            oddities: Oddities::default(),
            params_print: 0,
            batch_index: None,
        }
    }

    pub fn is_request(&self) -> bool {
        self.kind == Kind::Request
    }

    pub fn is_response(&self) -> bool {
        matches!(self.kind, Kind::Result | Kind::Error)
    }

    /// The method, or `""` for responses and nameless messages.
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or("")
    }
}
