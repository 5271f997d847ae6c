//! Conversations over HTTP, and where their carriers must go.

use super::*;
use crate::event::{Collected, Event, What};
use crate::rpc::Kind;

pub(super) const JSON: (&str, &str) = ("Content-Type", "application/json");
pub(super) const EVENTS: (&str, &str) = ("Content-Type", "text/event-stream");
pub(super) const WANTS: (&str, &str) = ("Accept", "application/json, text/event-stream");
pub(super) const SESSION: (&str, &str) = ("Mcp-Session-Id", "abc-123");

/// Feeds a scribe and tells what came of it.
pub(super) struct Desk {
    pub(super) scribe: HttpScribe,
    pub(super) kept: Collected,
    now: Micros,
}

impl Desk {
    pub(super) fn new(only_rpc: bool) -> Desk {
        let setup = HttpSetup {
            name: "up".to_string(),
            source: Source::Http,
            target: "http://up".to_string(),
            knows: Knows::ALL,
            only_rpc,
            first_session: 1,
            secret: [3; 32],
        };
        Desk { scribe: HttpScribe::new(setup), kept: Collected::default(), now: 0 }
    }

    pub(super) fn take(&mut self, carrier: u64, what: HttpHappening<'_>) -> &mut Desk {
        self.now += 1000;
        self.scribe.take(carrier, self.now, what, &mut self.kept);
        self
    }

    /// A whole request, on a connection of its own.
    pub(super) fn ask(
        &mut self,
        carrier: u64,
        method: &str,
        target: &str,
        fields: Fields<'_>,
        body: &str,
    ) -> &mut Desk {
        self.ask_on(carrier, carrier, method, target, fields, body)
    }

    pub(super) fn ask_on(
        &mut self,
        carrier: u64,
        connection: u64,
        method: &str,
        target: &str,
        fields: Fields<'_>,
        body: &str,
    ) -> &mut Desk {
        self.take(carrier, HttpHappening::Request { client: "10.0.0.1", connection, method, target, fields });
        if !body.is_empty() {
            self.take(carrier, HttpHappening::RequestBody(body.as_bytes()));
        }
        self.take(carrier, HttpHappening::RequestEnd)
    }

    pub(super) fn head(&mut self, carrier: u64, status: u16, fields: Fields<'_>) -> &mut Desk {
        self.take(carrier, HttpHappening::Response { status, fields })
    }

    pub(super) fn say(&mut self, carrier: u64, text: &str) -> &mut Desk {
        self.take(carrier, HttpHappening::ResponseBody(text.as_bytes()))
    }

    pub(super) fn done(&mut self, carrier: u64) -> &mut Desk {
        self.take(carrier, HttpHappening::ResponseEnd);
        self.take(carrier, HttpHappening::Closed { by: Party::Server, how: How::Eof })
    }

    pub(super) fn answer(&mut self, carrier: u64, status: u16, fields: Fields<'_>, body: &str) -> &mut Desk {
        self.head(carrier, status, fields);
        if !body.is_empty() {
            self.say(carrier, body);
        }
        self.done(carrier)
    }

    /// The events of a session, one short line each.
    pub(super) fn told(&self, session: SessionKey) -> Vec<String> {
        self.kept.events.iter().filter(|event| event.session == session).map(line).collect()
    }

    pub(super) fn sessions(&self) -> Vec<&str> {
        self.kept.sessions.iter().map(|session| session.name.as_str()).collect()
    }
}

fn line(event: &Event) -> String {
    let place = event.carrier.map_or(String::new(), |carrier| format!("{carrier} "));
    let what = match &event.what {
        What::Message { from, message, .. } => {
            let id = message.id.as_ref().map_or(String::new(), |id| format!(" {id}"));
            let kind = match message.kind {
                Kind::Result => " result",
                Kind::Error => " error",
                Kind::Unreadable(reason) => reason.name(),
                _ => "",
            };
            let method = message.method.as_deref().map_or(String::new(), |name| format!(" {name}"));
            format!("{}{id}{method}{kind}", from.arrow())
        }
        What::Happening(Happening::Opened { .. }) => "opened".to_string(),
        What::Happening(Happening::Closed { from, .. }) => format!("closed {}", from.name()),
        What::Happening(Happening::CarrierOpened { method, target, .. }) => format!("{method} {target}"),
        What::Happening(Happening::CarrierHead { status, .. }) => status.to_string(),
        What::Happening(Happening::CarrierStreaming { resumes }) => match resumes {
            Some(id) => format!("stream from {id}"),
            None => "stream".to_string(),
        },
        What::Happening(Happening::CarrierClosed { by, how, .. }) => format!("{by:?} {how:?}").to_lowercase(),
        What::Happening(Happening::SessionEnded { by, how }) => format!("ended by {} {how}", by.name()),
        What::Happening(Happening::StreamEvent { id }) => format!("event {id}"),
        What::Happening(Happening::Note { text }) => format!("note {text}"),
        What::Happening(Happening::Lost { why, .. }) => format!("lost {why}"),
        other => format!("{other:?}"),
    };
    format!("{place}{what}")
}

pub(super) fn call(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x"}}}}"#)
}

pub(super) fn result(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

pub(super) fn initialize(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-06-18"}}}}"#)
}

#[test]
fn a_session_is_known_by_the_id_its_server_gave() {
    let mut desk = Desk::new(false);
    desk.ask(1, "POST", "/mcp", &[JSON, WANTS], &initialize(0));
    desk.head(1, 200, &[EVENTS, SESSION]).say(1, &format!("event: message\ndata: {}\n\n", result(0))).done(1);
    // Another client, at the same time, on the same machine.
    desk.ask(2, "POST", "/mcp", &[JSON, WANTS, ("Mcp-Protocol-Version", "2025-11-25")], &initialize(0));
    desk.answer(2, 200, &[JSON, ("mcp-session-id", "other")], &result(0));
    // The call on one connection, its cancel on another, the answer to a server's request on a third.
    desk.ask(3, "POST", "/mcp", &[JSON, SESSION], &call(1)).head(3, 200, &[EVENTS]);
    desk.say(3, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\"}\n\n");
    desk.ask(4, "POST", "/mcp", &[JSON, SESSION], &result(7)).answer(4, 202, &[], "");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    desk.ask(5, "POST", "/mcp", &[JSON, SESSION], cancel).answer(5, 202, &[], "");
    desk.take(3, HttpHappening::Closed { by: Party::Client, how: How::Reset });
    desk.ask(6, "DELETE", "/mcp", &[SESSION], "").answer(6, 200, &[], "");
    assert_eq!(desk.sessions(), ["up", "up-2"]);
    assert_eq!(
        desk.told(1),
        [
            "opened",
            "1 POST /mcp",
            "1 -> 0 initialize",
            "1 200",
            "1 stream",
            "1 <- 0 result",
            "1 server eof",
            "2 POST /mcp",
            "2 -> 1 tools/call",
            "2 200",
            "2 stream",
            "2 <- 7 sampling/createMessage",
            "3 POST /mcp",
            "3 -> 7 result",
            "3 202",
            "3 server eof",
            "4 POST /mcp",
            "4 -> notifications/cancelled",
            "4 202",
            "4 server eof",
            "2 client reset",
            "5 DELETE /mcp",
            "5 200",
            "5 ended by client DELETE",
            "5 server eof",
        ]
    );
    assert_eq!(desk.told(2).len(), 6);
    let kept = format!("{:?}", desk.kept);
    assert!(!kept.contains("abc-123") && kept.contains("hash:"), "the session's id was kept");
}

#[test]
fn a_stream_that_resumes_says_from_where_and_events_keep_their_ids() {
    let mut desk = Desk::new(false);
    desk.ask(1, "POST", "/mcp", &[JSON, SESSION], &call(1)).head(1, 200, &[EVENTS]);
    desk.say(1, "id: e0\nretry: 500\ndata:\n\n").done(1);
    desk.ask(2, "GET", "/mcp", &[WANTS, SESSION, ("Last-Event-ID", "e0")], "").head(2, 200, &[EVENTS]);
    desk.say(2, &format!(": ping\r\n\r\nid: e1\r\ndata: {}\r\n\r\n", result(1)));
    desk.take(2, HttpHappening::Closed { by: Party::Client, how: How::Eof });
    let told = desk.told(1);
    assert_eq!(told[0], "1 POST /mcp", "the session began before we listened");
    assert_eq!(told[2..6], ["1 200", "1 stream", "1 event e0", "1 server eof"]);
    assert_eq!(told[7..], ["2 200", "2 stream from e0", "2 event e1", "2 <- 1 result", "2 client eof"]);
}

#[test]
fn a_session_that_is_gone_ends_and_the_next_one_is_another() {
    let mut desk = Desk::new(false);
    desk.ask(1, "POST", "/mcp", &[JSON], &initialize(0)).answer(1, 200, &[JSON, SESSION], &result(0));
    desk.ask(2, "POST", "/mcp", &[JSON, SESSION], &call(1)).answer(2, 404, &[JSON], r#"{"error":"gone"}"#);
    desk.ask(3, "POST", "/mcp", &[JSON, SESSION], &call(2)).answer(3, 404, &[], "");
    desk.ask(4, "POST", "/mcp", &[JSON], &initialize(0)).answer(4, 200, &[JSON, ("Mcp-Session-Id", "new")], &result(0));
    assert_eq!(desk.sessions().len(), 2);
    let told = desk.told(1);
    assert_eq!(told.iter().filter(|line| line.contains("ended by server 404")).count(), 1);
    assert_eq!(told.iter().filter(|line| line.ends_with("tools/call")).count(), 2);
}

#[test]
fn an_initialize_that_is_redirected_goes_on_in_its_session() {
    let mut desk = Desk::new(false);
    // Two clients that look alike, and whole and partial URLs.
    for (carrier, location) in [(1, "/mcp/"), (2, "http://up:80/mcp/")] {
        desk.ask(carrier, "POST", "/mcp", &[JSON, WANTS], &initialize(0));
        desk.answer(carrier, 307, &[("Location", location)], "");
    }
    for (carrier, id) in [(3, "aa"), (4, "bb")] {
        desk.ask(carrier, "POST", "/mcp/", &[JSON, WANTS], &initialize(0));
        desk.answer(carrier, 200, &[JSON, ("Mcp-Session-Id", id)], &result(0));
        desk.ask(carrier + 2, "POST", "/mcp/", &[JSON, ("Mcp-Session-Id", id)], &call(1));
        desk.answer(carrier + 2, 200, &[JSON], &result(1));
    }
    assert_eq!(desk.sessions(), ["up", "up-2"]);
    let told = [
        "opened",
        "1 POST /mcp",
        "1 -> 0 initialize",
        "1 307",
        "1 server eof",
        "2 POST /mcp/",
        "2 -> 0 initialize",
        "2 200",
        "2 <- 0 result",
        "2 server eof",
        "3 POST /mcp/",
        "3 -> 1 tools/call",
        "3 200",
        "3 <- 1 result",
        "3 server eof",
    ];
    assert_eq!(desk.told(1), told);
    assert_eq!(desk.told(2), told);
    // Elsewhere, or long after, begins another.
    desk.ask(7, "POST", "/mcp", &[JSON], &initialize(0)).answer(7, 307, &[("Location", "/mcp/")], "");
    desk.ask(8, "POST", "/other", &[JSON], &initialize(0));
    desk.now += 60_000_000;
    desk.ask(9, "POST", "/mcp/", &[JSON], &initialize(0));
    assert_eq!(desk.sessions().len(), 5);
}

#[test]
fn not_every_404_ends_a_session() {
    let mut desk = Desk::new(false);
    desk.ask(1, "POST", "/mcp", &[JSON], &initialize(0)).answer(1, 200, &[JSON, SESSION], &result(0));
    desk.ask(2, "GET", "/mcp", &[WANTS, SESSION], "").answer(2, 404, &[], "");
    desk.ask(3, "GET", "/.well-known/oauth-protected-resource", &[SESSION], "").answer(3, 404, &[], "");
    desk.ask(4, "POST", "/register", &[JSON, SESSION], "{}").answer(4, 404, &[], "");
    desk.ask(5, "DELETE", "/mcp", &[SESSION], "").answer(5, 405, &[], "");
    assert!(!desk.told(1).iter().any(|line| line.contains("ended by")), "{:?}", desk.told(1));
    // A 404 that the next call takes back, and one that stands.
    desk.ask(6, "POST", "/mcp", &[JSON, SESSION], &call(1)).answer(6, 404, &[], "");
    desk.ask(7, "POST", "/mcp", &[JSON, SESSION], &call(2)).answer(7, 200, &[JSON], &result(2));
    desk.ask(8, "POST", "/mcp", &[JSON, SESSION], &call(3)).answer(8, 404, &[], "");
    desk.ask(9, "POST", "/mcp", &[JSON, SESSION], &call(4)).answer(9, 404, &[], "");
    let told = desk.told(1);
    let ends: Vec<&String> = told.iter().filter(|line| line.contains("ended by")).collect();
    assert_eq!(ends, ["6 ended by server 404", "8 ended by server 404"]);
}

#[test]
fn without_session_ids_connection_and_client_tell_conversations_apart() {
    let mut desk = Desk::new(false);
    // Two runs of one client against a server without sessions; the first goes on after the second began.
    desk.ask_on(1, 1, "POST", "/mcp", &[JSON], &initialize(0)).answer(1, 200, &[JSON], &result(0));
    desk.ask_on(2, 2, "POST", "/mcp", &[JSON], &initialize(0)).answer(2, 200, &[JSON], &result(0));
    desk.ask_on(3, 1, "POST", "/mcp", &[JSON], &call(1)).answer(3, 200, &[JSON], &result(1));
    desk.ask_on(4, 3, "POST", "/mcp", &[JSON], &call(1)).answer(4, 200, &[JSON], &result(1));
    assert_eq!(desk.sessions().len(), 2);
    assert!(desk.told(1).contains(&"2 -> 1 tools/call".to_string()));
    assert!(desk.told(2).contains(&"2 -> 1 tools/call".to_string()));
    // Other credentials are another client.
    desk.ask_on(5, 4, "POST", "/rpc", &[JSON, ("Authorization", "Bearer b")], &call(9)).answer(5, 200, &[JSON], "");
    assert_eq!(desk.sessions().len(), 3);
}

#[test]
fn a_stateless_version_keeps_one_conversation_for_its_client() {
    let mut desk = Desk::new(false);
    let version = ("MCP-Protocol-Version", "2026-07-28");
    for carrier in 1..4 {
        desk.ask(carrier, "POST", "/mcp", &[JSON, version], &call(1)).head(carrier, 200, &[EVENTS]);
    }
    desk.take(2, HttpHappening::Closed { by: Party::Client, how: How::Reset });
    desk.say(1, &format!("data: {}\n\n", result(1))).done(1);
    desk.scribe.finish(99_000_000, &mut desk.kept);
    assert_eq!(desk.sessions().len(), 1);
    let told = desk.told(1);
    assert_eq!(told.iter().filter(|line| line.ends_with("-> 1 tools/call")).count(), 3);
    assert_eq!(
        told[told.len() - 6..],
        ["2 client reset", "1 <- 1 result", "1 server eof", "3 tap eof", "closed client", "closed server"]
    );
}

#[test]
fn the_older_transport_is_one_session_per_event_stream() {
    let mut desk = Desk::new(false);
    for (get, post, id) in [(1, 3, "aa11"), (2, 4, "bb22")] {
        desk.ask(get, "GET", "/sse", &[("Accept", "text/event-stream")], "").head(get, 200, &[EVENTS]);
        desk.say(get, ": hello\r\n\r\nevent: endpoint\r\ndata: /messages/?session_");
        desk.say(get, &format!("id={id}\r\n\r\n"));
        desk.ask(post, "POST", &format!("/messages/?session_id={id}"), &[JSON], &initialize(0));
        desk.answer(post, 202, &[], "Accepted");
        desk.say(get, &format!("event: message\r\ndata: {}\r\n\r\n", result(0)));
    }
    assert_eq!(desk.sessions().len(), 2);
    for session in [1, 2] {
        let told = desk.told(session);
        assert!(told[4].starts_with("1 note requests go to /messages/?session_id=hash:"), "{told:?}");
        let rest: Vec<&str> = told[5..].iter().map(|line| line.split(" /mess").next().unwrap()).collect();
        assert_eq!(rest[..2], ["2 POST", "2 -> 0 initialize"]);
        assert_eq!(told.last().unwrap(), "1 <- 0 result");
    }
    assert!(!format!("{:?}", desk.kept).contains("aa11"), "the session's id was kept");
    // Who closes the stream ends the session; what the tap closes lives on.
    desk.take(1, HttpHappening::Closed { by: Party::Client, how: How::Eof });
    desk.scribe.finish(99_000_000, &mut desk.kept);
    assert_eq!(desk.told(1)[11..], ["1 client eof", "closed client"]);
    assert_eq!(desk.told(2)[11..], ["1 tap eof", "closed client", "closed server"]);
}

#[test]
fn a_silent_event_stream_is_not_kept_back_for_ever() {
    let mut desk = Desk::new(false);
    desk.ask(1, "GET", "/mcp", &[("Accept", "text/event-stream")], "").head(1, 200, &[EVENTS]);
    assert!(desk.kept.events.is_empty());
    desk.now += LONGEST_HOLD_MICROS;
    desk.ask(2, "POST", "/mcp", &[JSON], &call(1));
    assert_eq!(desk.told(1), ["opened", "1 GET /mcp", "1 200", "1 stream", "2 POST /mcp", "2 -> 1 tools/call"]);
}

#[test]
fn many_answers_under_one_id_batches_and_plain_calls_are_all_read() {
    let mut desk = Desk::new(false);
    let stream = r#"{"jsonrpc":"2.0","id":"a","method":"message/stream","params":{}}"#;
    desk.ask(1, "POST", "/a2a", &[JSON], stream).head(1, 200, &[EVENTS]);
    for _ in 0..3 {
        desk.say(1, "data: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":\"a\",\"result\":{}}\r\n\r\n");
    }
    desk.done(1);
    let batch = format!("[{},{}]", call(1), call(2));
    desk.ask(2, "POST", "/rpc", &[JSON], &batch).answer(2, 200, &[JSON], &format!("[{},{}]", result(2), result(1)));
    let told = desk.told(1);
    assert_eq!(told.iter().filter(|line| *line == "1 <- \"a\" result").count(), 3);
    assert_eq!(
        told[9..15],
        ["2 POST /rpc", "2 -> 1 tools/call", "2 -> 2 tools/call", "2 200", "2 <- 2 result", "2 <- 1 result"]
    );
}

#[test]
fn a_websocket_is_a_session_of_its_own() {
    let frame = |text: &str, masked: bool| {
        let mut bytes = vec![0x81, text.len() as u8 | if masked { 0x80 } else { 0 }];
        if masked {
            bytes.extend_from_slice(&[0; 4]);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    let mut desk = Desk::new(false);
    desk.ask(1, "GET", "/ws", &[("Upgrade", "websocket"), ("Connection", "Upgrade")], "").head(1, 101, &[]);
    desk.take(1, HttpHappening::RequestBody(&frame(&call(1), true)));
    for piece in frame(&result(1), false).chunks(5) {
        desk.take(1, HttpHappening::ResponseBody(piece));
    }
    // The client closes; the server says so too, and lets go of the connection first.
    desk.take(1, HttpHappening::RequestBody(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]));
    desk.take(1, HttpHappening::ResponseBody(&[0x88, 0x02, 0x03, 0xe8]));
    desk.take(1, HttpHappening::Closed { by: Party::Server, how: How::Reset });
    assert_eq!(
        desk.told(1),
        [
            "opened",
            "1 GET /ws",
            "1 101",
            "1 stream",
            "1 -> 1 tools/call",
            "1 <- 1 result",
            "1 note the client closes the WebSocket: 1000",
            "closed client",
            "1 note the server closes the WebSocket: 1000",
            "closed server",
            "1 client eof",
        ]
    );
    // One that is torn ends its session as well, by whoever tore it.
    desk.ask(2, "GET", "/ws", &[("Upgrade", "websocket"), ("Connection", "Upgrade")], "").head(2, 101, &[]);
    desk.take(2, HttpHappening::RequestBody(&frame(&call(1), true)));
    desk.take(2, HttpHappening::Closed { by: Party::Server, how: How::Reset });
    assert_eq!(desk.told(2)[4..], ["1 -> 1 tools/call", "closed client", "closed server", "1 server reset"]);
    // A log that does not say who closed proves no end.
    desk.ask(4, "GET", "/ws", &[("Upgrade", "websocket"), ("Connection", "Upgrade")], "").head(4, 101, &[]);
    desk.take(4, HttpHappening::Closed { by: Party::Unknown, how: How::Eof });
    assert_eq!(desk.told(3)[3..], ["1 stream", "1 unknown eof"]);
    // What the same client posts later is not part of it.
    desk.ask(3, "POST", "/rpc", &[JSON], &call(1));
    assert_eq!(desk.sessions().len(), 4);
}
