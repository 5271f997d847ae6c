//! What the head of a request tells about its carrier.

use std::borrow::Cow;

use super::Fields;
use super::secrets::Secrets;

/// The head of a request, fit to be kept, and what routing asks of it.
#[derive(Debug, Clone)]
pub(super) struct RequestHead {
    pub(super) method: String,
    /// Without secrets.
    pub(super) target: String,
    /// Without secrets.
    pub(super) fields: Vec<(String, String)>,
    /// `Mcp-Session-Id`, hashed.
    pub(super) session_id: Option<String>,
    /// The session named in the query, hashed: the older transport.
    pub(super) query_session: Option<String>,
    /// Tells clients apart where nothing better does: address, program and credentials together.
    pub(super) client: String,
    /// 0 when unknown.
    pub(super) connection: u64,
    pub(super) kind: BodyKind,
    pub(super) coding: Option<String>,
    /// Speaks a version of MCP that knows no `initialize`, or names another method in its head.
    pub(super) versioned: bool,
    /// `GET` that would like an event stream.
    pub(super) asks_events: bool,
    pub(super) upgrades: bool,
    pub(super) last_event_id: Option<String>,
}

/// What a body is, by its `Content-Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    EventStream,
    /// No type, or plain text, which some clients give to JSON.
    Unsaid,
    Other,
}

/// Versions are dates, and compare as text.
const FIRST_WITHOUT_INITIALIZE: &str = "2026-07-28";

/// A longer value of a field is cut: heads are for people.
const LONGEST_VALUE_BYTES: usize = 2048;

pub(super) fn value<'a>(fields: Fields<'a>, name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// All codings of a body, which may be named in several fields.
pub(super) fn coding<'a>(fields: Fields<'a>) -> Option<Cow<'a, str>> {
    let mut named = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
    let first = Cow::Borrowed(named.next()?.1);
    Some(named.fold(first, |all, (_, more)| Cow::Owned(format!("{all}, {more}"))))
}

/// Fields that concern one connection only, or say what the events say anyway: lengths and times. Not kept. Names in
/// lower case.
pub fn says_nothing_new(lower: &str) -> bool {
    matches!(lower, "content-length" | "date" | "connection" | "keep-alive" | "transfer-encoding" | "proxy-connection")
}

fn is_left_out(name: &str) -> bool {
    // Most names come in lower case.
    says_nothing_new(name)
        || (name.bytes().any(|byte| byte.is_ascii_uppercase()) && says_nothing_new(&name.to_ascii_lowercase()))
}

/// All fields, fit to be kept.
pub(super) fn kept(secrets: &Secrets, fields: Fields<'_>) -> Vec<(String, String)> {
    fields
        .iter()
        .filter(|(name, _)| !is_left_out(name))
        .map(|(name, value)| (name.to_string(), cut(&secrets.field(name, value)).to_string()))
        .collect()
}

fn cut(value: &str) -> &str {
    let mut end = value.len().min(LONGEST_VALUE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

impl BodyKind {
    pub(super) fn of(fields: Fields<'_>) -> BodyKind {
        let Some(said) = value(fields, "content-type") else { return BodyKind::Unsaid };
        let kind = said.split(';').next().unwrap_or("").trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        let tail = |tail: &str| {
            kind.len() >= tail.len() && kind.as_bytes()[kind.len() - tail.len()..].eq_ignore_ascii_case(tail.as_bytes())
        };
        if is("application/json") || is("application/json-rpc") || is("application/jsonrequest") || tail("+json") {
            BodyKind::Json
        } else if is("text/event-stream") {
            BodyKind::EventStream
        } else if is("text/plain") || is("application/octet-stream") || kind.is_empty() {
            BodyKind::Unsaid
        } else {
            BodyKind::Other
        }
    }
}

impl RequestHead {
    pub(super) fn read(
        secrets: &Secrets,
        client: &str,
        connection: u64,
        method: &str,
        target: &str,
        fields: Fields<'_>,
    ) -> RequestHead {
        let session_id = value(fields, "mcp-session-id").filter(|id| !id.is_empty()).map(|id| secrets.hash(id));
        // Only asked for where there is no id.
        let client = match &session_id {
            Some(_) => String::new(),
            None => {
                let agent = value(fields, "user-agent").unwrap_or("");
                let credentials = value(fields, "authorization").map(|value| secrets.field("authorization", value));
                format!("{client}\n{}\n{}", cut(agent), credentials.as_deref().unwrap_or(""))
            }
        };
        let accepts_events = value(fields, "accept").is_some_and(|accept| accept.contains("text/event-stream"));
        RequestHead {
            method: method.to_string(),
            target: cut(&secrets.target(target)).to_string(),
            fields: kept(secrets, fields),
            session_id,
            query_session: secrets.session_of_target(target),
            client,
            connection,
            kind: BodyKind::of(fields),
            coding: coding(fields).map(Cow::into_owned),
            versioned: value(fields, "mcp-protocol-version").is_some_and(|version| version >= FIRST_WITHOUT_INITIALIZE)
                || value(fields, "mcp-method").is_some_and(|method| method != "initialize"),
            asks_events: method == "GET" && accepts_events,
            upgrades: value(fields, "upgrade").is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket")),
            last_event_id: value(fields, "last-event-id").map(|id| cut(id).to_string()),
        }
    }
}
