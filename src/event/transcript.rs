//! Conversations as people write them: read by tests, printed as evidence.
//!
//! ```text
//! 0ms    -> 1 textDocument/hover {"line":3}
//! 40ms   -> $/cancelRequest {"id":1}
//! 50ms   <- 1 error {"code":-32800,"message":"cancelled"}
//! 900ms  |closed|
//!        ! some-rule 1
//!        = 1 cancelled-acknowledged
//! ```
//!
//! `->` client to server, `<-` server to client: an id and a method are a request, a method alone a notification, an
//! id and `result` or `error` a response; anything else after the arrow goes as it is. `#2` before the arrow is the
//! HTTP exchange. Happenings stand between bars. `!` lines are what is expected to be found, `=` lines what is
//! expected to become of a request (`= server 1 answered` for the server's). A time holds until the next one; `+5ms`
//! counts from the last. Head lines: `protocol NAME`, `knows no ends`, `begins late`, `as of 40s`.

use super::{
    Bodies, Collected, Event, Happening, How, Knows, Micros, Party, Scribe, Session, Side, Sink, Source, What,
};
use crate::rpc::{Id, Kind, Message};

/// A conversation that was read, and what is expected of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    pub collected: Collected,
    /// As in `--protocol`.
    pub protocol: Option<String>,
    pub as_of: Option<Micros>,
    pub findings: Vec<Expected>,
    pub outcomes: Vec<(Side, Id, String)>,
}

/// A `!` line: the rule, and the subjects it names (none: any).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub rule: String,
    pub subjects: Vec<String>,
}

/// Where the times of conversations begin: an ordinary day, so that nothing lives at the edge of the clock.
pub const EPOCH: Micros = 1_700_000_000_000_000;
/// The printed text of params, results and errors is cut here: a transcript is for eyes.
const LONGEST_TEXT: usize = 160;

/// Reads a conversation. The error names the line and what is wrong with it.
pub fn parse(text: &str) -> Result<Conversation, String> {
    let mut reader = Reader::default();
    let session = Session {
        key: 0,
        name: "transcript".to_string(),
        source: Source::Import("transcript".to_string()),
        target: String::new(),
        started_at: EPOCH,
        knows: Knows::ALL,
    };
    reader.collected.session(&session);
    for (number, line) in text.lines().enumerate() {
        reader.line(line.trim()).map_err(|wrong| format!("line {}: {wrong}: {}", number + 1, line.trim()))?;
    }
    reader.open();
    reader.collected.sessions[0].knows = reader.knows;
    Ok(Conversation {
        collected: reader.collected,
        protocol: reader.protocol,
        as_of: reader.as_of,
        findings: reader.findings,
        outcomes: reader.outcomes,
    })
}

struct Reader {
    collected: Collected,
    scribe: Scribe,
    at: Micros,
    knows: Knows,
    late: bool,
    opened: bool,
    protocol: Option<String>,
    as_of: Option<Micros>,
    findings: Vec<Expected>,
    outcomes: Vec<(Side, Id, String)>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            collected: Collected::default(),
            scribe: Scribe::new(0),
            at: EPOCH,
            knows: Knows::ALL,
            late: false,
            opened: false,
            protocol: None,
            as_of: None,
            findings: Vec::new(),
            outcomes: Vec::new(),
        }
    }
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with("//") {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("! ") {
            let mut words = rest.split_whitespace().map(str::to_string);
            let rule = words.next().ok_or("no rule")?;
            self.findings.push(Expected { rule, subjects: words.collect() });
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("= ") {
            let (side, rest) = match rest.strip_prefix("server ") {
                Some(rest) => (Side::Server, rest),
                None => (Side::Client, rest),
            };
            let (id, outcome) = rest.split_once(' ').ok_or("no outcome")?;
            self.outcomes.push((side, Id::from_raw(id), outcome.trim().to_string()));
            return Ok(());
        }
        if let Some(name) = line.strip_prefix("protocol ") {
            self.protocol = Some(name.trim().to_string());
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("knows ") {
            return self.knows(rest);
        }
        if line == "begins late" {
            self.late = true;
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("as of ") {
            self.as_of = Some(EPOCH + duration(rest).ok_or("no duration")?);
            return Ok(());
        }
        self.event(line)
    }

    fn knows(&mut self, rest: &str) -> Result<(), String> {
        for word in rest.split(',').map(str::trim) {
            match word {
                "no times" => self.knows.times = false,
                "no direction" => self.knows.direction = false,
                "no ids" => self.knows.ids = false,
                "no payload" => self.knows.payload = false,
                "no ends" => self.knows.ends = false,
                other => return Err(format!("nothing known as {other}")),
            }
        }
        Ok(())
    }

    fn open(&mut self) {
        if !self.opened && !self.late {
            self.happen(None, Happening::Opened { pid: None });
        }
        self.opened = true;
    }

    fn happen(&mut self, carrier: Option<u64>, happening: Happening) {
        self.scribe.happening(self.at, carrier, happening, &mut self.collected);
    }

    fn event(&mut self, line: &str) -> Result<(), String> {
        let mut rest = line;
        let first = rest.split_whitespace().next().unwrap_or_default();
        if let Some(after) = first.strip_prefix('+').and_then(duration) {
            self.at += after;
            rest = rest[first.len()..].trim_start();
        } else if let Some(at) = duration(first) {
            self.at = EPOCH + at;
            rest = rest[first.len()..].trim_start();
        }
        self.open();
        let mut carrier = None;
        if let Some(after) = rest.strip_prefix('#') {
            let (number, after) = after.split_once(' ').ok_or("nothing after the carrier")?;
            carrier = Some(number.parse().map_err(|_| "no carrier")?);
            rest = after.trim_start();
        }
        if let Some(inside) = rest.strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) {
            return self.bars(carrier, inside.trim());
        }
        let (from, rest) = match (rest.strip_prefix("->"), rest.strip_prefix("<-")) {
            (Some(rest), _) => (Side::Client, rest.trim()),
            (_, Some(rest)) => (Side::Server, rest.trim()),
            _ => return Err("neither an arrow nor a happening".to_string()),
        };
        let body = body(rest)?;
        self.scribe.body(from, self.at, carrier, body.as_bytes(), &mut self.collected);
        Ok(())
    }

    fn bars(&mut self, carrier: Option<u64>, inside: &str) -> Result<(), String> {
        let words: Vec<&str> = inside.split_whitespace().collect();
        let closed = |from, by, how| Happening::Closed { from, by, how };
        match (carrier, words.as_slice()) {
            (None, ["closed"]) => {
                self.happen(None, closed(Side::Client, Party::Client, How::Eof));
                self.happen(None, closed(Side::Server, Party::Server, How::Eof));
            }
            (None, ["client", "closed"]) => self.happen(None, closed(Side::Client, Party::Client, How::Eof)),
            (None, ["server", "closed"]) => self.happen(None, closed(Side::Server, Party::Server, How::Eof)),
            (None, ["server", "reset"]) => self.happen(None, closed(Side::Server, Party::Server, How::Reset)),
            (None, ["tap", "closed"]) => self.happen(None, closed(Side::Client, Party::Tap, How::Eof)),
            (None, ["exit", code]) => {
                let code = Some(code.parse().map_err(|_| "no exit code")?);
                self.happen(None, Happening::Exited { code, signal: None });
            }
            (None, ["killed", signal]) => {
                let signal = Some(signal.parse().map_err(|_| "no signal")?);
                self.happen(None, Happening::Exited { code: None, signal });
            }
            (_, ["lost", ..]) => {
                let (lost, why) = inside.split_once(": ").unwrap_or((inside, "told by the transcript"));
                let words: Vec<&str> = lost.split_whitespace().collect();
                let from = match words.get(2..) {
                    Some(["from", "client"]) => Some(Side::Client),
                    Some(["from", "server"]) => Some(Side::Server),
                    _ => None,
                };
                let events = words.get(1).and_then(|count| count.parse().ok()).ok_or("no count")?;
                self.happen(carrier, Happening::Lost { from, events, bytes: 0, why: why.to_string() });
            }
            (None, ["session", "ended", "by", by]) => {
                let by = if *by == "client" { Side::Client } else { Side::Server };
                self.happen(None, Happening::SessionEnded { by, how: "told by the transcript".to_string() });
            }
            (Some(_), ["opened", method, target, header @ ..]) => {
                let header = header.join(" ");
                let headers = header.split_once(": ").map(|(name, value)| (name.to_string(), value.to_string()));
                self.happen(
                    carrier,
                    Happening::CarrierOpened {
                        method: method.to_string(),
                        target: target.to_string(),
                        headers: headers.into_iter().collect(),
                    },
                );
            }
            (Some(_), ["head", status]) => {
                let status = status.parse().map_err(|_| "no status")?;
                self.happen(carrier, Happening::CarrierHead { status, headers: Vec::new() });
            }
            (Some(_), ["streaming"]) => self.happen(carrier, Happening::CarrierStreaming { resumes: None }),
            (Some(_), ["resumes", id]) => {
                self.happen(carrier, Happening::CarrierStreaming { resumes: Some(id.to_string()) });
            }
            (Some(_), ["stream", "event", id]) => {
                self.happen(carrier, Happening::StreamEvent { id: id.to_string() });
            }
            (Some(_), [ended @ ("closed" | "torn" | "unreached"), "by", by]) => {
                let by = match *by {
                    "client" => Party::Client,
                    "server" => Party::Server,
                    _ => Party::Unknown,
                };
                let how = match *ended {
                    "torn" => How::Reset,
                    "unreached" => How::Error,
                    _ => How::Eof,
                };
                self.happen(carrier, Happening::CarrierClosed { by, how, request_bytes: 0, response_bytes: 0 });
            }
            (None, ["note", text @ ..]) => self.happen(None, Happening::Note { text: text.join(" ") }),
            _ => return Err("no such happening".to_string()),
        }
        Ok(())
    }
}

/// `0ms`, `1.5s`, `2m`, `1h`.
fn duration(word: &str) -> Option<Micros> {
    let word = word.trim();
    let (number, unit) = word.split_at(word.find(|c: char| c.is_alphabetic())?);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * factor).round() as Micros)
}

/// The JSON of what stands after an arrow.
fn body(text: &str) -> Result<String, String> {
    if let Some(raw) = text.strip_prefix("raw ") {
        return Ok(raw.to_string());
    }
    if text.starts_with(['{', '[']) {
        return Ok(text.to_string());
    }
    let (first, rest) = text.split_once(' ').map_or((text, ""), |(first, rest)| (first, rest.trim()));
    let is_id = first.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '"')
        || matches!(first, "null" | "true" | "false")
        || first.starts_with("{}");
    if !is_id {
        return Ok(match rest {
            "" => format!(r#"{{"jsonrpc":"2.0","method":"{first}"}}"#),
            params => format!(r#"{{"jsonrpc":"2.0","method":"{first}","params":{params}}}"#),
        });
    }
    let (word, rest) = rest.split_once(' ').map_or((rest, ""), |(word, rest)| (word, rest.trim()));
    Ok(match (word, rest) {
        ("", _) => return Err("an id and nothing else".to_string()),
        ("result", "") => format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{}}}}"#),
        ("error", "") => format!(r#"{{"jsonrpc":"2.0","id":{first},"error":{{"code":-32603,"message":"failed"}}}}"#),
        ("result" | "error", value) => format!(r#"{{"jsonrpc":"2.0","id":{first},"{word}":{value}}}"#),
        (method, "") => format!(r#"{{"jsonrpc":"2.0","id":{first},"method":"{method}"}}"#),
        (method, params) => format!(r#"{{"jsonrpc":"2.0","id":{first},"method":"{method}","params":{params}}}"#),
    })
}

/// One event as a line of a transcript, timed from `origin`. Holds text from the wire: make it safe to print.
pub fn print(event: &Event, origin: Micros, bodies: &mut dyn Bodies) -> String {
    let time = time(event.at - origin);
    let carrier = event.carrier.map(|carrier| format!("#{carrier} ")).unwrap_or_default();
    let text = match &event.what {
        What::Message { from, message, body } => {
            let read = bodies.read(event.session, *body, READ_FOR_TEXT).map(|bytes| bytes.into_owned());
            let whole = read.as_ref().is_some_and(|bytes| bytes.len() as u64 == body.len);
            format!("{} {}", from.arrow(), message_text(message, read.as_deref(), whole))
        }
        What::Fault { from, fault, .. } => format!("{} |fault {}|", from.arrow(), fault.name()),
        What::Stderr { bytes } => {
            let read = bodies.read(event.session, *bytes, LONGEST_TEXT).map(|bytes| bytes.into_owned());
            format!("|stderr {}|", String::from_utf8_lossy(read.as_deref().unwrap_or_default()).trim_end())
        }
        What::Happening(happening) => format!("|{}|", happening_text(happening)),
    };
    format!("{time:<9} {carrier}{text}")
}

/// So much of a body is read to show its params; longer ones are cut anyway.
const READ_FOR_TEXT: usize = 64 * 1024;

/// `1.234s`, `40ms`: short, and exact enough to compare.
pub fn time(offset: Micros) -> String {
    let millis = offset as f64 / 1000.0;
    if millis.abs() < 1000.0 {
        let rounded = (millis * 10.0).round() / 10.0;
        return format!("{rounded}ms");
    }
    format!("{}s", (millis.round()) / 1000.0)
}

fn message_text(message: &Message, body: Option<&[u8]>, whole: bool) -> String {
    let id = message.id.as_ref().map(|id| format!("{id} ")).unwrap_or_default();
    let part = |key: &str| -> String {
        let read = body.filter(|_| whole).and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
        let item = match (read, message.batch_index) {
            (Some(serde_json::Value::Array(items)), Some(index)) => items.into_iter().nth(index as usize),
            (read, _) => read,
        };
        let text = item.and_then(|item| item.get(key).map(ToString::to_string));
        match text {
            Some(text) => format!(" {}", cut(&text)),
            None => body.filter(|_| !whole).map(|_| " …".to_string()).unwrap_or_default(),
        }
    };
    match message.kind {
        Kind::Request | Kind::Notification => format!("{id}{}{}", message.method(), part("params")),
        Kind::Result => format!("{id}result{}", part("result")),
        Kind::Error => format!("{id}error{}", part("error")),
        Kind::Unreadable(why) => {
            let text = body.map(String::from_utf8_lossy).unwrap_or_default();
            format!("raw {} ({})", cut(text.trim_end()), why.name())
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

fn happening_text(happening: &Happening) -> String {
    let party = |party: &Party| match party {
        Party::Client => "client",
        Party::Server => "server",
        Party::Tap => "tap",
        Party::Unknown => "unknown",
    };
    match happening {
        Happening::Opened { .. } => "opened".to_string(),
        Happening::Closed { from, by: Party::Tap, .. } => format!("{} closed by the tap", from.name()),
        Happening::Closed { from, how: How::Reset, .. } => format!("{} reset", from.name()),
        Happening::Closed { from, .. } => format!("{} closed", from.name()),
        Happening::Exited { code: Some(code), .. } => format!("exit {code}"),
        Happening::Exited { signal: Some(signal), .. } => format!("killed {signal}"),
        Happening::Exited { .. } => "exit".to_string(),
        Happening::Lost { from, events, bytes, why } => {
            let what = if *events > 0 { events.to_string() } else { format!("{bytes} bytes") };
            format!("lost {what}{}: {why}", from.map(|from| format!(" from {}", from.name())).unwrap_or_default())
        }
        Happening::CarrierOpened { method, target, .. } => format!("opened {method} {target}"),
        Happening::CarrierHead { status, .. } => format!("head {status}"),
        Happening::CarrierStreaming { resumes: None } => "streaming".to_string(),
        Happening::CarrierStreaming { resumes: Some(id) } => format!("resumes {id}"),
        Happening::StreamEvent { id } => format!("stream event {id}"),
        Happening::CarrierTrailers { .. } => "trailers".to_string(),
        Happening::CarrierClosed { by, .. } => format!("closed by {}", party(by)),
        Happening::SessionEnded { by, .. } => format!("session ended by {}", by.name()),
        Happening::Sample(_) => "sample".to_string(),
        Happening::Note { text } => format!("note {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALK: &str = r#"
        protocol lsp
        0ms     -> 1 textDocument/hover {"line":3}
        40ms    -> $/cancelRequest {"id":1}
        +10ms   <- 1 error {"code":-32800,"message":"cancelled"}
                <- "a" workspace/configuration
        1.5s    #2 |opened POST /mcp|
        900s    |closed|
                ! cancel-unanswered 1
                = 1 cancelled-acknowledged
                = server "a" lost-in-shutdown
    "#;

    #[test]
    fn what_was_read_prints_as_it_was_written() {
        let talk = parse(TALK).expect("a conversation");
        let mut bodies = talk.collected.clone();
        let lines: Vec<String> = talk.collected.events.iter().map(|event| print(event, EPOCH, &mut bodies)).collect();
        assert_eq!(
            lines,
            [
                "0ms       |opened|",
                "0ms       -> 1 textDocument/hover {\"line\":3}",
                "40ms      -> $/cancelRequest {\"id\":1}",
                "50ms      <- 1 error {\"code\":-32800,\"message\":\"cancelled\"}",
                "50ms      <- \"a\" workspace/configuration",
                "1.5s      #2 |opened POST /mcp|",
                "900s      |client closed|",
                "900s      |server closed|",
            ]
        );
        assert_eq!(talk.protocol.as_deref(), Some("lsp"));
        assert_eq!(talk.findings, [Expected { rule: "cancel-unanswered".into(), subjects: vec!["1".into()] }]);
        assert_eq!(talk.outcomes[1], (Side::Server, Id::Text("a".into()), "lost-in-shutdown".into()));
    }

    #[test]
    fn printed_transcripts_can_be_read_again() {
        let talk = parse(TALK).expect("a conversation");
        let mut bodies = talk.collected.clone();
        let lines: Vec<String> =
            talk.collected.events.iter().skip(1).map(|event| print(event, EPOCH, &mut bodies)).collect();
        let again = parse(&lines.join("\n")).expect("its own print");
        assert_eq!(again.collected.events, talk.collected.events);
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert!(parse("0ms -> 1").expect_err("no method").starts_with("line 1: an id and nothing else"));
        assert!(parse("\n|exploded|").expect_err("no happening").starts_with("line 2: no such happening"));
    }
}
