//! wire: bytes → frames.
//!
//! Comes in: the bytes of one direction of one stream, in any pieces. Goes out: [`Piece`]s: parts of a frame's
//! body as they come, the end of the frame with where it lay in the stream, and [`Fault`]s for bytes that would
//! not cut. Any split of the same bytes gives the same frames and faults. A framer never gives up and holds at
//! most a named limit in memory. It refuses to know what a body means.

pub mod content_length;
mod header;
pub mod http1;
pub mod http_fault;
pub mod http_head;
pub mod lines;
pub mod sniff;
#[cfg(test)]
mod split_tests;
pub mod sse;
#[cfg(test)]
mod told;
pub mod websocket;

/// How the messages of a stream are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Framing {
    /// One message a line.
    Lines,
    /// A header block with the length before each message.
    ContentLength,
}

/// What all framers can do, for those who do not care which one it is.
pub trait Framer {
    fn feed(&mut self, bytes: &[u8], tell: &mut dyn FnMut(Piece<'_>));
    fn finish(&mut self, tell: &mut dyn FnMut(Piece<'_>));
}

macro_rules! framer {
    ($($name:ty),*) => {$(
        impl Framer for $name {
            fn feed(&mut self, bytes: &[u8], tell: &mut dyn FnMut(Piece<'_>)) {
                <$name>::feed(self, bytes, tell)
            }

            fn finish(&mut self, tell: &mut dyn FnMut(Piece<'_>)) {
                <$name>::finish(self, tell)
            }
        }
    )*};
}

framer!(lines::Lines, content_length::ContentLength, sniff::Sniff);

/// All framings, in the order in which they are looked for.
pub const FRAMINGS: [Framing; 2] = [Framing::Lines, Framing::ContentLength];

impl Framing {
    pub fn name(self) -> &'static str {
        match self {
            Framing::Lines => "lines",
            Framing::ContentLength => "content-length",
        }
    }

    /// The bytes that carry `body` in this framing.
    pub fn wrap(self, body: &[u8]) -> Vec<u8> {
        match self {
            Framing::Lines => [body, b"\n"].concat(),
            Framing::ContentLength => [format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat(),
        }
    }
}

/// What a framer tells. All offsets count the bytes of this stream since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A further part of the current frame's body. A frame's parts come in order and without gaps.
    Body(&'a [u8]),
    /// The current frame is whole. `body_start..body_start + body_len` are its bytes in the stream, without
    /// framing (header, line end, BOM); `end` is where the next frame starts.
    End { body_start: u64, body_len: u64, end: u64 },
    /// Bytes that are not (or not rightly) framed; kept in the stream like all others. A fault that concerns a
    /// frame still to end (a wrong length, a missing final newline) comes just before that frame's `End`.
    Fault { fault: Fault, start: u64, len: u64 },
}

/// Why bytes would not cut. A fact about the traffic, stored and counted, never our error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The stream ended (or a header began) in the middle of a frame: Content-Length said more than came.
    CutShort,
    /// Bytes between two Content-Length frames that belong to neither.
    Garbage,
    /// A header block without a usable Content-Length.
    BadHeader,
    /// A header block longer than the limit.
    HeaderTooLong,
    /// The body did not end where Content-Length said: the framer found its feet at a later header.
    WrongLength,
    /// The last line had no line end. Its frame is given all the same.
    NoFinalNewline,
    /// A byte order mark stood before a frame and was left out of its body.
    ByteOrderMark,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::CutShort,
        Fault::Garbage,
        Fault::BadHeader,
        Fault::HeaderTooLong,
        Fault::WrongLength,
        Fault::NoFinalNewline,
        Fault::ByteOrderMark,
    ];

    /// The kebab-case name used in the store, the report and the event lines.
    pub fn name(self) -> &'static str {
        match self {
            Fault::CutShort => "cut-short",
            Fault::Garbage => "garbage",
            Fault::BadHeader => "bad-header",
            Fault::HeaderTooLong => "header-too-long",
            Fault::WrongLength => "wrong-length",
            Fault::NoFinalNewline => "no-final-newline",
            Fault::ByteOrderMark => "byte-order-mark",
        }
    }

    pub fn from_name(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }
}
