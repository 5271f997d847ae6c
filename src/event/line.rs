//! Event lines: the interchange form. One JSON object a line for each session, run of raw bytes and event, such that
//! reading what was written gives the same again, to the byte.
//!
//! ```text
//! {"rpctap":1,"session":1,"name":"weather","source":"stdio","target":"…","started_at":1794962996282050,"knows":{…}}
//! {"session":1,"stream":0,"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"}
//! {"session":1,"seq":1,"at":1794962996282992,"from":"client","kind":"request","id":"1","method":"ping","body":[0,0,40]}
//! ```
//!
//! Times are microseconds since 1970. Bytes come before the events that point at them, as text where they are UTF-8 and
//! as base64 where not. An id is the text of its JSON literal: `"1"` is the number one, `"\"1\""` a string.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Event, Happening, Knows, Micros, Session, SessionKey, Side, Sink, Source, Span, StreamId, What, base64};
use crate::rpc::{Id, Kind, Marks, Message, Name, Oddities, Oddity, Unreadable};
use crate::wire::Fault;

/// The version of the form, in every session's line.
pub const VERSION: u32 = 1;

/// Raw bytes are cut into lines of about this length, so that every line can be held.
const MOST_TEXT_BYTES: usize = 256 * 1024;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub enum Line<'a> {
    Session(Session),
    Bytes { session: SessionKey, stream: StreamId, bytes: Cow<'a, [u8]> },
    Event(Event),
}

/// A sink that writes event lines. The first trouble in writing is kept for [`LineWriter::finish`].
pub struct LineWriter<W: Write> {
    out: W,
    trouble: Option<io::Error>,
}

impl<W: Write> LineWriter<W> {
    pub fn new(out: W) -> LineWriter<W> {
        LineWriter { out, trouble: None }
    }

    /// Flushes, and gives the writer back or the first trouble there was.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Whether writing has failed: no use to go on.
    pub fn broken(&self) -> bool {
        self.trouble.is_some()
    }

    fn write(&mut self, line: &impl Serialize) {
        if self.trouble.is_none() {
            let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
            self.trouble = written.and_then(|()| self.out.write_all(b"\n")).err();
        }
    }
}

impl<W: Write> Sink for LineWriter<W> {
    fn session(&mut self, session: &Session) {
        self.write(&SessionLine {
            rpctap: VERSION,
            session: session.key,
            name: Cow::Borrowed(&session.name),
            source: session.source.clone(),
            target: Cow::Borrowed(&session.target),
            started_at: session.started_at,
            knows: session.knows,
        });
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(text_end(rest));
            rest = after;
            let (text, base64) = match std::str::from_utf8(part) {
                Ok(text) => (Some(Cow::Borrowed(text)), None),
                Err(_) => (None, Some(Cow::Owned(base64::encode(part)))),
            };
            self.write(&BytesLine { session, stream, text, base64 });
        }
    }

    fn event(&mut self, event: Event) {
        self.write(&EventLine::of(&event));
    }
}

/// How much of these bytes goes into one line: up to the limit, and not into the middle of a character.
fn text_end(bytes: &[u8]) -> usize {
    if bytes.len() <= MOST_TEXT_BYTES {
        return bytes.len();
    }
    let before = (MOST_TEXT_BYTES - 3..=MOST_TEXT_BYTES).rev().find(|at| bytes[*at] & 0xc0 != 0x80);
    before.unwrap_or(MOST_TEXT_BYTES)
}

/// Reads one line; says what is wrong with one that is none.
pub fn read(text: &[u8]) -> Result<Line<'_>, String> {
    let any: AnyLine<'_> = serde_json::from_slice(text).map_err(|cause| format!("no event line: {cause}"))?;
    if let Some(version) = any.rpctap {
        if version > VERSION {
            return Err(format!("event lines of version {version}: a newer rpctap wrote them"));
        }
        let line: SessionLine<'_> = serde_json::from_slice(text).map_err(|cause| format!("a session: {cause}"))?;
        return Ok(Line::Session(Session {
            key: line.session,
            name: line.name.into_owned(),
            source: line.source,
            target: line.target.into_owned(),
            started_at: line.started_at,
            knows: line.knows,
        }));
    }
    if any.stream.is_some() {
        let line: BytesLine<'_> = serde_json::from_slice(text).map_err(|cause| format!("bytes: {cause}"))?;
        let bytes = match (line.text, line.base64) {
            (Some(Cow::Borrowed(text)), _) => Cow::Borrowed(text.as_bytes()),
            (Some(Cow::Owned(text)), _) => Cow::Owned(text.into_bytes()),
            (None, Some(text)) => Cow::Owned(base64::decode(&text).ok_or("bytes: no base64")?),
            (None, None) => return Err("bytes without text or base64".to_string()),
        };
        return Ok(Line::Bytes { session: line.session, stream: line.stream, bytes });
    }
    let line: EventLine<'_> = serde_json::from_slice(text).map_err(|cause| format!("an event: {cause}"))?;
    line.event().map(Line::Event)
}

#[derive(Deserialize)]
struct AnyLine<'a> {
    rpctap: Option<u32>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
struct SessionLine<'a> {
    rpctap: u32,
    session: SessionKey,
    #[serde(borrow)]
    name: Cow<'a, str>,
    source: Source,
    #[serde(borrow)]
    target: Cow<'a, str>,
    started_at: Micros,
    knows: Knows,
}

#[derive(Serialize, Deserialize)]
struct BytesLine<'a> {
    session: SessionKey,
    stream: StreamId,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    base64: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
struct EventLine<'a> {
    session: SessionKey,
    seq: u64,
    at: Micros,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    carrier: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Side>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    marks: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    oddities: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    print: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<(StreamId, u64, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    happening: Option<Happening>,
}

impl<'a> EventLine<'a> {
    fn of(event: &'a Event) -> EventLine<'a> {
        let mut line = EventLine {
            session: event.session,
            seq: event.seq,
            at: event.at,
            carrier: event.carrier,
            from: event.from(),
            kind: Cow::Borrowed("stderr"),
            reason: None,
            id: None,
            method: None,
            marks: None,
            oddities: Vec::new(),
            print: None,
            batch: None,
            body: event.span().map(|span| (span.stream, span.start, span.len)),
            happening: None,
        };
        match &event.what {
            What::Message { message, .. } => {
                line.kind = Cow::Borrowed(match message.kind {
                    Kind::Request => "request",
                    Kind::Notification => "notification",
                    Kind::Result => "result",
                    Kind::Error => "error",
                    Kind::Unreadable(_) => "unreadable",
                });
                if let Kind::Unreadable(reason) = message.kind {
                    line.reason = Some(Cow::Borrowed(reason.name()));
                }
                line.id = message.id.as_ref().map(|id| Cow::Owned(id.to_raw()));
                line.method = message.method.as_deref().map(Cow::Borrowed);
                line.marks = Some(message.marks.as_json()).filter(|marks| !marks.is_empty()).map(Cow::Borrowed);
                line.oddities = message.oddities.iter().map(|oddity| Cow::Borrowed(oddity.name())).collect();
                line.print = (message.params_print != 0).then_some(message.params_print);
                line.batch = message.batch_index;
            }
            What::Fault { fault, .. } => {
                line.kind = Cow::Borrowed("fault");
                line.reason = Some(Cow::Borrowed(fault.name()));
            }
            What::Stderr { .. } => {}
            What::Happening(happening) => {
                line.kind = Cow::Borrowed("happening");
                line.happening = Some(happening.clone());
            }
        }
        line
    }

    fn event(self) -> Result<Event, String> {
        let reason = self.reason.as_deref();
        let span = self.body.map(|(stream, start, len)| Span { stream, start, len });
        let from = self.from.ok_or("an event without its sender");
        let what = match &*self.kind {
            "happening" => What::Happening(self.happening.ok_or("a happening without what happened")?),
            "stderr" => What::Stderr { bytes: span.ok_or("stderr without its place")? },
            "fault" => {
                let fault = reason.and_then(Fault::from_name).ok_or("a fault of no known name")?;
                What::Fault { from: from?, fault, bytes: span.ok_or("a fault without its place")? }
            }
            kind => {
                let kind = match kind {
                    "request" => Kind::Request,
                    "notification" => Kind::Notification,
                    "result" => Kind::Result,
                    "error" => Kind::Error,
                    "unreadable" => {
                        let reason = reason.and_then(Unreadable::from_name);
                        Kind::Unreadable(reason.ok_or("unreadable for no known reason")?)
                    }
                    other => return Err(format!("an event of the unknown kind {other:?}")),
                };
                let mut oddities = Oddities::default();
                for name in &self.oddities {
                    let known = Oddity::ALL.into_iter().find(|oddity| oddity.name() == name);
                    oddities.add(known.ok_or("an oddity of no known name")?);
                }
                let message = Message {
                    kind,
                    id: self.id.as_deref().map(Id::from_raw),
                    method: self.method.as_deref().map(Name::from),
                    marks: self.marks.as_deref().map(Marks::from_json).unwrap_or_default(),
                    oddities,
                    params_print: self.print.unwrap_or(0),
                    batch_index: self.batch,
                };
                What::Message { from: from?, message, body: span.ok_or("a message without its place")? }
            }
        };
        Ok(Event { session: self.session, seq: self.seq, at: self.at, carrier: self.carrier, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Collected, How, Party};

    fn there_and_back(given: &Collected) -> Collected {
        let mut writer = LineWriter::new(Vec::new());
        for session in &given.sessions {
            writer.session(session);
        }
        for ((session, stream), bytes) in &given.streams {
            writer.bytes(*session, *stream, bytes);
        }
        for event in &given.events {
            writer.event(event.clone());
        }
        let text = writer.finish().expect("in memory");
        let mut again = Collected::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match read(line).expect("our own line") {
                Line::Session(session) => again.session(&session),
                Line::Bytes { session, stream, bytes } => again.bytes(session, stream, &bytes),
                Line::Event(event) => again.event(event),
            }
        }
        again
    }

    #[test]
    fn everything_comes_back() {
        let mut given = Collected::default();
        for (key, source) in [(1, Source::Stdio), (2, Source::Http), (3, Source::Import("har".into()))] {
            given.session(&Session {
                key,
                name: "a \"name\"\n\u{1b}[31m".into(),
                source,
                target: "t".into(),
                started_at: -5,
                knows: Knows { times: false, ..Knows::ALL },
            });
        }
        let text = "ü€😀 text ".repeat(80_000);
        given.bytes(1, 0, text.as_bytes());
        given.bytes(1, 1, &[0, 159, 146, 150, b'\n', 255]);
        given.bytes(2, 17, b"{\"jsonrpc\":\"2.0\"}\r\n");
        let mut seq = 0;
        let mut add = |what: What, carrier: Option<u64>| {
            seq += 1;
            given.event(Event { session: 1, seq, at: seq as i64 * 3, carrier, what });
        };
        let span = Span { stream: 0, start: 3, len: 9 };
        let mut message = Message::unreadable(Unreadable::Truncated);
        add(What::Message { from: Side::Server, message: message.clone(), body: span }, None);
        for (kind, id) in [
            (Kind::Request, Some(Id::from_raw("1"))),
            (Kind::Request, Some(Id::from_raw("\"1\""))),
            (Kind::Result, Some(Id::from_raw("1.0"))),
            (Kind::Error, Some(Id::Null)),
            (Kind::Error, Some(Id::from_raw("{\"cut"))),
            (Kind::Notification, None),
        ] {
            message.kind = kind;
            message.id = id;
            message.method = (kind == Kind::Request).then(|| Name::from("tools/\u{7}call"));
            message.oddities.add(Oddity::NoVersion);
            message.oddities.add(Oddity::PayloadCut);
            message.params_print = u64::MAX;
            message.batch_index = Some(7);
            message.marks = Marks::from_json(r#"{"name":"a,\"}b","ask-progress":3}"#);
            add(What::Message { from: Side::Client, message: message.clone(), body: span }, Some(4));
        }
        for fault in Fault::ALL {
            add(What::Fault { from: Side::Server, fault, bytes: span }, None);
        }
        add(What::Stderr { bytes: span }, None);
        add(What::Happening(Happening::Closed { from: Side::Client, by: Party::Tap, how: How::Reset }), Some(1));
        add(What::Happening(Happening::Note { text: "x\ny".into() }), None);
        assert_eq!(there_and_back(&given), given);
    }

    #[test]
    fn what_is_no_event_line_is_refused_with_a_reason() {
        for bad in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"rpctap":99,"session":1}"#,
            r#"{"rpctap":1,"session":1}"#,
            r#"{"session":1,"stream":0}"#,
            r#"{"session":1,"stream":0,"base64":"?"}"#,
            r#"{"session":1,"seq":1,"at":0,"kind":"request","body":[0,0,0]}"#,
            r#"{"session":1,"seq":1,"at":0,"kind":"odd"}"#,
            r#"{"session":1,"seq":1,"at":0,"kind":"fault","from":"client","reason":"x","body":[0,0,0]}"#,
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
