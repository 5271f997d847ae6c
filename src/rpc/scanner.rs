//! Reads the envelope of a message from a body that comes in pieces.
//!
//! Comes in: the bytes of one body, cut anywhere. Goes out: its [`Message`]s: one, or those of a batch. The whole
//! text is checked against RFC 8259, in one pass and without a tree: what is kept is one bit per open bracket, the
//! key being read while keys matter, and the values at the places of `trie`. Nothing else of a body is looked at,
//! and nothing here grows with its length.

use super::envelope::{Envelope, LONGEST_NAME_BYTES, Literal};
use super::print::Print;
use super::skip;
use super::string::{self, Tail};
use super::text::{Names, unescape};
use super::trie::{BATCH, ID, LEVELS, META, METHOD, NONE, NodeId, PARAMS, ROOT, Trie};
use super::{Message, Oddity, Unreadable};

/// Brackets are told apart down to this depth (128 KiB of bits); deeper ones are only counted.
pub const DEEPEST_KEPT_LEVEL: usize = 1 << 20;
/// A batch is answered as a whole, so its messages are held until it ends.
pub const MOST_BATCH_ITEMS: usize = 4096;
/// The longest key on the way to a mark has 42 bytes, six times that when each is written as an escape.
const LONGEST_KEY_BYTES: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// A value must come.
    Value,
    /// A value, or the end of the array.
    FirstItem,
    /// A key, or the end of the object.
    FirstKey,
    NextKey,
    Colon,
    /// A comma, or the end of the object or array.
    After,
    Text,
    Escape,
    /// Within the hexadecimal digits of an escape.
    Hex,
    /// Within a character of several bytes.
    Wide,
    Number,
    /// Within `true`, `false` or `null`.
    Word,
    /// Below the kept levels.
    Deep,
    /// The value is whole; only white space may follow.
    Done,
    Broken,
}

/// How far a character, an escape, a number or a word has come, where a piece ended within it.
#[derive(Debug, Clone, Copy)]
struct Within {
    wide: Option<Tail>,
    /// Digits of an escape still to come.
    hex: u8,
    number: Number,
    /// What of the word is still to come.
    word: &'static [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Number {
    fn may_end(self) -> bool {
        matches!(self, Number::Zero | Number::Whole | Number::Fraction | Number::ExponentDigits)
    }

    fn next(self, byte: u8) -> Option<Number> {
        use Number::*;
        match (self, byte) {
            (Minus, b'0') => Some(Zero),
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Some(Whole),
            (Zero | Whole, b'.') => Some(Point),
            (Point | Fraction, b'0'..=b'9') => Some(Fraction),
            (Zero | Whole | Fraction, b'e' | b'E') => Some(Exponent),
            (Exponent, b'+' | b'-') => Some(ExponentSign),
            (Exponent | ExponentSign | ExponentDigits, b'0'..=b'9') => Some(ExponentDigits),
            _ => None,
        }
    }
}

/// What the body is at its top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    Nothing,
    Object,
    Array,
    Scalar,
}

pub struct Scanner {
    trie: &'static Trie,
    state: State,
    within: Within,
    top: Top,
    /// One bit per open bracket: 1 is an object.
    brackets: Vec<u64>,
    depth: usize,
    /// Where in the tree of keys the innermost open object stands, and those around it.
    node: NodeId,
    around: [NodeId; LEVELS],
    /// Where the value to come (or coming) stands.
    place: NodeId,
    /// The text being read is a key.
    is_key: bool,
    /// An escape stood in the text being read.
    escaped: bool,
    /// What came of a key in earlier pieces.
    key: Vec<u8>,
    /// The value at `place` is being kept; what came of it in earlier pieces.
    keeping: bool,
    kept: Vec<u8>,
    kept_print: Option<Print>,
    /// Params are being printed; the print before the current member, should that turn out to be `_meta`.
    printing: bool,
    print_before: Print,
    envelope: Envelope,
    names: Names,
    single: Option<Message>,
    batch: Vec<Message>,
    objects_in_batch: bool,
    batch_too_long: bool,
    bad_utf8: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner::new()
    }
}

/// Where, in the piece at hand, the things being read began.
struct Marked {
    key: usize,
    keep: usize,
    print: usize,
}

impl Scanner {
    pub fn new() -> Scanner {
        Scanner {
            trie: Trie::of_marks(),
            state: State::Start,
            within: Within { wide: None, hex: 0, number: Number::Minus, word: b"" },
            top: Top::Nothing,
            brackets: Vec::new(),
            depth: 0,
            node: NONE,
            around: [NONE; LEVELS],
            place: NONE,
            is_key: false,
            escaped: false,
            key: Vec::new(),
            keeping: false,
            kept: Vec::new(),
            kept_print: None,
            printing: false,
            print_before: Print::default(),
            envelope: Envelope::default(),
            names: Names::default(),
            single: None,
            batch: Vec::new(),
            objects_in_batch: false,
            batch_too_long: false,
            bad_utf8: false,
        }
    }

    /// Takes a further part of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut from = Marked { key: 0, keep: 0, print: 0 };
        let mut state = self.state;
        let mut at = 0;
        let mut may_skip = true;
        while at < bytes.len() {
            let byte = bytes[at];
            match state {
                State::Value | State::FirstItem | State::Start => match byte {
                    b'"' => {
                        self.begin_scalar(byte, at, state, &mut from);
                        if let Some(end) = skip::string(bytes, at + 1) {
                            self.escaped = self.place == METHOD && bytes[at..end].contains(&b'\\');
                            at = end;
                            state = self.end_scalar(bytes, at, &from);
                        } else {
                            self.is_key = false;
                            self.escaped = false;
                            state = State::Text;
                            at += 1;
                        }
                    }
                    b'{' | b'[' => {
                        if may_skip && self.is_unwanted(byte, state) {
                            if self.place != NONE {
                                self.begin_at_place(byte, at, &mut from);
                            }
                            if let Some(end) = skip::container(bytes, at) {
                                at = end;
                                state = self.end_scalar(bytes, at, &from);
                                continue;
                            }
                            // What lies around the end of the piece is read twice, but not once per level.
                            may_skip = false;
                        }
                        state = self.open(byte == b'{', at, state, &mut from);
                        at += 1;
                    }
                    b'-' | b'0'..=b'9' => {
                        self.begin_scalar(byte, at, state, &mut from);
                        if let Some(end) = skip::number(bytes, at) {
                            at = end;
                            state = self.end_scalar(bytes, at, &from);
                        } else {
                            state = State::Number;
                            self.within.number = match byte {
                                b'-' => Number::Minus,
                                b'0' => Number::Zero,
                                _ => Number::Whole,
                            };
                            at += 1;
                        }
                    }
                    b't' | b'f' | b'n' => {
                        self.begin_scalar(byte, at, state, &mut from);
                        if let Some(end) = skip::word(bytes, at) {
                            at = end;
                            state = self.end_scalar(bytes, at, &from);
                        } else {
                            state = State::Word;
                            self.within.word = match byte {
                                b't' => b"rue",
                                b'f' => b"alse",
                                _ => b"ull",
                            };
                            at += 1;
                        }
                    }
                    b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                    b']' if matches!(state, State::FirstItem) => {
                        state = self.close(bytes, at, &from);
                        at += 1;
                    }
                    _ => state = State::Broken,
                },
                State::FirstKey | State::NextKey => match byte {
                    b'"' => {
                        self.is_key = true;
                        self.escaped = false;
                        from.key = at + 1;
                        if self.node == PARAMS {
                            self.printing = true;
                            self.print_before = self.envelope.print;
                            from.print = at;
                        }
                        state = State::Text;
                        at = string::skip_plain(bytes, at + 1);
                        if bytes.get(at) == Some(&b'"') {
                            if self.node != NONE {
                                self.end_key(bytes, from.key, at);
                            }
                            at += 1;
                            // Almost always the colon follows at once.
                            state = State::Colon;
                            if bytes.get(at) == Some(&b':') {
                                state = State::Value;
                                at += 1;
                            }
                        }
                    }
                    b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                    b'}' if matches!(state, State::FirstKey) => {
                        state = self.close(bytes, at, &from);
                        at += 1;
                    }
                    _ => state = State::Broken,
                },
                State::Text => {
                    at = string::skip_plain(bytes, at);
                    match bytes.get(at) {
                        None => {}
                        Some(b'"') if self.is_key => {
                            if self.node != NONE {
                                self.end_key(bytes, from.key, at);
                            }
                            at += 1;
                            state = State::Colon;
                        }
                        Some(b'"') => {
                            at += 1;
                            state = self.end_scalar(bytes, at, &from);
                        }
                        Some(b'\\') => {
                            self.escaped = true;
                            state = State::Escape;
                            at += 1;
                        }
                        Some(wide @ 0x80..) => {
                            at += 1;
                            self.within.wide = Tail::after(*wide);
                            match self.within.wide {
                                Some(_) => state = State::Wide,
                                None => self.bad_utf8 = true,
                            }
                        }
                        Some(_) => state = State::Broken,
                    }
                }
                State::Wide => match self.within.wide.and_then(|tail| tail.take(byte)) {
                    Some(more) => {
                        self.within.wide = more;
                        if more.is_none() {
                            state = State::Text;
                        }
                        at += 1;
                    }
                    None => {
                        self.bad_utf8 = true;
                        state = State::Text;
                    }
                },
                State::Escape => {
                    state = match byte {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text,
                        b'u' => State::Hex,
                        _ => State::Broken,
                    };
                    self.within.hex = 4;
                    at += 1;
                }
                State::Hex => {
                    self.within.hex -= 1;
                    if !byte.is_ascii_hexdigit() {
                        state = State::Broken;
                    } else if self.within.hex == 0 {
                        state = State::Text;
                    }
                    at += 1;
                }
                State::Number => match self.within.number.next(byte) {
                    Some(next) => {
                        self.within.number = next;
                        at += 1;
                    }
                    None if self.within.number.may_end() => state = self.end_scalar(bytes, at, &from),
                    None => state = State::Broken,
                },
                State::Word => {
                    let rest = self.within.word;
                    let came = &bytes[at..bytes.len().min(at + rest.len())];
                    if !rest.starts_with(came) {
                        state = State::Broken;
                    } else {
                        at += came.len();
                        self.within.word = &rest[came.len()..];
                        if came.len() == rest.len() {
                            state = self.end_scalar(bytes, at, &from);
                        }
                    }
                }
                State::Colon => match byte {
                    b':' => {
                        state = State::Value;
                        at += 1;
                    }
                    b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                    _ => state = State::Broken,
                },
                State::After => match byte {
                    b',' => {
                        if self.node == PARAMS {
                            self.end_print(&bytes[from.print..at]);
                        }
                        state = if self.in_object() { State::NextKey } else { State::Value };
                        at += 1;
                    }
                    b'}' | b']' if self.in_object() == (byte == b'}') => {
                        state = self.close(bytes, at, &from);
                        at += 1;
                    }
                    b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                    _ => state = State::Broken,
                },
                State::Deep => {
                    match byte {
                        b'"' => {
                            self.is_key = false;
                            state = State::Text;
                        }
                        b'{' | b'[' => self.depth += 1,
                        b'}' | b']' => {
                            self.depth -= 1;
                            state = self.after();
                        }
                        _ => {}
                    }
                    at += 1;
                }
                State::Done => match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                    _ => state = State::Broken,
                },
                State::Broken => break,
            }
        }
        self.state = state;
        if !matches!(state, State::Done | State::Broken) {
            self.carry(bytes, &from);
        }
    }

    /// Puts away what has been read only in part, at the end of a piece.
    fn carry(&mut self, bytes: &[u8], from: &Marked) {
        let within_text = matches!(self.state, State::Text | State::Escape | State::Hex | State::Wide);
        if within_text && self.is_key && self.node != NONE {
            let room = (LONGEST_KEY_BYTES + 1).saturating_sub(self.key.len());
            let part = &bytes[from.key.min(bytes.len())..];
            self.key.extend_from_slice(&part[..part.len().min(room)]);
        }
        if self.keeping {
            self.keep(&bytes[from.keep.min(bytes.len())..]);
        }
        if self.printing {
            self.envelope.print.update(&bytes[from.print.min(bytes.len())..]);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        let room = LONGEST_NAME_BYTES - self.kept.len();
        if let Some(print) = &mut self.kept_print {
            print.update(part);
        } else if part.len() > room {
            let mut print = Print::default();
            print.update(&self.kept);
            print.update(part);
            self.kept_print = Some(print);
        }
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn in_object(&self) -> bool {
        if self.node != NONE {
            return self.node != BATCH;
        }
        let level = self.depth - 1;
        self.brackets[level / 64] >> (level % 64) & 1 == 1
    }

    /// Whether nothing inside the object or array that begins here can be of interest.
    #[inline]
    fn is_unwanted(&self, open: u8, state: State) -> bool {
        match self.place {
            _ if matches!(state, State::Start) || self.node == BATCH => false,
            NONE => true,
            place => open == b'[' || self.trie.node(place).inside == NONE,
        }
    }

    /// What may follow a value that is whole.
    fn after(&self) -> State {
        match self.depth {
            0 => State::Done,
            depth if depth > DEEPEST_KEPT_LEVEL => State::Deep,
            _ => State::After,
        }
    }

    #[inline]
    fn begin_scalar(&mut self, first: u8, at: usize, state: State, from: &mut Marked) {
        if matches!(state, State::Start) {
            self.top = Top::Scalar;
        }
        if self.place != NONE {
            self.begin_at_place(first, at, from);
        } else if self.node == BATCH {
            self.add_to_batch(Message::unreadable(Unreadable::NotAnObject));
        }
    }

    fn begin_at_place(&mut self, first: u8, at: usize, from: &mut Marked) {
        self.envelope.begin(self.trie, self.place, first);
        let is_scalar = first != b'{' && first != b'[';
        self.keeping = self.place == ID || (is_scalar && Envelope::wants(self.trie, self.place));
        from.keep = at;
        if self.place == PARAMS && first != b'{' {
            self.printing = true;
            from.print = at;
        }
    }

    #[inline]
    fn end_scalar(&mut self, bytes: &[u8], at: usize, from: &Marked) -> State {
        if self.place != NONE {
            self.end_at_place(bytes, at, from);
        }
        self.after()
    }

    /// The scalar, array or object at `place` ends before `at`.
    fn end_at_place(&mut self, bytes: &[u8], at: usize, from: &Marked) {
        if self.keeping {
            self.keeping = false;
            let part = &bytes[from.keep..at];
            if self.kept.is_empty() && part.len() <= LONGEST_NAME_BYTES {
                let literal = Literal { raw: part, print: None };
                self.envelope.take(self.trie, self.place, literal, self.escaped, &mut self.names);
            } else {
                self.keep(part);
                let literal = Literal { raw: &self.kept, print: self.kept_print.take().map(|print| print.value()) };
                self.envelope.take(self.trie, self.place, literal, self.escaped, &mut self.names);
                self.kept.clear();
            }
        }
        if self.place == PARAMS && self.printing {
            self.end_print(&bytes[from.print..at]);
        }
        self.place = NONE;
    }

    /// A member of params, or params that are no object, ends with `part`.
    fn end_print(&mut self, part: &[u8]) {
        if self.printing {
            self.printing = false;
            self.envelope.print.update(part);
            self.envelope.print.update(b",");
        }
    }

    #[inline(always)]
    fn end_key(&mut self, bytes: &[u8], from: usize, to: usize) {
        let place = if self.key.is_empty() && !self.escaped {
            self.trie.find_in(self.node, bytes, from, to)
        } else {
            self.find_odd_key(&bytes[from..to])
        };
        self.place = place;
        if self.node == ROOT && place != NONE {
            self.envelope.meet(place);
        } else if place == META {
            self.printing = false;
            self.envelope.print = self.print_before;
        }
    }

    #[cold]
    #[inline(never)]
    fn find_odd_key(&mut self, part: &[u8]) -> NodeId {
        let room = (LONGEST_KEY_BYTES + 1).saturating_sub(self.key.len());
        self.key.extend_from_slice(&part[..part.len().min(room)]);
        let found = match self.key.len() {
            length if length > LONGEST_KEY_BYTES => NONE,
            _ if self.escaped => self.trie.find(self.node, unescape(&self.key).as_bytes()),
            _ => self.trie.find(self.node, &self.key),
        };
        self.key.clear();
        found
    }

    fn open(&mut self, is_object: bool, at: usize, state: State, from: &mut Marked) -> State {
        let level = self.depth;
        self.depth += 1;
        if level >= DEEPEST_KEPT_LEVEL {
            return State::Deep;
        }
        if level < LEVELS {
            self.around[level] = self.node;
            if matches!(state, State::Start) {
                self.top = if is_object { Top::Object } else { Top::Array };
                self.node = if is_object { ROOT } else { BATCH };
                self.begin_envelope();
            } else if self.place != NONE {
                self.begin_at_place(if is_object { b'{' } else { b'[' }, at, from);
                self.node = if is_object { self.trie.node(self.place).inside } else { NONE };
                self.place = NONE;
            } else if self.node == BATCH {
                self.node = if is_object { ROOT } else { NONE };
                self.objects_in_batch |= is_object;
                if is_object {
                    self.begin_envelope();
                } else {
                    self.add_to_batch(Message::unreadable(Unreadable::NotAnObject));
                }
            } else {
                self.node = NONE;
            }
        }
        let (word, bit) = (level / 64, level % 64);
        if word == self.brackets.len() {
            self.brackets.push(0);
        }
        if is_object {
            self.brackets[word] |= 1 << bit;
            State::FirstKey
        } else {
            self.brackets[word] &= !(1 << bit);
            State::FirstItem
        }
    }

    fn close(&mut self, bytes: &[u8], at: usize, from: &Marked) -> State {
        match self.node {
            PARAMS => self.end_print(&bytes[from.print..at]),
            ROOT => self.end_envelope(),
            _ => {}
        }
        self.depth -= 1;
        self.node = if self.depth < LEVELS { self.around[self.depth] } else { NONE };
        self.place = NONE;
        if self.node == ROOT && (self.keeping || self.printing) {
            self.place = if self.keeping { ID } else { PARAMS };
            self.end_at_place(bytes, at + 1, from);
        }
        self.after()
    }

    fn begin_envelope(&mut self) {
        self.envelope.clear();
    }

    fn end_envelope(&mut self) {
        if self.bad_utf8 {
            self.envelope.add(Oddity::InvalidUtf8);
            self.bad_utf8 = false;
        }
        let message = self.envelope.give();
        match self.top {
            Top::Array => self.add_to_batch(message),
            _ => self.single = Some(message),
        }
    }

    fn add_to_batch(&mut self, mut message: Message) {
        if self.batch.len() < MOST_BATCH_ITEMS {
            message.batch_index = Some(self.batch.len() as u32);
            self.batch.push(message);
        } else {
            self.batch_too_long = true;
        }
    }

    /// The body is over: gives its messages and is ready for the next.
    pub fn finish(&mut self, messages: &mut Vec<Message>) {
        if self.state == State::Number && self.within.number.may_end() && self.depth == 0 {
            self.state = State::Done;
        }
        match (self.state, self.top) {
            (State::Done, Top::Object) => messages.extend(self.single.take()),
            (State::Done, Top::Array) if self.batch.is_empty() => {
                self.give_unreadable(Unreadable::EmptyBatch, messages)
            }
            (State::Done, Top::Array) if self.objects_in_batch => {
                messages.append(&mut self.batch);
                if self.batch_too_long {
                    self.give_unreadable(Unreadable::BatchTooLong, messages);
                }
            }
            (State::Done, _) => self.give_unreadable(Unreadable::NotAnObject, messages),
            (_, Top::Object) => self.give_unreadable(Unreadable::BadJson, messages),
            (_, Top::Array) if self.objects_in_batch => self.give_unreadable(Unreadable::BadJson, messages),
            (State::Start, _) => self.give_unreadable(Unreadable::BadJson, messages),
            // `[info] ready`, `12:30 started`: text that only happens to begin like JSON.
            _ => self.give_unreadable(Unreadable::StrayText, messages),
        }
        self.reset();
    }

    /// The body is over because the log that held it cut it off: gives the message if its envelope tells what it
    /// is, with [`Oddity::PayloadCut`].
    pub fn finish_cut(&mut self, messages: &mut Vec<Message>) {
        let whole = self.state == State::Done;
        let told = self.top == Top::Object && self.depth > 0 && self.state != State::Broken;
        if whole {
            return self.finish(messages);
        }
        if told && self.envelope.tells_its_kind() {
            self.envelope.add(Oddity::PayloadCut);
            self.end_envelope();
            messages.extend(self.single.take());
        } else {
            self.give_unreadable(Unreadable::Truncated, messages);
        }
        self.reset();
    }

    fn give_unreadable(&mut self, reason: Unreadable, messages: &mut Vec<Message>) {
        let mut message = Message::unreadable(reason);
        if self.bad_utf8 {
            message.oddities.add(Oddity::InvalidUtf8);
        }
        messages.push(message);
    }

    fn reset(&mut self) {
        self.state = State::Start;
        self.top = Top::Nothing;
        self.depth = 0;
        self.node = NONE;
        self.place = NONE;
        self.key.clear();
        self.keeping = false;
        self.kept.clear();
        self.kept_print = None;
        self.printing = false;
        self.single = None;
        self.batch.clear();
        self.objects_in_batch = false;
        self.batch_too_long = false;
        self.bad_utf8 = false;
        // What one monstrous body needed is not held for all that follow.
        if self.brackets.len() > 64 {
            self.brackets = Vec::new();
        }
        if self.batch.capacity() > 64 {
            self.batch = Vec::new();
        }
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
