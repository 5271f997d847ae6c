//! The notes the forwarding side leaves for the recorder, as bytes on the tape, and their reading.
//!
//! Comes in: what a carrier did. Goes out: records of (carrier, kind, bytes), and on the recorder's side the same as
//! [`HttpHappening`]s for the scribe. Writing a note is one copy: nothing is parsed where bytes are forwarded.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use httparse::Header;

use crate::event::http::secret_names::is_plain;
use crate::event::http::secrets::Secrets;
use crate::event::http::{HttpHappening, HttpScribe, HttpSetup, says_nothing_new};
use crate::event::tape::{Record, Tape, Transcriber};
use crate::event::{How, Micros, Party, Side, Sink, Stamper};

/// Where notes go: the tape. Appending never waits for a reader. Credentials are hashed before they come there, since
/// a tape that is full goes to disk.
pub struct Notes {
    tape: Arc<Tape>,
    stamper: Stamper,
    secrets: Secrets,
}

impl Notes {
    pub fn new(tape: Arc<Tape>, stamper: Stamper, secret: &[u8; 32]) -> Notes {
        Notes { tape, stamper, secrets: Secrets::new(secret) }
    }

    fn put(&self, carrier: u64, kind: u8, bytes: &[u8]) {
        self.tape.append(kind, carrier, self.stamper.now(), bytes);
    }

    /// Nothing more will come: the scribe may close what is open.
    pub(super) fn finish(&self) {
        self.put(0, FINISH, &[]);
    }
}

/// Reads the notes of the proxy on the recorder's side.
pub struct HttpTranscriber {
    scribe: HttpScribe,
}

impl HttpTranscriber {
    pub fn new(setup: HttpSetup) -> HttpTranscriber {
        HttpTranscriber { scribe: HttpScribe::new(setup) }
    }

    /// For notes of which the first are elsewhere.
    pub fn from_the_middle(mut self) -> HttpTranscriber {
        self.scribe.begin_in_the_middle();
        self
    }
}

impl Transcriber for HttpTranscriber {
    fn take(&mut self, record: Record<'_>, sink: &mut dyn Sink) {
        tell(&mut self.scribe, record.channel, record.kind, record.at, record.bytes, sink);
    }

    fn lost(&mut self, at: Micros, records: u64, bytes: u64, why: &str, sink: &mut dyn Sink) {
        self.scribe.lost(at, records, bytes, why, sink);
    }
}

const REQUEST: u8 = 1;
const REQUEST_BODY: u8 = 2;
const REQUEST_END: u8 = 3;
const RESPONSE: u8 = 4;
const RESPONSE_BODY: u8 = 5;
const RESPONSE_END: u8 = 6;
const REQUEST_TRAILERS: u8 = 7;
const RESPONSE_TRAILERS: u8 = 8;
const NOTE: u8 = 9;
const CLOSED: u8 = 10;
/// The response ended in order, and the carrier with it.
const DONE: u8 = 11;
/// The proxy has ended.
const FINISH: u8 = 12;

/// One HTTP exchange, seen by the parts of the proxy that move its bytes. Told as closed exactly once: if by nobody
/// else, then when it is dropped.
pub(super) struct Carrier {
    number: u64,
    notes: Arc<Notes>,
    /// The proxy ends what is still open.
    cut: Arc<AtomicBool>,
    over: bool,
}

thread_local! {
    /// Heads are put together here, so that a note costs no allocation.
    static DESK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Hashes of the secrets this thread saw last, the latest first: a client sends the same ones with every request.
    static HASHED: RefCell<Vec<Hashed>> = const { RefCell::new(Vec::new()) };
}

/// More secrets than this are not remembered.
const MOST_REMEMBERED: usize = 64;

fn text(desk: &mut Vec<u8>, bytes: &[u8]) {
    desk.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    desk.extend_from_slice(bytes);
}

/// All fields worth keeping, with their names in lower case and without secrets.
fn field_list(desk: &mut Vec<u8>, fields: &[Header<'_>], secrets: &Secrets) {
    for field in fields {
        let begin = desk.len();
        text(desk, field.name.as_bytes());
        let (_, written) = desk[begin..].split_at_mut(4);
        written.make_ascii_lowercase();
        let name = std::str::from_utf8(written).unwrap_or(field.name);
        if says_nothing_new(name) {
            desk.truncate(begin);
        } else if is_plain(name, field.value) {
            text(desk, field.value);
        } else {
            hidden(desk, &field.name.to_ascii_lowercase(), field.value, secrets);
        }
    }
}

fn hidden(desk: &mut Vec<u8>, name: &str, value: &[u8], secrets: &Secrets) {
    HASHED.with(|hashed| {
        let mut hashed = hashed.borrow_mut();
        // Whether it is hidden depends on the name, so equal values of different fields are different here.
        if let Some(at) = hashed.iter().position(|known| *known.value == *value && *known.name == *name) {
            hashed[..=at].rotate_right(1);
            return text(desk, hashed[0].kept.as_bytes());
        }
        let readable = String::from_utf8_lossy(value);
        let kept = secrets.field(name, &readable);
        text(desk, kept.as_bytes());
        hashed.truncate(MOST_REMEMBERED - 1);
        hashed.insert(0, Hashed { name: name.into(), value: value.into(), kept: kept.into() });
    });
}

/// What stands for a secret.
struct Hashed {
    name: Box<str>,
    value: Box<[u8]>,
    kept: Box<str>,
}

impl Carrier {
    pub(super) fn new(number: u64, notes: Arc<Notes>, cut: Arc<AtomicBool>) -> Carrier {
        Carrier { number, notes, cut, over: false }
    }

    fn put(&self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        DESK.with(|desk| {
            let mut desk = desk.borrow_mut();
            desk.clear();
            write(&mut desk);
            self.notes.put(self.number, kind, &desk);
        });
    }

    pub(super) fn request(&self, client: &str, connection: u64, method: &str, target: &str, fields: &[Header<'_>]) {
        self.put(REQUEST, |desk| {
            desk.extend_from_slice(&connection.to_le_bytes());
            text(desk, client.as_bytes());
            text(desk, method.as_bytes());
            text(desk, self.notes.secrets.target(target).as_bytes());
            field_list(desk, fields, &self.notes.secrets);
        });
    }

    pub(super) fn response(&self, status: u16, fields: &[Header<'_>]) {
        self.put(RESPONSE, |desk| {
            desk.extend_from_slice(&status.to_le_bytes());
            field_list(desk, fields, &self.notes.secrets);
        });
    }

    pub(super) fn body(&self, from: Side, bytes: &[u8]) {
        if !bytes.is_empty() && !self.over {
            let kind = if from == Side::Client { REQUEST_BODY } else { RESPONSE_BODY };
            self.notes.put(self.number, kind, bytes);
        }
    }

    pub(super) fn request_end(&self) {
        if !self.over {
            self.notes.put(self.number, REQUEST_END, &[]);
        }
    }

    pub(super) fn response_end(&self) {
        self.notes.put(self.number, RESPONSE_END, &[]);
    }

    pub(super) fn trailers(&self, from: Side, fields: &[Header<'_>]) {
        if !self.over {
            let kind = if from == Side::Client { REQUEST_TRAILERS } else { RESPONSE_TRAILERS };
            self.put(kind, |desk| field_list(desk, fields, &self.notes.secrets));
        }
    }

    pub(super) fn note(&self, words: &str) {
        self.notes.put(self.number, NOTE, words.as_bytes());
    }

    /// The response is whole.
    pub(super) fn done(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            self.notes.put(self.number, DONE, &[]);
        }
    }

    pub(super) fn closed(&mut self, by: Party, how: How) {
        if !std::mem::replace(&mut self.over, true) {
            self.notes.put(self.number, CLOSED, &[party_code(by), how_code(how)]);
        }
    }
}

impl Drop for Carrier {
    /// The connection was dropped before the end: the client left, unless it is we who are leaving.
    fn drop(&mut self) {
        match self.cut.load(Ordering::Relaxed) {
            true => self.closed(Party::Tap, How::Eof),
            false => self.closed(Party::Client, How::Reset),
        }
    }
}

fn party_code(by: Party) -> u8 {
    match by {
        Party::Client => 0,
        Party::Server => 1,
        Party::Tap => 2,
        Party::Unknown => 3,
    }
}

fn how_code(how: How) -> u8 {
    match how {
        How::Eof => 0,
        How::Reset => 1,
        How::Timeout => 2,
        How::Error => 3,
    }
}

fn number<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes(number(rest)?) as usize;
    let (text, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(text)
}

/// A word of a head as text. Bytes beyond UTF-8 are rare in heads; they are made readable, not kept.
fn told(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Reads one record of the tape and tells the scribe. `false` when the record is no note of ours.
fn tell(scribe: &mut HttpScribe, carrier: u64, kind: u8, at: Micros, mut bytes: &[u8], sink: &mut dyn Sink) -> bool {
    let rest = &mut bytes;
    let simple = match kind {
        REQUEST_BODY => HttpHappening::RequestBody(rest),
        REQUEST_END => HttpHappening::RequestEnd,
        RESPONSE_BODY => HttpHappening::ResponseBody(rest),
        RESPONSE_END => HttpHappening::ResponseEnd,
        CLOSED => {
            let [by, how] = match rest {
                [by, how] => [*by, *how],
                _ => return false,
            };
            let by = [Party::Client, Party::Server, Party::Tap].get(by as usize).copied().unwrap_or(Party::Unknown);
            let how = [How::Eof, How::Reset, How::Timeout].get(how as usize).copied().unwrap_or(How::Error);
            HttpHappening::Closed { by, how }
        }
        DONE => {
            scribe.take(carrier, at, HttpHappening::ResponseEnd, sink);
            HttpHappening::Closed { by: Party::Server, how: How::Eof }
        }
        FINISH => {
            scribe.finish(at, sink);
            return true;
        }
        NOTE => {
            scribe.take(carrier, at, HttpHappening::Note(&told(rest)), sink);
            return true;
        }
        REQUEST | RESPONSE | REQUEST_TRAILERS | RESPONSE_TRAILERS => {
            return tell_head(scribe, carrier, kind, at, rest, sink).is_some();
        }
        _ => return false,
    };
    scribe.take(carrier, at, simple, sink);
    true
}

fn tell_head(
    scribe: &mut HttpScribe,
    carrier: u64,
    kind: u8,
    at: Micros,
    rest: &mut &[u8],
    sink: &mut dyn Sink,
) -> Option<()> {
    let mut connection = 0;
    let mut status = 0;
    let mut words: [&[u8]; 3] = [&[]; 3];
    match kind {
        REQUEST => {
            connection = u64::from_le_bytes(number(rest)?);
            words = [take_text(rest)?, take_text(rest)?, take_text(rest)?];
        }
        RESPONSE => status = u16::from_le_bytes(number(rest)?),
        _ => {}
    }
    let mut owned = Vec::new();
    while !rest.is_empty() {
        owned.push((told(take_text(rest)?), told(take_text(rest)?)));
    }
    let fields: Vec<(&str, &str)> = owned.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    let fields = fields.as_slice();
    let [client, method, target] = words.map(told);
    let what = match kind {
        REQUEST => HttpHappening::Request { client: &client, connection, method: &method, target: &target, fields },
        RESPONSE => HttpHappening::Response { status, fields },
        REQUEST_TRAILERS => HttpHappening::Trailers { from: Side::Client, fields },
        _ => HttpHappening::Trailers { from: Side::Server, fields },
    };
    scribe.take(carrier, at, what, sink);
    Some(())
}
