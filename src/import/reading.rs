//! What an importer has in hand while it reads: the input, where its events go, and the list of its troubles.
//!
//! Troubles (a line that is no line of the format, a file that breaks off) become `Lost` events of the session they
//! fall into, the first ones by name with their line number, the rest as one sum. Nothing is skipped in silence.

use std::path::PathBuf;

use crate::event::redact::key_of;
use crate::event::scribe::Scribe;
use crate::event::{Happening, Knows, Micros, Session, SessionKey, Side, Sink, Source};

use super::devtools::ReadRows;
use super::input::Broken;
use super::lines::Lines;
use super::{Importer, Input};

/// So many unreadable places are named one by one; a file that is no log at all need not fill the store with them.
const NAMED_TROUBLES: u64 = 50;

/// What the user said about the files to read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The format's name; recognised when `None`.
    pub format: Option<String>,
    /// What the sessions are to be called; named after the file when `None`.
    pub name: Option<String>,
    /// Who sent the messages of a log that does not say so.
    pub direction: Option<Side>,
    /// The two files of a `tee` pair: what the client sent and what the server sent.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// How to read the tables of a SQLite file, where the caller can.
    pub read_rows: Option<ReadRows>,
}

pub struct Reading<'a> {
    pub options: &'a Options,
    pub sink: &'a mut dyn Sink,
    input: Option<Input>,
    file: String,
    broken: Broken,
    importer: &'static dyn Importer,
    next_key: &'a mut SessionKey,
    first_key: SessionKey,
    troubles: Troubles,
}

/// Places that could not be read, kept until there is a session to tell them in.
#[derive(Debug, Default)]
struct Troubles {
    waiting: Vec<(u64, String)>,
    named: u64,
    unnamed: u64,
    unnamed_bytes: u64,
    first: Option<String>,
    total: u64,
}

impl Troubles {
    fn place(&mut self, bytes: u64, what: String) {
        self.total += 1;
        if self.first.is_none() {
            self.first = Some(what.clone());
        }
        if self.named < NAMED_TROUBLES {
            self.named += 1;
            self.waiting.push((bytes, what));
        } else {
            self.unnamed += 1;
            self.unnamed_bytes += bytes;
        }
    }

    /// Tells what waits, in the session of this scribe.
    fn tell(&mut self, scribe: &mut Scribe, at: Micros, sink: &mut dyn Sink) {
        for (bytes, why) in self.waiting.drain(..) {
            scribe.happening(at, None, Happening::Lost { from: None, events: 1, bytes, why }, sink);
        }
    }

    /// Tells what waits and the sum of what was not named.
    fn finish(&mut self, scribe: &mut Scribe, at: Micros, sink: &mut dyn Sink) {
        self.tell(scribe, at, sink);
        if self.unnamed > 0 {
            let why = format!("{} further places could not be read", self.unnamed);
            let lost = Happening::Lost { from: None, events: self.unnamed, bytes: self.unnamed_bytes, why };
            scribe.happening(at, None, lost, sink);
            (self.unnamed, self.unnamed_bytes) = (0, 0);
        }
    }
}

impl<'a> Reading<'a> {
    pub fn new(
        input: Input,
        importer: &'static dyn Importer,
        options: &'a Options,
        next_key: &'a mut SessionKey,
        sink: &'a mut dyn Sink,
    ) -> Reading<'a> {
        let first_key = *next_key;
        let (file, broken) = (input.name().to_string(), input.broken_later());
        let (input, troubles) = (Some(input), Troubles::default());
        Reading { options, sink, input, file, broken, importer, next_key, first_key, troubles }
    }

    /// The input, for the importer to read; there is one, and it is given once.
    pub fn input(&mut self) -> Input {
        self.input.take().expect("an importer takes its input once")
    }

    /// The first bytes of the input, before it is taken.
    pub fn head(&self) -> Vec<u8> {
        self.input.as_ref().map(|input| input.head().to_vec()).unwrap_or_default()
    }

    /// The key of the hash that stands for credentials and session ids in what is read; asked for before the input is
    /// taken.
    pub fn secret(&self) -> [u8; 32] {
        key_of(&self.head())
    }

    /// The input cut into lines.
    pub fn lines(&mut self) -> Lines<Input> {
        Lines::new(self.input())
    }

    /// The name of the file, for messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// A session's name where nothing better is known: the user's, or the file's without its folder and endings.
    pub fn session_name(&self) -> String {
        if let Some(name) = &self.options.name {
            return name.clone();
        }
        let file = self.file.rsplit(['/', '\\']).next().unwrap_or_default();
        let stem = file.trim_end_matches(".gz").trim_end_matches(".zst");
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        if stem.is_empty() { file.to_string() } else { stem.to_string() }
    }

    /// The key of one more session, for an importer that tells the sink of it itself.
    pub fn take_key(&mut self) -> SessionKey {
        let key = *self.next_key;
        *self.next_key += 1;
        key
    }

    /// All troubles, with the bytes they concern, for an importer that tells them itself.
    pub fn take_troubles(&mut self) -> Vec<(u64, String)> {
        let mut told = std::mem::take(&mut self.troubles.waiting);
        if self.troubles.unnamed > 0 {
            let why = format!("{} further places could not be read", self.troubles.unnamed);
            told.push((self.troubles.unnamed_bytes, why));
        }
        if let Some(why) = self.broken.get() {
            told.push((0, format!("the file breaks off: {why}")));
        }
        told
    }

    /// Opens a session and gives the scribe that writes it.
    pub fn session(&mut self, name: Option<&str>, knows: Knows, started_at: Micros) -> Scribe {
        let key = self.take_key();
        let name = match name {
            Some(part) if !part.is_empty() => format!("{} {part}", self.session_name()),
            _ => self.session_name(),
        };
        let session = Session {
            key,
            name,
            source: Source::Import(self.importer.name().to_string()),
            target: self.file.clone(),
            started_at,
            knows,
        };
        self.sink.session(&session);
        Scribe::new(key)
    }

    /// A line that could not be read: told in the session that is open next.
    pub fn unread_line(&mut self, number: u64, bytes: u64, why: &str) {
        self.troubles.place(bytes, format!("line {number}: {why}"));
    }

    /// Any other place that could not be read, named in `what`.
    pub fn unread(&mut self, bytes: u64, what: String) {
        self.troubles.place(bytes, what);
    }

    /// Whether troubles wait to be told.
    pub fn has_troubles(&self) -> bool {
        !self.troubles.waiting.is_empty()
    }

    /// Tells the waiting troubles in a session that goes on.
    pub fn tell_troubles(&mut self, scribe: &mut Scribe, at: Micros) {
        if !self.troubles.waiting.is_empty() {
            self.troubles.tell(scribe, at, self.sink);
        }
    }

    /// Ends a session as far as the log goes: what its streams still hold is told, then every trouble.
    pub fn finish(&mut self, scribe: &mut Scribe, at: Micros) {
        for side in [Side::Client, Side::Server] {
            scribe.flush(side, at, self.sink);
        }
        if let Some(why) = self.broken.get() {
            let why = format!("the file breaks off: {why}");
            scribe.happening(at, None, Happening::Lost { from: None, events: 0, bytes: 0, why }, self.sink);
        }
        self.troubles.finish(scribe, at, self.sink);
    }

    /// What a reader of the report should know of this log.
    pub fn note(&mut self, scribe: &mut Scribe, at: Micros, text: impl Into<String>) {
        scribe.happening(at, None, Happening::Note { text: text.into() }, self.sink);
    }

    pub(super) fn told_anything(&self) -> bool {
        *self.next_key > self.first_key
    }

    pub(super) fn why_nothing(&self) -> String {
        match (&self.troubles.first, self.broken.get()) {
            (Some(first), _) => format!("nothing could be read ({} places, first {first})", self.troubles.total),
            (None, Some(broken)) => format!("the file breaks off: {broken}"),
            (None, None) => "there is no traffic in it".to_string(),
        }
    }
}
