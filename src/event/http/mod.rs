//! What happens on HTTP connections → sessions, events and carriers.
//!
//! Comes in: the heads, body bytes, trailers and ends of many HTTP exchanges (here called *carriers*), in the order
//! they happened, from the live proxy or from a packet capture, a HAR or tshark's JSON. Goes out, through a
//! [`Sink`]: one session per conversation, its messages, and the carriers they travelled on. Secrets in heads and
//! URLs are replaced by a keyed hash on the way. Refuses to know sockets, the store and what a message means,
//! but for `initialize`, which begins a conversation.

use crate::event::{How, Knows, Micros, Party, SessionKey, Side, Sink, Source};

/// Tells the carriers of one run apart: any number that is never used twice (a running count will do).
pub type CarrierKey = u64;

/// Header fields in the order and spelling they came. Values that are no UTF-8 come lossily converted.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

/// One thing that happened on a carrier.
///
/// For each carrier: `Request` first, once, then request body and end, response head, body and end as they come
/// (a response may begin and even end before the request body has), and `Closed` last, once. Ends may be missing
/// where the carrier was torn. Body bytes are without transfer coding (chunk sizes), but with content coding.
#[derive(Debug, Clone, Copy)]
pub enum HttpHappening<'a> {
    /// The head of a request.
    Request {
        /// Tells clients apart where nothing better does: an IP address or host name, without the port.
        client: &'a str,
        /// Tells the connections of this run apart; 0 where they are not known (HAR).
        connection: u64,
        method: &'a str,
        /// As it stood in the request line: path and query, or an absolute URL.
        target: &'a str,
        fields: Fields<'a>,
    },
    RequestBody(&'a [u8]),
    RequestEnd,
    /// The head of the response. Interim responses (100 to 199) other than 101 are passed over. After 101 the bodies
    /// of both sides are the bytes of the upgraded connection.
    Response {
        status: u16,
        fields: Fields<'a>,
    },
    ResponseBody(&'a [u8]),
    ResponseEnd,
    /// Trailing header fields of the request (`Side::Client`) or the response (`Side::Server`).
    Trailers {
        from: Side,
        fields: Fields<'a>,
    },
    /// Bytes of a body went missing (a gap in a capture, a body cut by a log).
    Lost {
        from: Side,
        bytes: u64,
        why: &'a str,
    },
    /// Worth knowing and tied to this carrier: "upstream refused the connection".
    Note(&'a str),
    /// The carrier is over. A finished response is `Closed { by: Server, how: Eof }`; a client that went away first is
    /// `by: Client`, with how it went.
    Closed {
        by: Party,
        how: How,
    },
}

/// What a run knows about all its sessions.
#[derive(Debug, Clone)]
pub struct HttpSetup {
    /// The name of the first session; later ones get `-2`, `-3` behind it.
    pub name: String,
    pub source: Source,
    /// The upstream address or the imported file; for people.
    pub target: String,
    pub knows: Knows,
    /// Leave out carriers that have nothing to do with JSON-RPC (images, pages, token endpoints). For logs of
    /// everything a browser did; the live proxy keeps them, as carriers without bodies.
    pub only_rpc: bool,
    /// The key of the first session; the others count up from it.
    pub first_session: SessionKey,
    /// The key of the hash that stands for credentials and session ids.
    pub secret: [u8; 32],
}

/// Turns the happenings of many carriers into sessions and events. See the module.
pub struct HttpScribe {
    setup: HttpSetup,
}

impl HttpScribe {
    pub fn new(setup: HttpSetup) -> HttpScribe {
        HttpScribe { setup }
    }

    /// Takes one happening. Carriers may interleave freely; those of one carrier come in order.
    pub fn take(&mut self, carrier: CarrierKey, at: Micros, what: HttpHappening<'_>, sink: &mut dyn Sink) {
        let _ = (carrier, at, what, sink);
    }

    /// Something was lost that cannot be told to one carrier. Recorded in every open session.
    pub fn lost(&mut self, at: Micros, events: u64, bytes: u64, why: &str, sink: &mut dyn Sink) {
        let _ = (at, events, bytes, why, sink);
    }

    /// The run is over: open carriers and sessions are closed by `Party::Tap`.
    pub fn finish(&mut self, at: Micros, sink: &mut dyn Sink) {
        let _ = (at, sink);
    }

    /// The key the next session would get: where another scribe of the same sink may go on.
    pub fn next_session(&self) -> SessionKey {
        self.setup.first_session
    }

    /// How many carriers `only_rpc` left out.
    pub fn passed_over(&self) -> u64 {
        0
    }
}
