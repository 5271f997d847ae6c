//! What has been read of one message's envelope, while the scanner passes through it.
//!
//! Comes in: the values at the places of interest, in the order of the text. Goes out: the [`Message`]. Which
//! kind it is goes by which keys are there; of a key that stands twice the last value counts.

use super::marks::{LONGEST_MARK_BYTES, MARKS, pairs};
use super::print::Print;
use super::text::{Names, unescape};
use super::trie::{ERROR, ID, JSONRPC, METHOD, NodeId, PARAMS, RESULT, Trie};
use super::{Id, Kind, Mark, Marks, Message, Name, Oddities, Oddity, Unreadable};

/// Longer ids and method names are cut here, with a print of the whole: both are kept in memory for long.
pub const LONGEST_NAME_BYTES: usize = 4096;
/// Of something that is no id at all, this much is kept.
const LONGEST_INVALID_ID_BYTES: usize = 64;

/// A scalar's raw text, as far as it was kept.
pub(super) struct Literal<'a> {
    pub raw: &'a [u8],
    /// The print of the whole, where `raw` is only its beginning.
    pub print: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Envelope {
    seen: u16,
    oddities: Oddities,
    id: Option<Id>,
    method: Option<Name>,
    is_version_2: bool,
    error_is_null: bool,
    error_is_object: bool,
    code_is_number: bool,
    present: u128,
    /// The compact marks without their closing brace.
    marks: Vec<u8>,
    pub print: Print,
}

impl Envelope {
    pub fn clear(&mut self) {
        self.seen = 0;
        self.oddities = Oddities::default();
        self.id = None;
        self.method = None;
        self.is_version_2 = false;
        self.error_is_null = false;
        self.error_is_object = false;
        self.code_is_number = false;
        self.present = 0;
        self.marks.clear();
        self.print = Print::default();
    }

    pub fn has(&self, key: NodeId) -> bool {
        self.seen & (1 << key) != 0
    }

    pub fn add(&mut self, oddity: Oddity) {
        self.oddities.add(oddity);
    }

    fn remove(&mut self, oddity: Oddity) {
        self.oddities.0 &= !(oddity as u16);
    }

    /// Whether enough was read to tell what kind of message this is, were it cut off here. A method alone does not: an id
    /// may follow its params.
    pub fn tells_its_kind(&self) -> bool {
        self.id.is_some() && (self.method.is_some() || self.has(RESULT) || self.has(ERROR))
    }

    /// A key of the envelope was read; its value follows.
    pub fn meet(&mut self, key: NodeId) {
        if self.has(key) {
            self.forget(key);
        }
        self.seen |= 1 << key;
    }

    #[cold]
    fn forget(&mut self, key: NodeId) {
        self.add(Oddity::DuplicateKey);
        match key {
            ID => self.id = None,
            METHOD => {
                self.method = None;
                self.remove(Oddity::MethodNotText);
            }
            PARAMS => {
                self.print = Print::default();
                self.remove(Oddity::ScalarParams);
                self.drop_marks("params");
            }
            RESULT => self.drop_marks("result"),
            ERROR => {
                self.error_is_object = false;
                self.error_is_null = false;
                self.code_is_number = false;
                self.drop_marks("error");
            }
            _ => {}
        }
    }

    /// Whether the raw text of a scalar at this place is wanted.
    pub fn wants(trie: &Trie, place: NodeId) -> bool {
        matches!(place, JSONRPC | ID | METHOD) || trie.node(place).mark.is_some()
    }

    /// A value begins at `place`; `first` is its first byte.
    pub fn begin(&mut self, trie: &Trie, place: NodeId, first: u8) {
        match place {
            JSONRPC => self.is_version_2 = false,
            METHOD if first != b'"' => self.add(Oddity::MethodNotText),
            PARAMS if first != b'{' && first != b'[' => self.add(Oddity::ScalarParams),
            ERROR => {
                self.error_is_object = first == b'{';
                self.error_is_null = first == b'n';
            }
            _ => {}
        }
        match (first, trie.node(place).mark) {
            (b'{', Some(mark)) => self.mark(mark, b"{}"),
            (b'[', Some(mark)) => self.mark(mark, b"[]"),
            _ => {}
        }
    }

    /// The scalar at `place` (or the object or array that stands for an id) is whole.
    pub fn take(&mut self, trie: &Trie, place: NodeId, literal: Literal<'_>, escaped: bool, names: &mut Names) {
        match place {
            JSONRPC => self.is_version_2 = literal.raw == b"\"2.0\"",
            ID => self.id = Some(read_id(literal)),
            METHOD if literal.raw.first() == Some(&b'"') => {
                self.method = Some(match literal {
                    Literal { raw, print: None } if escaped => names.share(unescape(&raw[1..raw.len() - 1]).as_bytes()),
                    Literal { raw, print: None } => names.share(&raw[1..raw.len() - 1]),
                    Literal { raw, print: Some(print) } => {
                        let begin = &raw[1..LONGEST_MARK_BYTES];
                        format!("{}…hash:{print:016x}", unescape(begin)).into()
                    }
                });
            }
            METHOD => {}
            _ => {
                let Some(mark) = trie.node(place).mark else { return };
                // What nearly every result says, and nobody asks for, is not worth its room.
                if mark == Mark::IsError && literal.raw == b"false" {
                    return;
                }
                if mark == Mark::ErrorCode {
                    self.code_is_number = matches!(literal.raw.first(), Some(b'-' | b'0'..=b'9'));
                }
                if literal.raw.len() > LONGEST_MARK_BYTES {
                    let print = literal.print.unwrap_or_else(|| Print::of(literal.raw));
                    self.mark(mark, format!("\"hash:{print:016x}\"").as_bytes());
                } else {
                    self.mark(mark, literal.raw);
                }
            }
        }
    }

    fn mark(&mut self, mark: Mark, raw: &[u8]) {
        let bit = 1u128 << mark as u8;
        if self.present & bit != 0 {
            let key = MARKS[mark as usize].key;
            let raw = String::from_utf8_lossy(raw);
            self.rewrite_marks(|known, old| Some(if known == key { raw.to_string() } else { old.to_string() }));
            return;
        }
        self.present |= bit;
        self.marks.extend_from_slice(if self.marks.is_empty() { b"{\"" } else { b",\"" });
        self.marks.extend_from_slice(MARKS[mark as usize].key.as_bytes());
        self.marks.extend_from_slice(b"\":");
        self.marks.extend_from_slice(raw);
    }

    #[cold]
    fn drop_marks(&mut self, root: &str) {
        let place = |key: &str| MARKS.iter().find(|place| place.key == key);
        self.rewrite_marks(|key, old| place(key).filter(|place| place.path[0] != root).map(|_| old.to_string()));
        let dropped = MARKS.iter().filter(|place| place.path[0] == root);
        self.present &= !dropped.fold(0u128, |mask, place| mask | 1 << place.mark as u8);
    }

    #[cold]
    fn rewrite_marks(&mut self, keep: impl Fn(&str, &str) -> Option<String>) {
        let mut text = String::new();
        for (key, old) in pairs(&String::from_utf8_lossy(&self.marks)) {
            if let Some(raw) = keep(key, old) {
                text.push(if text.is_empty() { '{' } else { ',' });
                text.push_str(&format!("\"{key}\":{raw}"));
            }
        }
        self.marks = text.into_bytes();
    }

    /// The message, as far as it was read.
    pub fn give(&mut self) -> Message {
        let (id, method) = (self.has(ID), self.has(METHOD));
        let (result, error) = (self.has(RESULT), self.has(ERROR));
        if !(id || method || result || error) {
            let mut message = Message::unreadable(Unreadable::NotJsonRpc);
            message.oddities.0 = self.oddities.0 & Oddity::InvalidUtf8 as u16;
            return message;
        }
        if !self.has(JSONRPC) {
            self.add(Oddity::NoVersion);
        } else if !self.is_version_2 {
            self.add(Oddity::OtherVersion);
        }
        if result && error {
            self.add(Oddity::BothResultAndError);
        }
        if method && (result || error) {
            self.add(Oddity::MethodInResponse);
        }
        let kind = match (error, result, method) {
            // Old servers write `"error":null` beside each result; nobody takes that for an error.
            (true, true, _) if self.error_is_null => Kind::Result,
            (true, _, _) => Kind::Error,
            (_, true, _) => Kind::Result,
            (_, _, true) if id => Kind::Request,
            (_, _, true) => Kind::Notification,
            _ => {
                self.add(Oddity::NeitherResultNorError);
                Kind::Result
            }
        };
        if kind == Kind::Error && !(self.error_is_object && self.code_is_number) {
            self.add(Oddity::MalformedError);
        }
        let marks = if self.present == 0 {
            Marks::default()
        } else {
            self.marks.push(b'}');
            let text = match std::str::from_utf8(&self.marks) {
                Ok(text) => text.into(),
                Err(_) => String::from_utf8_lossy(&self.marks).into(),
            };
            Marks::from_parts(self.present, text)
        };
        Message {
            kind,
            id: self.id.take(),
            method: self.method.take(),
            marks,
            oddities: self.oddities,
            params_print: if self.has(PARAMS) { self.print.value() } else { 0 },
            batch_index: None,
        }
    }
}

fn read_id(literal: Literal<'_>) -> Id {
    let raw = literal.raw;
    if matches!(raw.first(), Some(b'{' | b'[' | b't' | b'f')) {
        let begin = &raw[..raw.len().min(LONGEST_INVALID_ID_BYTES)];
        return Id::Invalid(String::from_utf8_lossy(begin).into());
    }
    if let Some(print) = literal.print {
        let begin = String::from_utf8_lossy(&raw[..LONGEST_MARK_BYTES]);
        let cut = format!("{}…hash:{print:016x}", begin.trim_start_matches('"'));
        return if raw[0] == b'"' { Id::Text(cut.into()) } else { Id::Number(cut.into()) };
    }
    // Most ids are small numbers.
    if raw.len() < 18 && matches!(raw[0], b'1'..=b'9') && raw.iter().all(u8::is_ascii_digit) {
        return Id::Int(raw.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')));
    }
    match std::str::from_utf8(raw) {
        Ok(raw) => Id::from_raw(raw),
        Err(_) => Id::from_raw(&String::from_utf8_lossy(raw)),
    }
}
