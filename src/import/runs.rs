//! The runs of a server in a log that goes on over restarts: each becomes a session of its own.
//!
//! A run begins when the log says so, or with an `initialize` after a run that had one: ids start anew there, and one
//! session over both would pair the answers of one run with the requests of the other. Its session opens with its first
//! message: what the log knows may differ from run to run, and only a message shows it.

use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side};

use super::Reading;
use super::json::{Fields, quote};

pub(super) struct Runs {
    /// Added to the session's name: the server's, where one log has several.
    label: Option<String>,
    knows: Knows,
    /// What a reader of the report should know of this format.
    notes: Vec<String>,
    open: Option<Open>,
    begun: Option<Begun>,
    count: u32,
}

/// What a server that was started printed before its first message is kept, as far as this.
const MOST_EARLY_BYTES: usize = 64 * 1024;

/// A run that the log says was started.
struct Begun {
    at: Micros,
    stderr: Vec<(Micros, Vec<u8>)>,
    bytes: usize,
}

struct Open {
    scribe: Scribe,
    initialized: bool,
    ended: [bool; 2],
    last_at: Micros,
}

impl Runs {
    pub fn new(label: Option<String>, knows: Knows, notes: &[&str]) -> Runs {
        let notes = notes.iter().map(|note| note.to_string()).collect();
        Runs { label, knows, notes, open: None, begun: None, count: 0 }
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some() || self.begun.is_some()
    }

    /// What the log knows from here on; a run that knew otherwise is over.
    pub fn knowing(&mut self, reading: &mut Reading<'_>, knows: Knows, notes: &[&str]) {
        if self.knows != knows {
            if self.open.is_some() {
                self.finish(reading);
            }
            self.knows = knows;
            self.notes = notes.iter().map(|note| note.to_string()).collect();
        }
    }

    /// The time of the latest event of the run that is open.
    pub fn last_at(&self) -> Option<Micros> {
        self.open.as_ref().map(|open| open.last_at)
    }

    /// A whole message.
    pub fn message(&mut self, reading: &mut Reading<'_>, from: Side, at: Micros, body: &[u8]) {
        let initialize = Fields::find(body, "method") == Some(b"\"initialize\"") && Fields::find(body, "id").is_some();
        let over = self.open.as_ref().is_some_and(|open| (initialize && open.initialized) || open.ended[from as usize]);
        if over {
            self.finish(reading);
        }
        let open = self.at(reading, at);
        open.initialized |= initialize;
        open.scribe.body(from, at, None, body, reading.sink);
    }

    /// A line of the server's stderr; before any run it belongs to none and is only counted.
    pub fn stderr(&mut self, reading: &mut Reading<'_>, at: Micros, line: &[u8]) {
        if let (None, Some(begun)) = (&self.open, &mut self.begun)
            && begun.bytes + line.len() <= MOST_EARLY_BYTES
        {
            begun.bytes += line.len() + 1;
            begun.stderr.push((at, line.to_vec()));
            return;
        }
        let open = self.at(reading, at);
        open.scribe.stderr(at, line, reading.sink);
        open.scribe.stderr(at, b"\n", reading.sink);
    }

    /// The log says that the server was started: a new run, unless one was just begun and has no message yet.
    pub fn started(&mut self, reading: &mut Reading<'_>, at: Micros) {
        if self.open.as_ref().is_some_and(|open| open.initialized || open.ended != [false; 2]) {
            self.finish(reading);
        }
        if self.open.is_none() && self.begun.is_none() {
            self.begun = Some(Begun { at, stderr: Vec::new(), bytes: 0 });
        }
    }

    /// One direction ended.
    pub fn ended(&mut self, reading: &mut Reading<'_>, at: Micros, from: Side, by: Party, how: How) {
        if !self.is_open() {
            return;
        }
        let open = self.at(reading, at);
        if !open.ended[from as usize] {
            open.ended[from as usize] = true;
            open.scribe.end(from, at, by, how, reading.sink);
        }
    }

    pub fn happening(&mut self, reading: &mut Reading<'_>, at: Micros, what: Happening) {
        let open = self.at(reading, at);
        open.scribe.happening(at, None, what, reading.sink);
    }

    /// The log, or this run, is over.
    pub fn finish(&mut self, reading: &mut Reading<'_>) {
        if let Some(at) = self.begun.as_ref().map(|begun| begun.stderr.last().map_or(begun.at, |(at, _)| *at)) {
            self.at(reading, at);
        }
        if let Some(mut open) = self.open.take() {
            reading.finish(&mut open.scribe, open.last_at);
        }
    }

    fn at(&mut self, reading: &mut Reading<'_>, at: Micros) -> &mut Open {
        if self.open.is_none() {
            self.count += 1;
            let number = (self.count > 1).then(|| format!("#{}", self.count));
            let parts: Vec<&str> = self.label.as_deref().into_iter().chain(number.as_deref()).collect();
            let begun = self.begun.take();
            let since = begun.as_ref().map_or(at, |begun| begun.at);
            let mut scribe = reading.session(Some(&parts.join(" ")), self.knows, since);
            for note in &self.notes {
                reading.note(&mut scribe, since, note.as_str());
            }
            if let Some(begun) = begun {
                scribe.happening(since, None, Happening::Opened { pid: None }, reading.sink);
                for (at, line) in begun.stderr {
                    scribe.stderr(at, &line, reading.sink);
                    scribe.stderr(at, b"\n", reading.sink);
                }
            }
            self.open = Some(Open { scribe, initialized: false, ended: [false; 2], last_at: at });
        }
        let open = self.open.as_mut().expect("opened above");
        open.last_at = at;
        reading.tell_troubles(&mut open.scribe, at);
        open
    }
}

/// Puts a message together again from the parts a log kept. `id`, `params`, `result` and `data` are JSON text.
pub(super) fn call(id: Option<&str>, method: &str, params: Option<&str>) -> Vec<u8> {
    let mut text = String::from("{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        text += &format!(",\"id\":{id}");
    }
    text += &format!(",\"method\":{}", quote(method));
    if let Some(params) = params {
        text += &format!(",\"params\":{params}");
    }
    text.push('}');
    text.into_bytes()
}

pub(super) fn result(id: &str, result: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}").into_bytes()
}

pub(super) fn error(id: &str, code: i64, message: &str, data: Option<&str>) -> Vec<u8> {
    let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    let message = quote(message);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}{data}}}}}")
        .into_bytes()
}

/// An id that a log printed without quotes: digits are taken for a number, anything else for a string.
pub(super) fn printed_id(text: &str) -> String {
    let number = text.strip_prefix('-').unwrap_or(text);
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    if plain || quoted || text == "null" { text.to_string() } else { quote(text) }
}
