//! Takes secrets out of what is about to be kept: `--redact`, and fixtures made to be committed.
//!
//! Comes in: bodies, stderr lines, command lines, headers, URLs. Goes out: the same with placeholders where
//! secrets, home folders and user names stood. Equal values get equal placeholders, so that what echoes a value
//! still matches; JSON stays valid; methods, ids and tokens that pair messages are never touched.
//!
//! [`Redacting`] is the door before a store: a [`Sink`](super::Sink) around another one. Its placeholders are
//! exactly as long as what they replace, so that spans, Content-Length headers and byte counts stay true. What
//! must wait on disk before it can be redacted (a spool of raw bytes) goes through a [`Veil`].

pub mod keys;
pub mod shapes;
mod sink;
mod tokens;
mod veil;
mod walk;

pub use sink::Redacting;
pub use veil::{Veil, fresh_key, key_of};

use std::collections::HashMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use keys::Class;
use shapes::{Hit, Kind};
use walk::Walk;

/// How placeholders look.
enum Style {
    /// As long as the value, from a keyed hash: needs no memory of what was seen. The key is made anew for each
    /// run and kept nowhere, so that no value can be guessed and tried.
    SameLength { key: [u8; 32] },
    /// `redacted-1`, `redacted-2`, in order of appearance: the same input gives the same output.
    Numbered { seen: HashMap<(bool, Vec<u8>), usize>, secrets: usize, names: usize },
}

/// The rules, and what they must remember so that equal values stay equal.
pub struct Redactor {
    style: Style,
    names: Vec<Box<[u8]>>,
}

impl Redactor {
    /// For recording: placeholders keep the length. Knows the user's name from the environment.
    pub fn for_recording() -> Redactor {
        Redactor { style: Style::SameLength { key: veil::fresh_key() }, names: own_names() }
    }

    /// For fixtures: placeholders are numbered, and the same recording always gives the same text.
    pub fn for_fixtures() -> Redactor {
        let style = Style::Numbered { seen: HashMap::new(), secrets: 0, names: 0 };
        Redactor { style, names: own_names() }
    }

    /// Adds a name that must not appear, as a whole word.
    pub fn hide_name(&mut self, name: &str) {
        if !shapes::is_nobody(name.as_bytes()) && !self.names.iter().any(|known| **known == *name.as_bytes()) {
            self.names.push(name.as_bytes().into());
        }
    }

    /// Hides the names another one has met as well.
    pub fn know_names_of(&mut self, other: &Redactor) {
        for name in &other.names {
            if !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
    }

    /// A whole body: JSON where it is JSON, text where it is not.
    pub fn body(&mut self, raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(raw.len());
        Walk::default().run(self, raw, true, &mut out);
        out
    }

    /// A line of text, a command line, a URL.
    pub fn text(&mut self, text: &str) -> String {
        let mut out = Vec::with_capacity(text.len());
        self.plain(text.as_bytes(), true, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The value of an HTTP header.
    pub fn header(&mut self, name: &str, value: &str) -> String {
        if keys::class(name.as_bytes()).is_secret() && !keys::is_harmless_value(value.as_bytes()) {
            let scheme = shapes::after_scheme(value.as_bytes());
            let secret = value.as_bytes()[scheme..].to_vec();
            let hidden = self.placeholder(Kind::Secret, &secret, secret.len());
            return format!("{}{}", &value[..scheme], String::from_utf8_lossy(&hidden));
        }
        self.text(value)
    }

    /// Text without escapes.
    fn plain(&mut self, text: &[u8], with_keys: bool, out: &mut Vec<u8>) {
        let mut hits = Vec::new();
        shapes::find(text, &mut self.names, with_keys, &mut hits);
        let mut done = 0;
        for Hit { range, kind } in hits {
            out.extend_from_slice(&text[done..range.start]);
            let placeholder = self.placeholder(kind, &text[range.clone()], range.len());
            out.extend_from_slice(&placeholder);
            done = range.end;
        }
        out.extend_from_slice(&text[done..]);
    }

    /// The inside of a JSON string, as written.
    fn string(&mut self, raw: &[u8], class: Class, out: &mut Vec<u8>) {
        let (decoded, places) = decode(raw);
        let raw_of = |at: usize| places.as_ref().map_or(at, |places| places[at] as usize);
        let mut hits = Vec::new();
        if class.is_secret() {
            if keys::is_harmless_value(&decoded) {
                return out.extend_from_slice(raw);
            }
            hits.push(Hit { range: shapes::after_scheme(&decoded)..decoded.len(), kind: Kind::Secret });
        } else {
            shapes::find(&decoded, &mut self.names, true, &mut hits);
        }
        let mut done = 0;
        for Hit { range, kind } in hits {
            let (from, to) = (raw_of(range.start), raw_of(range.end));
            out.extend_from_slice(&raw[done..from]);
            let placeholder = self.placeholder(kind, &decoded[range], to - from);
            out.extend_from_slice(&placeholder);
            done = to;
        }
        out.extend_from_slice(&raw[done..]);
    }

    /// The digits of a number, as many of them as there were.
    fn number(&mut self, raw: &[u8]) -> Vec<u8> {
        match &self.style {
            Style::Numbered { .. } => b"0".to_vec(),
            Style::SameLength { key } => {
                let letters = letters(key, b'n', raw);
                (0..raw.len()).map(|at| b'1' + letters[at % letters.len()] % 9).collect()
            }
        }
    }

    /// What stands for `value`; `raw_len` is how many bytes it took as written, escapes and all.
    fn placeholder(&mut self, kind: Kind, value: &[u8], raw_len: usize) -> Vec<u8> {
        match &mut self.style {
            Style::Numbered { seen, secrets, names } => {
                let is_name = kind == Kind::UserName;
                let counter = if is_name { names } else { secrets };
                let number = *seen.entry((is_name, value.to_vec())).or_insert_with(|| {
                    *counter += 1;
                    *counter
                });
                format!("{}-{number}", if is_name { "user" } else { "redacted" }).into_bytes()
            }
            Style::SameLength { key } => {
                let letters = letters(key, kind as u8, value);
                let mut text: Vec<u8> = Vec::with_capacity(value.len());
                if kind == Kind::Secret && value.len() >= 20 {
                    text.extend_from_slice(b"redacted/");
                }
                for (at, letter) in letters.iter().enumerate() {
                    text.push(*letter);
                    if kind == Kind::Secret && at % 2 == 1 && at < 6 {
                        text.push(b'/');
                    }
                }
                text.resize(value.len().max(text.len()), b'.');
                text.truncate(value.len());
                stretched(&text, raw_len)
            }
        }
    }
}

/// Writes `text` with escapes so that it takes `raw_len` bytes: a value that was written with escapes in one
/// place and without in another stays equal to itself.
fn stretched(text: &[u8], raw_len: usize) -> Vec<u8> {
    let surplus = raw_len.saturating_sub(text.len());
    let (mut long, mut short) = (surplus / 5, surplus % 5);
    let slashes = text.iter().filter(|byte| **byte == b'/').count();
    while short > slashes && long > 0 {
        long -= 1;
        short += 5;
    }
    let mut out = Vec::with_capacity(raw_len);
    for byte in text {
        if *byte == b'/' && short > 0 {
            short -= 1;
            out.extend_from_slice(b"\\/");
        } else if *byte != b'/' && long > 0 {
            long -= 1;
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out.resize(raw_len, b'.');
    out
}

/// Lower-case letters and digits that only this value gives under this key.
fn letters(key: &[u8; 32], kind: u8, value: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(&[kind]);
    mac.update(value);
    let digest = mac.finalize().into_bytes();
    digest.iter().map(|byte| b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(byte & 31)]).collect()
}

/// The user's own name, where it names somebody.
fn own_names() -> Vec<Box<[u8]>> {
    let mut names: Vec<Box<[u8]>> = Vec::new();
    let home = std::env::var("HOME").ok().and_then(|home| home.rsplit('/').next().map(str::to_string));
    let vars = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    for name in vars.chain(home) {
        if !shapes::is_nobody(name.as_bytes()) && !names.iter().any(|known| **known == *name.as_bytes()) {
            names.push(name.as_bytes().into());
        }
    }
    names
}

/// The text of a JSON string and, where escapes make them differ, the raw place of each decoded byte (and of the
/// end). Broken escapes stand for themselves.
fn decode(raw: &[u8]) -> (std::borrow::Cow<'_, [u8]>, Option<Vec<u32>>) {
    if memchr::memchr(b'\\', raw).is_none() {
        return (raw.into(), None);
    }
    let mut text = Vec::with_capacity(raw.len());
    let mut places = Vec::with_capacity(raw.len() + 1);
    let unit = |at: usize| {
        let digits = raw.get(at + 2..at + 6).filter(|_| raw[at] == b'\\' && raw.get(at + 1) == Some(&b'u'))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while at < raw.len() {
        let mut buffer = [0u8; 4];
        let (bytes, len): (&[u8], usize) = match (raw[at], raw.get(at + 1)) {
            (b'\\', Some(b'u')) => match unit(at) {
                Some(high @ 0xd800..0xdc00) => {
                    match raw.get(at + 6).and_then(|_| unit(at + 6)).filter(|low| (0xdc00..0xe000).contains(low)) {
                        Some(low) => {
                            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                            let c = char::from_u32(code).unwrap_or('\u{fffd}');
                            (c.encode_utf8(&mut buffer).as_bytes(), 12)
                        }
                        None => (b"?", 6),
                    }
                }
                Some(code) => (char::from_u32(code).unwrap_or('?').encode_utf8(&mut buffer).as_bytes(), 6),
                None => (b"u", 2),
            },
            (b'\\', Some(escaped)) => {
                buffer[0] = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    other => *other,
                };
                (&buffer[..1], 2)
            }
            _ => {
                buffer[0] = raw[at];
                (&buffer[..1], 1)
            }
        };
        text.extend_from_slice(bytes);
        places.resize(text.len(), at as u32);
        at += len;
    }
    places.push(raw.len() as u32);
    (text.into(), Some(places))
}

#[cfg(test)]
mod tests;
