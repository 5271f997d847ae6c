//! HAR files: of browsers, mitmproxy and others.
//!
//! Entries stand in the file as their tool likes; they are told here in the order of their times, as far as memory allows.
//! An event stream that was given up shows as status 200, an empty body and a few milliseconds: when and how it ended is not
//! in a HAR, so such a carrier is left open and says so, unless the browser names the client's abort. Bodies are
//! already decoded; one that the HAR does not hold is told as lost. A HAR in which no response has a body was recorded without
//! them, whatever sizes it writes: then no answer is missing for any other reason.

mod beside;
mod bodies;
mod entry;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::Result;
use crate::event::http::{HttpHappening, HttpScribe, HttpSetup};
use crate::event::{How, Knows, Micros, Party, Side, Source, base64};

use super::array::Elements;
use super::renumbering::{Keys, Renumbering};
use super::{Importer, Reading, Sureness, time};
use bodies::Bodies;
use entry::{Entry, Request, body_of, fields_of, is_stream, missing, session_of, unpacked_fields};
use streams::{Said, Stream};

pub struct Har;

/// What waits to be told in the order of its time.
const MOST_WAITING_BYTES: usize = 32 * 1024 * 1024;

const PATH: &[&str] = &["log", "entries"];

const NOT_HELD: &str = "the HAR does not hold this body";
const NO_BODIES: &str = "response bodies are not in this file: what was answered cannot be told";
const NO_TIMES: &str = "a HAR has no times inside an event stream: a message is told with the request it answers";

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
        let input = reading.input();
        telling.folder = input.path().and_then(|path| Some(path.parent()?.to_path_buf()));
        let mut elements = Elements::new(input, PATH);
        while let Some(element) = elements.next_element() {
            let bytes = element.text.len() as u64 + element.left_out;
            match serde_json::from_slice::<Entry>(element.text) {
                Ok(entry) => match time::from_text(&entry.started_date_time) {
                    Some(at) => {
                        telling.carriers += 1;
                        telling.bodies.see(&entry);
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
    /// Where the HAR lies.
    folder: Option<PathBuf>,
    /// Event streams with messages that come before their end.
    streams: Vec<Stream>,
    waiting: BTreeMap<(Micros, u64, u64), Act>,
    bytes: usize,
    order: u64,
    carriers: u64,
    last: Micros,
    late: u64,
    bodies: Bodies,
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
            secret: reading.secret(),
        });
        Telling {
            http,
            keys: Keys::default(),
            folder: None,
            streams: Vec::new(),
            waiting: BTreeMap::new(),
            bytes: 0,
            order: 0,
            carriers: 0,
            last: i64::MIN,
            late: 0,
            bodies: Bodies::default(),
        }
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
                self.request(reading, at, carrier, &entry);
                self.open_stream(reading, at, carrier, &entry);
                let answered = at.saturating_add(micros(entry.time));
                self.wait(answered, carrier, Act::Response(entry));
            }
            Act::Response(entry) => {
                let asked = self.posted(&entry.request);
                let of = (entry.request.url.clone(), session_of(&entry.request.headers).map(str::to_string));
                self.response(reading, at, carrier, *entry);
                if let Some(Said::Asks(id)) = asked {
                    self.on_streams(reading, at, (&of.0, of.1.as_deref()), |stream| stream.asked(&id));
                }
            }
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

    fn request(&mut self, reading: &mut Reading<'_>, at: Micros, carrier: u64, entry: &Entry) {
        let request = &entry.request;
        let body = request.post_data.as_ref().and_then(|data| self.body(&data.text, &data.encoding, &data.file));
        let body = body.filter(|body| !body.is_empty());
        if let Some(Said::Answers(id)) = body.as_deref().map(Said::of) {
            let of = (request.url.as_str(), session_of(&request.headers));
            self.on_streams(reading, at, of, |stream| stream.answered(&id));
        }
        let fields = fields_of(&request.headers);
        let connection = entry.connection.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
        let (method, target) = (request.method.as_str(), request.url.as_str());
        let what = HttpHappening::Request { client: "", connection, method, target, fields: &fields };
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        self.http.take(carrier, at, what, &mut sink);
        if let Some(body) = body {
            self.http.take(carrier, at, HttpHappening::RequestBody(&body), &mut sink);
        } else if let Some(bytes) = missing(request) {
            self.http.take(carrier, at, HttpHappening::Lost { from: Side::Client, bytes, why: NOT_HELD }, &mut sink);
        }
        self.http.take(carrier, at, HttpHappening::RequestEnd, &mut sink);
    }

    /// A stream with messages that must come before its end begins at once, as far as it stays open beside others.
    fn open_stream(&mut self, reading: &mut Reading<'_>, at: Micros, carrier: u64, entry: &Entry) {
        let Some(response) = entry.response.as_ref().filter(|response| (200.0..300.0).contains(&response.status))
        else {
            return;
        };
        if !is_stream(response) {
            return;
        }
        let body = response.content.as_ref().and_then(|c| self.body(&c.text, &c.encoding, &c.file));
        let Some(body) = body.filter(|body| !body.is_empty()) else { return };
        let session = session_of(&entry.request.headers).or_else(|| session_of(&response.headers));
        let stands = entry.request.method == "GET";
        let Some(mut stream) = Stream::of(carrier, &body, session, stands) else { return };
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        let head =
            HttpHappening::Response { status: response.status as u16, fields: &unpacked_fields(&response.headers) };
        self.http.take(carrier, at, head, &mut sink);
        self.http.take(carrier, at, HttpHappening::ResponseBody(&stream.opening()), &mut sink);
        self.http.take(carrier, at, HttpHappening::Note(NO_TIMES), &mut sink);
        self.streams.push(stream);
    }

    fn on_streams(
        &mut self,
        reading: &mut Reading<'_>,
        at: Micros,
        (url, session): (&str, Option<&str>),
        mut given: impl FnMut(&mut Stream) -> Vec<u8>,
    ) {
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        for stream in self.streams.iter_mut().filter(|stream| stream.serves(url, session)) {
            let bytes = given(stream);
            if !bytes.is_empty() {
                self.http.take(stream.carrier, at, HttpHappening::ResponseBody(&bytes), &mut sink);
            }
        }
    }

    /// What a POST said, where a stream may wait for it.
    fn posted(&self, request: &Request) -> Option<Said> {
        let data = request.post_data.as_ref().filter(|_| !self.streams.is_empty())?;
        self.body(&data.text, &data.encoding, &data.file).map(|body| Said::of(&body))
    }

    fn body(&self, text: &Option<String>, encoding: &Option<String>, file: &Option<String>) -> Option<Vec<u8>> {
        match (text.as_deref(), file) {
            (None | Some(""), Some(file)) => beside::read(self.folder.as_ref(), file),
            (text, _) => body_of(text, encoding.as_deref()),
        }
    }

    fn response(&mut self, reading: &mut Reading<'_>, at: Micros, carrier: u64, entry: Entry) {
        let begun = self.streams.iter().position(|stream| stream.carrier == carrier);
        let rest = begun.map(|place| self.streams.swap_remove(place).rest());
        let content = entry.response.as_ref().and_then(|response| response.content.as_ref());
        let text = match rest {
            Some(rest) => Some(rest),
            None => content.and_then(|content| self.body(&content.text, &content.encoding, &content.file)),
        };
        let asks = || {
            let data = entry.request.post_data.as_ref();
            let body = data.and_then(|data| self.body(&data.text, &data.encoding, &data.file));
            body.is_some_and(|body| matches!(Said::of(&body), Said::Asks(_)))
        };
        let answer_left_out = self.bodies.answered == 0 && text.as_ref().is_none_or(Vec::is_empty) && asks();
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        let status = entry.response.as_ref().map_or(0.0, |response| response.status);
        let failure = entry.response.as_ref().and_then(|response| response.failure.as_deref());
        let why = entry.error.as_deref().or(failure);
        // What browsers say when the page itself gave up.
        let aborted = why.is_some_and(|why| why.contains("ERR_ABORTED"));
        let Some(response) = entry.response.as_ref().filter(|_| (100.0..1000.0).contains(&status)) else {
            // Status 0 is how browsers write a request that was given up or never got through.
            let by = if aborted { Party::Client } else { Party::Unknown };
            self.http.take(carrier, at, HttpHappening::Note(why.unwrap_or("no response is on record")), &mut sink);
            self.http.take(carrier, at, HttpHappening::Closed { by, how: How::Error }, &mut sink);
            return;
        };
        if begun.is_none() {
            let fields = unpacked_fields(&response.headers);
            self.http.take(carrier, at, HttpHappening::Response { status: status as u16, fields: &fields }, &mut sink);
        }
        if status as u16 == 101 {
            for message in entry.web_socket {
                let from_client = message.kind == "send";
                let at = (message.time * 1e6) as Micros;
                let frame = socket_frame(message.opcode.unwrap_or(1), &message.data);
                self.wait(at, carrier, Act::Socket { from_client, frame });
            }
            return;
        }
        let is_stream = is_stream(response);
        let empty = begun.is_none() && text.as_ref().is_none_or(Vec::is_empty);
        let received = entry.timings.as_ref().and_then(|timings| timings.receive).unwrap_or(0.0);
        // A tool that kept no body of the request kept none of the response either, whatever size it writes.
        let size = content.and_then(|content| content.size).filter(|size| *size >= 1.0);
        let unheld = size.or_else(|| (is_stream && received > 0.0).then_some(0.0)).filter(|_| empty);
        let answer_left_out = answer_left_out && !aborted && (200.0..300.0).contains(&status);
        let session = session_of(&entry.request.headers).or_else(|| session_of(&response.headers));
        if answer_left_out && self.bodies.is_new(session) {
            self.http.take(carrier, at, HttpHappening::Note(NO_BODIES), &mut sink);
        }
        let unheld = unheld.filter(|_| size.is_some() || missing(&entry.request).is_some());
        if let Some(size) = unheld.or(answer_left_out.then_some(0.0)) {
            let lost = HttpHappening::Lost { from: Side::Server, bytes: size as u64, why: NOT_HELD };
            self.http.take(carrier, at, lost, &mut sink);
        } else if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.http.take(carrier, at, HttpHappening::ResponseBody(&text), &mut sink);
        }
        if is_stream && aborted {
            let text = "the client gave this event stream up; when is not on record";
            self.http.take(carrier, at, HttpHappening::Note(text), &mut sink);
            self.wait(at, carrier, Act::Close(Party::Client, How::Reset));
            return;
        }
        if is_stream && empty && received <= 0.0 && !answer_left_out {
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
        let Bodies { asked, answered, left_out, .. } = self.bodies;
        if left_out > 0 && asked + answered == 0 {
            let why = format!(
                "the bodies of {} HTTP exchanges are not in it: it was recorded without content",
                self.carriers
            );
            reading.unread(0, why);
        } else if self.carriers > 0 {
            let why = format!("none of {} HTTP exchanges has to do with JSON-RPC", self.carriers);
            reading.unread(0, why);
        }
    }
}

fn micros(milliseconds: Option<f64>) -> Micros {
    milliseconds.filter(|ms| ms.is_finite() && (0.0..1e12).contains(ms)).map_or(0, |ms| (ms * 1_000.0) as Micros)
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
