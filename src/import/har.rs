//! HAR files: of browsers, mitmproxy and others.
//!
//! Entries stand in the file as their tool likes; they are told here in the order of their times, as far as memory allows.
//! An event stream that was given up shows as status 200, an empty body and a few milliseconds: when and how it ended is not
//! in a HAR, so such a carrier is left open and says so. Bodies are already decoded.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::Result;
use crate::event::http::{HttpHappening, HttpScribe, HttpSetup};
use crate::event::redact::fresh_key;
use crate::event::{How, Knows, Micros, Party, Side, Source, base64};

use super::array::Elements;
use super::renumbering::{Keys, Renumbering};
use super::{Importer, Reading, Sureness, time};

pub struct Har;

/// What waits to be told in the order of its time.
const MOST_WAITING_BYTES: usize = 32 * 1024 * 1024;

const PATH: &[&str] = &["log", "entries"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    #[serde(default)]
    time: Option<f64>,
    request: Request,
    response: Option<Response>,
    #[serde(default)]
    timings: Option<Timings>,
    #[serde(default)]
    connection: Option<String>,
    #[serde(rename = "_webSocketMessages", default)]
    web_socket: Vec<SocketMessage>,
    #[serde(rename = "_error", default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    status: f64,
    #[serde(default)]
    headers: Vec<Field>,
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(default)]
    size: Option<f64>,
    mime_type: Option<String>,
    text: Option<String>,
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Timings {
    #[serde(default)]
    receive: Option<f64>,
}

#[derive(Deserialize)]
struct SocketMessage {
    #[serde(rename = "type")]
    kind: String,
    time: f64,
    #[serde(default)]
    opcode: Option<u8>,
    #[serde(default)]
    data: String,
}

/// One thing of an entry, waiting for its time.
enum Act {
    Request(Box<Entry>),
    Response(Box<Entry>),
    Socket { from_client: bool, frame: Vec<u8> },
    Close(Party, How),
}

impl Act {
    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        300 + match self {
            Act::Request(entry) | Act::Response(entry) => {
                entry.request.post_data.as_ref().map_or(0, |data| text(&data.text))
                    + entry.response.as_ref().and_then(|r| r.content.as_ref()).map_or(0, |c| text(&c.text))
                    + entry.web_socket.iter().map(|message| message.data.len()).sum::<usize>()
            }
            Act::Socket { frame, .. } => frame.len(),
            Act::Close(..) => 0,
        }
    }
}

impl Importer for Har {
    fn name(&self) -> &'static str {
        "har"
    }

    fn about(&self) -> &'static str {
        "HAR files of browsers, mitmproxy and other HTTP tools"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        if head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().first() != Some(&b'{') {
            return 0;
        }
        let look = &head[..head.len().min(4096)];
        let has = |word: &[u8]| memchr::memmem::find(look, word).is_some();
        match has(b"\"log\"") && (has(b"\"creator\"") || has(b"\"entries\"") || has(b"\"version\"")) {
            true => 90,
            false => 0,
        }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut telling = Telling::new(reading, self);
        let mut elements = Elements::new(reading.input(), PATH);
        while let Some(element) = elements.next_element() {
            let bytes = element.text.len() as u64 + element.left_out;
            match serde_json::from_slice::<Entry>(element.text) {
                Ok(entry) => match time::from_text(&entry.started_date_time) {
                    Some(at) => {
                        telling.carriers += 1;
                        telling.wait(at, telling.carriers, Act::Request(Box::new(entry)));
                    }
                    None => reading.unread(bytes, format!("entry {}: its time cannot be read", element.number)),
                },
                Err(_) if element.left_out > 0 => {
                    reading.unread(bytes, format!("entry {}: longer than is read", element.number));
                }
                Err(cause) => reading.unread(bytes, format!("entry {}: {cause}", element.number)),
            }
            telling.tell(reading, MOST_WAITING_BYTES);
        }
        if elements.found && !elements.closed {
            reading.unread(0, "the file ends before its list of entries does".to_string());
        }
        telling.tell(reading, 0);
        telling.finish(reading);
        Ok(())
    }
}

struct Telling {
    http: HttpScribe,
    keys: Keys,
    waiting: BTreeMap<(Micros, u64, u64), Act>,
    bytes: usize,
    order: u64,
    carriers: u64,
    last: Micros,
    late: u64,
}

impl Telling {
    fn new(reading: &Reading<'_>, importer: &Har) -> Telling {
        let http = HttpScribe::new(HttpSetup {
            name: reading.session_name(),
            source: Source::Import(importer.name().to_string()),
            target: reading.file().to_string(),
            knows: importer.knows(),
            only_rpc: true,
            first_session: 0,
            secret: fresh_key(),
        });
        let waiting = BTreeMap::new();
        Telling { http, keys: Keys::default(), waiting, bytes: 0, order: 0, carriers: 0, last: i64::MIN, late: 0 }
    }

    fn wait(&mut self, at: Micros, carrier: u64, act: Act) {
        self.order += 1;
        self.bytes += act.bytes();
        self.waiting.insert((at, self.order, carrier), act);
    }

    fn tell(&mut self, reading: &mut Reading<'_>, down_to: usize) {
        while self.bytes > down_to {
            let Some(((at, _, carrier), act)) = self.waiting.pop_first() else { break };
            self.bytes -= act.bytes();
            if at < self.last {
                self.late += 1;
            }
            let at = at.max(self.last);
            self.last = at;
            self.act(reading, at, carrier, act);
        }
    }

    fn act(&mut self, reading: &mut Reading<'_>, at: Micros, carrier: u64, act: Act) {
        match act {
            Act::Request(entry) => {
                let request = &entry.request;
                let fields = fields_of(&request.headers);
                let connection = entry.connection.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
                let (method, target) = (request.method.as_str(), request.url.as_str());
                let what = HttpHappening::Request { client: "", connection, method, target, fields: &fields };
                let body =
                    request.post_data.as_ref().and_then(|data| body_of(data.text.as_deref(), data.encoding.as_deref()));
                let mut sink = Renumbering { reading, keys: &mut self.keys };
                self.http.take(carrier, at, what, &mut sink);
                if let Some(body) = body {
                    self.http.take(carrier, at, HttpHappening::RequestBody(&body), &mut sink);
                }
                self.http.take(carrier, at, HttpHappening::RequestEnd, &mut sink);
                let answered = at.saturating_add(micros(entry.time));
                self.wait(answered, carrier, Act::Response(entry));
            }
            Act::Response(entry) => self.response(reading, at, carrier, *entry),
            Act::Socket { from_client, frame } => {
                let mut sink = Renumbering { reading, keys: &mut self.keys };
                let what =
                    if from_client { HttpHappening::RequestBody(&frame) } else { HttpHappening::ResponseBody(&frame) };
                self.http.take(carrier, at, what, &mut sink);
            }
            Act::Close(by, how) => {
                let mut sink = Renumbering { reading, keys: &mut self.keys };
                self.http.take(carrier, at, HttpHappening::Closed { by, how }, &mut sink);
            }
        }
    }

    fn response(&mut self, reading: &mut Reading<'_>, at: Micros, carrier: u64, entry: Entry) {
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        let status = entry.response.as_ref().map_or(0.0, |response| response.status);
        let Some(response) = entry.response.filter(|_| (100.0..1000.0).contains(&status)) else {
            // Status 0 is how browsers write a request that was given up or never got through.
            let why = entry.error.as_deref().unwrap_or("no response is on record");
            self.http.take(carrier, at, HttpHappening::Note(why), &mut sink);
            self.http.take(carrier, at, HttpHappening::Closed { by: Party::Unknown, how: How::Error }, &mut sink);
            return;
        };
        // The bodies in a HAR have been unpacked already.
        let unpacked =
            |name: &str| ["content-encoding", "transfer-encoding"].iter().any(|n| name.eq_ignore_ascii_case(n));
        let fields: Vec<(&str, &str)> =
            fields_of(&response.headers).into_iter().filter(|(name, _)| !unpacked(name)).collect();
        self.http.take(carrier, at, HttpHappening::Response { status: status as u16, fields: &fields }, &mut sink);
        if status as u16 == 101 {
            for message in entry.web_socket {
                let from_client = message.kind == "send";
                let at = (message.time * 1e6) as Micros;
                let frame = socket_frame(message.opcode.unwrap_or(1), &message.data);
                self.wait(at, carrier, Act::Socket { from_client, frame });
            }
            return;
        }
        let content = response.content;
        let text = content.as_ref().and_then(|content| body_of(content.text.as_deref(), content.encoding.as_deref()));
        let is_stream = fields.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("content-type") && value.to_ascii_lowercase().contains("event-stream")
        }) || content
            .as_ref()
            .and_then(|c| c.mime_type.as_deref())
            .is_some_and(|mime| mime.contains("event-stream"));
        let empty = text.as_ref().is_none_or(Vec::is_empty);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.http.take(carrier, at, HttpHappening::ResponseBody(&text), &mut sink);
        } else if let Some(size) = content.as_ref().and_then(|content| content.size).filter(|size| *size >= 1.0) {
            let why = "the HAR does not hold this body";
            self.http.take(carrier, at, HttpHappening::Lost { from: Side::Server, bytes: size as u64, why }, &mut sink);
        }
        let received = entry.timings.as_ref().and_then(|timings| timings.receive).unwrap_or(0.0);
        if is_stream && empty && received <= 0.0 {
            let text = "the HAR shows an empty event stream; when and how it ended is not on record";
            self.http.take(carrier, at, HttpHappening::Note(text), &mut sink);
            return;
        }
        self.http.take(carrier, at, HttpHappening::ResponseEnd, &mut sink);
        let by = if is_stream { Party::Unknown } else { Party::Server };
        self.wait(at, carrier, Act::Close(by, How::Eof));
    }

    fn finish(&mut self, reading: &mut Reading<'_>) {
        let at = if self.last == i64::MIN { 0 } else { self.last };
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        if self.late > 0 {
            let text = format!("{} entries stand too far out of order and are told later than they were", self.late);
            self.http.note(at, &text, &mut sink);
        }
        let passed = self.http.passed_over();
        if passed > 0 {
            self.http.note(at, &format!("{passed} HTTP exchanges have nothing to do with JSON-RPC"), &mut sink);
        }
        for (bytes, why) in sink.reading.take_troubles() {
            self.http.lost(at, 1, bytes, &why, &mut sink);
        }
        self.http.finish(at, &mut sink);
        if self.carriers > 0 {
            let why = format!("none of {} HTTP exchanges has to do with JSON-RPC", self.carriers);
            reading.unread(0, why);
        }
    }
}

fn micros(milliseconds: Option<f64>) -> Micros {
    milliseconds.filter(|ms| ms.is_finite() && (0.0..1e12).contains(ms)).map_or(0, |ms| (ms * 1_000.0) as Micros)
}

/// Header fields, without the pseudo-fields of HTTP/2.
fn fields_of(headers: &[Field]) -> Vec<(&str, &str)> {
    let real = headers.iter().filter(|field| !field.name.starts_with(':'));
    real.map(|field| (field.name.as_str(), field.value.as_str())).collect()
}

fn body_of(text: Option<&str>, encoding: Option<&str>) -> Option<Vec<u8>> {
    let text = text?;
    match encoding {
        Some("base64") => base64::decode(text),
        _ => Some(text.as_bytes().to_vec()),
    }
}

/// The message as a frame, unmasked: a HAR keeps only what was in it.
fn socket_frame(opcode: u8, data: &str) -> Vec<u8> {
    let payload = if opcode == 2 { base64::decode(data).unwrap_or_default() } else { data.as_bytes().to_vec() };
    let mut frame = vec![0x80 | (opcode & 0x0f)];
    match payload.len() {
        len @ 0..=125 => frame.push(len as u8),
        len @ 126..=65_535 => {
            frame.push(126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            frame.push(127);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&payload);
    frame
}
