//! Walks through a body and hands each piece to the rule that fits it.
//!
//! Comes in: a body, whole or in windows. Goes out: the body with secrets replaced. No tree is built; what is
//! not JSON is taken as text, and JSON that breaks is taken on as far as its quotes go, with the rest as text.

use super::Redactor;
use super::keys::{self, Class};

/// Below this many levels only the key just passed is known; shapes and pairs in text are still found there.
const DEEPEST_LEVEL: usize = 256;

/// At the end of a window this much is kept back, so that a secret that lies across two windows is seen whole.
const OVERLAP_BYTES: usize = 16 * 1024;

/// How far ahead a message is searched for the name of a progress notification, whose `token` is no secret.
const METHOD_WITHIN_BYTES: usize = 4096;

#[derive(Default)]
pub struct Walk {
    is_text: Option<bool>,
    levels: Vec<Level>,
    deeper: usize,
    /// Below the deepest level: what the key just passed says.
    deep_class: Option<Class>,
    /// Inside a string too long for a window: what its key said.
    inside: Option<Class>,
    is_progress: bool,
}

struct Level {
    is_object: bool,
    wants_key: bool,
    class: Class,
    key: Key,
    /// The pair this level holds (`{"name":"Cookie","value":…}`, `["Cookie", …]`) is of a secret.
    names_secret: bool,
    strings: usize,
    in_tree: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Key {
    Params,
    Token,
    Name,
    Value,
    Other,
}

impl Walk {
    /// A walk through the marks of a message: as through the message, with its method already known.
    pub fn of_marks(is_progress: bool) -> Walk {
        Walk { is_text: Some(false), is_progress, ..Walk::default() }
    }

    /// Walks through `raw` and gives how much of it is done; all of it when it is the `last` window.
    pub fn run(&mut self, redactor: &mut Redactor, raw: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let is_text = match self.is_text {
            Some(is_text) => is_text,
            None => match raw.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(first) => !matches!(first, b'{' | b'['),
                None => {
                    out.extend_from_slice(raw);
                    return raw.len();
                }
            },
        };
        self.is_text = Some(is_text);
        if is_text { text_window(redactor, raw, last, out) } else { self.json(redactor, raw, last, out) }
    }

    fn json(&mut self, redactor: &mut Redactor, raw: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        if let Some(class) = self.inside {
            match string_end(raw, 0) {
                Some(end) => {
                    redactor.string(&raw[..end], class, out);
                    self.inside = None;
                    self.after_string();
                    out.push(b'"');
                    at = end + 1;
                }
                None => return self.part_of_string(redactor, raw, 0, class, last, out),
            }
        }
        let mut gap = at;
        let mut junk = false;
        let mut last_string = 0..0;
        while at < raw.len() {
            match raw[at] {
                b'"' => {
                    self.gap(redactor, &raw[gap..at], junk, out);
                    junk = false;
                    let inside = at + 1;
                    let Some(end) = string_end(raw, inside) else {
                        if !last && raw.len() - inside < OVERLAP_BYTES {
                            return at;
                        }
                        out.push(b'"');
                        let class = self.class_of_string();
                        self.inside = Some(class);
                        return self.part_of_string(redactor, raw, inside, class, last, out);
                    };
                    out.push(b'"');
                    self.string(redactor, &raw[inside..end], out);
                    out.push(b'"');
                    last_string = inside..end;
                    at = end + 1;
                    gap = at;
                    continue;
                }
                b',' | b':' if self.deeper > 0 => {
                    self.deep_class = (raw[at] == b':').then(|| keys::class(&raw[last_string.clone()]));
                }
                b'{' | b'[' => self.enter(raw, at),
                b'}' | b']' => self.leave(),
                b',' => {
                    if let Some(level) = self.levels.last_mut() {
                        level.wants_key = level.is_object;
                    }
                }
                b':' => {
                    if let Some(level) = self.levels.last_mut() {
                        level.wants_key = false;
                    }
                }
                b'-' | b'0'..=b'9' => {
                    let len = raw[at..]
                        .iter()
                        .position(|b| !b.is_ascii_digit() && !b"+-.eE".contains(b))
                        .unwrap_or(raw.len() - at);
                    if at + len == raw.len() && !last {
                        self.gap(redactor, &raw[gap..at], junk, out);
                        return at;
                    }
                    // Short numbers are counts and switches; a number that is a secret is longer.
                    if len >= 4 && self.class_of_string() == Class::Secret && !self.is_token() {
                        self.gap(redactor, &raw[gap..at], junk, out);
                        let number = redactor.number(&raw[at..at + len]);
                        out.extend_from_slice(&number);
                        gap = at + len;
                        junk = false;
                    }
                    at += len;
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => {
                    let len = raw[at..].iter().position(|b| !b.is_ascii_alphabetic()).unwrap_or(raw.len() - at);
                    junk |= !matches!(&raw[at..at + len], b"true" | b"false" | b"null");
                    at += len.max(1);
                    continue;
                }
            }
            at += 1;
        }
        self.gap(redactor, &raw[gap..], junk, out);
        raw.len()
    }

    /// What stands between strings: punctuation, or text that should not be there.
    fn gap(&mut self, redactor: &mut Redactor, gap: &[u8], junk: bool, out: &mut Vec<u8>) {
        if junk {
            redactor.plain(gap, true, out);
        } else {
            out.extend_from_slice(gap);
        }
    }

    fn enter(&mut self, raw: &[u8], at: usize) {
        if self.levels.len() >= DEEPEST_LEVEL {
            self.deeper += 1;
            self.deep_class = None;
            return;
        }
        if self.levels.is_empty() {
            let ahead = &raw[at..raw.len().min(at + METHOD_WITHIN_BYTES)];
            self.is_progress = [&b"$/progress"[..], b"$\\/progress", b"workDoneProgress"]
                .iter()
                .any(|name| memchr::memmem::find(ahead, name).is_some());
        }
        let is_object = raw[at] == b'{';
        let (class, in_tree) = match self.levels.last() {
            Some(level) => (level.class, level.in_tree || level.class == Class::SecretTree),
            None => (Class::Plain, false),
        };
        self.levels.push(Level {
            is_object,
            wants_key: is_object,
            // A list below a secret key holds secrets; an object has keys of its own to go by.
            class: if is_object { Class::Plain } else { class },
            key: Key::Other,
            names_secret: false,
            strings: 0,
            in_tree,
        });
    }

    fn leave(&mut self) {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else {
            self.levels.pop();
        }
    }

    fn is_token(&self) -> bool {
        self.levels.last().is_some_and(|level| level.key == Key::Token)
    }

    /// What is known of a value that stands here.
    fn class_of_string(&self) -> Class {
        let Some(level) = self.levels.last().filter(|_| self.deeper == 0) else {
            return self.deep_class.unwrap_or(Class::Plain);
        };
        if level.is_object && level.wants_key {
            return Class::Plain;
        }
        let depth = self.levels.len();
        let below_params = depth == 2 && self.levels[0].key == Key::Params;
        if level.is_object && level.key == Key::Token && (below_params || depth == 1) && self.is_progress {
            return Class::Kept;
        }
        if level.class == Class::Kept {
            return Class::Kept;
        }
        let paired = level.names_secret && (level.key == Key::Value || (!level.is_object && level.strings == 1));
        if level.in_tree || paired { Class::Secret } else { level.class }
    }

    fn string(&mut self, redactor: &mut Redactor, raw: &[u8], out: &mut Vec<u8>) {
        let class = self.class_of_string();
        let depth = self.levels.len();
        let Some(level) = self.levels.last_mut().filter(|_| self.deeper == 0) else {
            return redactor.string(raw, class, out);
        };
        if level.is_object && level.wants_key {
            let (key, _) = super::decode(raw);
            level.wants_key = false;
            level.class = keys::class(&key);
            // Plain ids deep inside a payload are data; near the envelope they pair messages.
            if level.class == Class::Kept && depth > 3 && matches!(&*key, b"id" | b"method" | b"jsonrpc") {
                level.class = Class::Plain;
            }
            level.key = match &*key {
                b"params" if depth == 1 => Key::Params,
                b"token" => Key::Token,
                b"name" | b"key" | b"header" => Key::Name,
                b"value" => Key::Value,
                _ => Key::Other,
            };
            return if level.class == Class::Plain {
                redactor.string(raw, Class::Plain, out)
            } else {
                out.extend_from_slice(raw)
            };
        }
        if (level.is_object && level.key == Key::Name) || (!level.is_object && level.strings == 0) {
            level.names_secret = keys::class(raw).is_secret();
        }
        level.strings += 1;
        match class {
            Class::Kept => out.extend_from_slice(raw),
            class => redactor.string(raw, class, out),
        }
    }

    fn after_string(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.strings += 1;
            level.wants_key = false;
        }
    }

    /// A window of a string whose end has not come.
    fn part_of_string(
        &mut self,
        redactor: &mut Redactor,
        raw: &[u8],
        from: usize,
        class: Class,
        last: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut cut = raw.len();
        if !last {
            cut = from.max(raw.len().saturating_sub(OVERLAP_BYTES));
            // Not between the parts of an escape, and better between two words.
            let near = cut.saturating_sub(256).max(from);
            if let Some(space) = memchr::memrchr(b' ', &raw[near..cut]) {
                cut = near + space;
            }
            let slashes = raw[from..cut].iter().rev().take_while(|byte| **byte == b'\\').count();
            cut -= slashes;
            if let Some(escape) = memchr::memrchr(b'\\', &raw[cut.saturating_sub(11).max(from)..cut]) {
                cut = cut.saturating_sub(11).max(from) + escape;
            }
        }
        redactor.string(&raw[from..cut], class, out);
        cut
    }
}

fn string_end(raw: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr2(b'"', b'\\', raw.get(at..)?)?;
        if raw[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn text_window(redactor: &mut Redactor, raw: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
    let mut cut = raw.len();
    if !last {
        cut = raw.len().saturating_sub(OVERLAP_BYTES);
        cut = memchr::memrchr3(b' ', b'\n', b',', &raw[..cut]).unwrap_or(cut);
    }
    redactor.plain(&raw[..cut], true, out);
    cut
}
