//! Carriers whose conversation is not known yet, and how it becomes known.
//!
//! A POST may be the `initialize` that begins a conversation; a GET may be the event stream of the older HTTP+SSE
//! transport, which says so in its first event. Until that is known what happens on them is kept back, within bounds.

use memchr::memmem;

use crate::event::{How, Micros, Party, SessionKey, Side};

use super::HttpHappening;
use super::content::Content;
use super::head::{BodyKind, RequestHead, value};

/// No `initialize` and no first event is longer; what is kept back of a carrier stays below it.
pub(super) const LONGEST_HELD_BYTES: usize = 64 * 1024;

/// So little is inflated before its length is looked at again: it may become a thousand times as much.
const UNCODED_AT_ONCE_BYTES: usize = 512;

/// Where a carrier belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Not to be said yet.
    Wait,
    Into(SessionKey),
    /// It begins a conversation.
    Begin,
    /// It is the event stream of the older transport: requests come to this endpoint.
    Endpoint(String),
    /// To whatever its client talks.
    ByClient,
    /// It has nothing to do with JSON-RPC.
    PassOver,
}

/// What happened on a carrier that is kept back.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) queue: Vec<(Micros, Owned)>,
    bytes: usize,
    request_ended: bool,
    over: bool,
    status: u16,
    events: bool,
}

impl Held {
    /// What the head alone says.
    pub(super) fn at_first_sight(head: &RequestHead, only_rpc: bool) -> Decision {
        if head.session_id.is_some() {
            return Decision::ByClient;
        }
        if head.upgrades {
            return Decision::Begin;
        }
        let may_begin = head.method == "POST" && !head.versioned;
        if head.asks_events || only_rpc || (may_begin && head.kind != BodyKind::Other) {
            return Decision::Wait;
        }
        Decision::ByClient
    }

    pub(super) fn keep(&mut self, at: Micros, what: HttpHappening<'_>) {
        match what {
            HttpHappening::RequestBody(bytes) | HttpHappening::ResponseBody(bytes) => self.bytes += bytes.len(),
            HttpHappening::RequestEnd => self.request_ended = true,
            HttpHappening::Closed { .. } => self.over = true,
            HttpHappening::Response { status, fields } if status == 101 || status >= 200 => {
                self.status = status;
                self.events =
                    BodyKind::of(fields) == BodyKind::EventStream && value(fields, "content-encoding").is_none();
            }
            _ => {}
        }
        self.queue.push((at, Owned::from(what)));
    }

    pub(super) fn decide(&self, head: &RequestHead, only_rpc: bool) -> Decision {
        let otherwise = if only_rpc { Decision::PassOver } else { Decision::ByClient };
        if head.asks_events {
            let said = self.body(Side::Server);
            return match first_event(&said) {
                _ if self.status != 0 && !(self.events && self.status < 300) => otherwise,
                Some(FirstEvent::Endpoint(endpoint)) => Decision::Endpoint(endpoint),
                Some(FirstEvent::Message { rpc: true }) => Decision::ByClient,
                Some(FirstEvent::Message { rpc: false }) => otherwise,
                None if self.over || self.bytes > LONGEST_HELD_BYTES => otherwise,
                None => Decision::Wait,
            };
        }
        let answered = self.status != 0;
        if !(self.request_ended || self.over || answered || self.bytes > LONGEST_HELD_BYTES) {
            return Decision::Wait;
        }
        let coding = head.coding.as_deref();
        // What cannot be read is told where it belongs, and not left out as somebody else's.
        if Content::new(coding).is_foreign() && head.kind == BodyKind::Json {
            return Decision::ByClient;
        }
        let said = uncoded(coding, self.body(Side::Client));
        if begins(&said) {
            return Decision::Begin;
        }
        if !only_rpc || (head.kind != BodyKind::Other && looks_like_rpc(&said)) {
            return Decision::ByClient;
        }
        Decision::PassOver
    }

    fn body(&self, from: Side) -> Vec<u8> {
        let mut body = Vec::new();
        for (_, what) in &self.queue {
            match what {
                Owned::RequestBody(bytes) if from == Side::Client => body.extend_from_slice(bytes),
                Owned::ResponseBody(bytes) if from == Side::Server => body.extend_from_slice(bytes),
                _ => {}
            }
        }
        body
    }
}

/// The beginning of a body without its content coding, as long as what is kept back may be.
fn uncoded(coding: Option<&str>, body: Vec<u8>) -> Vec<u8> {
    if coding.is_none() {
        return body;
    }
    let mut content = Content::new(coding);
    let mut said = Vec::new();
    for piece in body.chunks(UNCODED_AT_ONCE_BYTES) {
        let trouble = content.feed(piece, &mut |piece| said.extend_from_slice(piece));
        if trouble.is_some() || said.len() > LONGEST_HELD_BYTES {
            break;
        }
    }
    said
}

/// Is this an `initialize` request? Only then is the text read as JSON.
fn begins(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Begins<'a> {
        #[serde(borrow)]
        method: Option<std::borrow::Cow<'a, str>>,
    }
    memmem::find(body, b"\"initialize\"").is_some()
        && serde_json::from_slice::<Begins>(unmarked(body))
            .is_ok_and(|begins| begins.method.as_deref() == Some("initialize"))
}

/// A body without the byte order mark before it, which readers of JSON may pass over (RFC 8259, 8.1).
pub(super) fn unmarked(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// Could this body be JSON-RPC? Said from its beginning, without reading it.
pub(super) fn looks_like_rpc(body: &[u8]) -> bool {
    let body = &body[..body.len().min(LONGEST_HELD_BYTES)];
    let start = unmarked(body).trim_ascii_start().first();
    matches!(start, Some(b'{' | b'['))
        && [&b"\"jsonrpc\""[..], b"\"method\"", b"\"result\""].iter().any(|key| memmem::find(body, key).is_some())
}

enum FirstEvent {
    Endpoint(String),
    Message { rpc: bool },
}

/// The first event with data in a stream, if it is there as a whole.
fn first_event(stream: &[u8]) -> Option<FirstEvent> {
    let text = String::from_utf8_lossy(stream);
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    for event in text.split_inclusive("\n\n").filter(|event| event.ends_with("\n\n")) {
        let field = |name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(|rest| rest.trim_start()))
        };
        match (field("event"), field("data")) {
            (Some("endpoint"), Some(data)) => return Some(FirstEvent::Endpoint(data.to_string())),
            (_, Some(data)) if !data.is_empty() => {
                return Some(FirstEvent::Message { rpc: looks_like_rpc(event_data(event).as_bytes()) });
            }
            _ => {}
        }
    }
    None
}

fn event_data(event: &str) -> String {
    event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect()
}

type OwnedFields = Vec<(String, String)>;

/// A happening that can wait.
#[derive(Debug)]
pub(super) enum Owned {
    RequestBody(Vec<u8>),
    RequestEnd,
    Response(u16, OwnedFields),
    ResponseBody(Vec<u8>),
    ResponseEnd,
    Trailers(Side, OwnedFields),
    Lost(Side, u64, String),
    Note(String),
    Closed(Party, How),
}

impl Owned {
    fn from(what: HttpHappening<'_>) -> Owned {
        let own = |fields: super::Fields<'_>| {
            fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        match what {
            // The request's head is kept apart.
            HttpHappening::Request { .. } | HttpHappening::RequestEnd => Owned::RequestEnd,
            HttpHappening::RequestBody(bytes) => Owned::RequestBody(bytes.to_vec()),
            HttpHappening::Response { status, fields } => Owned::Response(status, own(fields)),
            HttpHappening::ResponseBody(bytes) => Owned::ResponseBody(bytes.to_vec()),
            HttpHappening::ResponseEnd => Owned::ResponseEnd,
            HttpHappening::Trailers { from, fields } => Owned::Trailers(from, own(fields)),
            HttpHappening::Lost { from, bytes, why } => Owned::Lost(from, bytes, why.to_string()),
            HttpHappening::Note(text) => Owned::Note(text.to_string()),
            HttpHappening::Closed { by, how } => Owned::Closed(by, how),
        }
    }

    pub(super) fn borrow<'a>(&'a self, list: &'a mut Vec<(&'a str, &'a str)>) -> HttpHappening<'a> {
        fn lend<'a>(fields: &'a OwnedFields, list: &'a mut Vec<(&'a str, &'a str)>) -> super::Fields<'a> {
            list.extend(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            list
        }
        match self {
            Owned::RequestBody(bytes) => HttpHappening::RequestBody(bytes),
            Owned::RequestEnd => HttpHappening::RequestEnd,
            Owned::Response(status, fields) => HttpHappening::Response { status: *status, fields: lend(fields, list) },
            Owned::ResponseBody(bytes) => HttpHappening::ResponseBody(bytes),
            Owned::ResponseEnd => HttpHappening::ResponseEnd,
            Owned::Trailers(from, fields) => HttpHappening::Trailers { from: *from, fields: lend(fields, list) },
            Owned::Lost(from, bytes, why) => HttpHappening::Lost { from: *from, bytes: *bytes, why },
            Owned::Note(text) => HttpHappening::Note(text),
            Owned::Closed(by, how) => HttpHappening::Closed { by: *by, how: *how },
        }
    }
}
