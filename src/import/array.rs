//! One long JSON array, element by element, in bounded memory: HAR entries, tshark's packets, exported histories.
//!
//! The array stands at the top of the file or under a path of keys (`log`, `entries`). An element is given as raw text;
//! one longer than [`MOST_ELEMENT_BYTES`] is passed over and told. What stands around the array is not looked at.

use std::io::Read;

/// An element is held whole while it is read into its typed form, mostly strings of the same length.
pub const MOST_ELEMENT_BYTES: usize = 16 * 1024 * 1024;

/// How deep keys are followed on the way to the array.
const KEPT_DEPTH: usize = 8;

pub struct Element<'a> {
    /// Counts from 1.
    pub number: u64,
    pub text: &'a [u8],
    /// Bytes that were passed over; then `text` is empty.
    pub left_out: u64,
}

pub struct Elements<R> {
    input: R,
    block: Vec<u8>,
    at: usize,
    end: usize,
    path: &'static [&'static str],
    /// The keys that lead to where we are, one per open object; `None` for an array.
    keys: Vec<Option<Vec<u8>>>,
    depth: usize,
    inside: bool,
    number: u64,
    element: Vec<u8>,
    /// Whether the array was reached at all, and whether it was closed.
    pub found: bool,
    pub closed: bool,
}

impl<R: Read> Elements<R> {
    pub fn new(input: R, path: &'static [&'static str]) -> Elements<R> {
        Elements {
            input,
            block: vec![0; 128 * 1024],
            at: 0,
            end: 0,
            path,
            keys: Vec::new(),
            depth: 0,
            inside: false,
            number: 0,
            element: Vec::new(),
            found: false,
            closed: false,
        }
    }

    fn peek(&mut self) -> Option<u8> {
        if self.at == self.end {
            self.at = 0;
            self.end = self.input.read(&mut self.block).unwrap_or(0);
            if self.end == 0 {
                return None;
            }
        }
        Some(self.block[self.at])
    }

    fn next_byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip_space(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if !byte.is_ascii_whitespace() && byte != 0xef && byte != 0xbb && byte != 0xbf {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Reads a string whose opening quote was taken; keeps at most `most` of its bytes.
    fn string(&mut self, most: usize) -> Option<Vec<u8>> {
        let mut kept = Vec::new();
        loop {
            match self.next_byte()? {
                b'"' => return Some(kept),
                b'\\' => {
                    self.next_byte()?;
                }
                byte if kept.len() < most => kept.push(byte),
                _ => {}
            }
        }
    }

    /// Goes on until the wanted array opens.
    fn seek(&mut self) -> Option<()> {
        let mut pending_key: Option<Vec<u8>> = None;
        loop {
            match self.next_byte()? {
                b'"' => {
                    let text = self.string(64)?;
                    if self.skip_space() == Some(b':') {
                        self.at += 1;
                        pending_key = Some(text);
                    }
                }
                b'{' => self.open(pending_key.take()),
                b'[' => {
                    let here = self.keys.iter().filter_map(|key| key.as_deref()).chain(pending_key.as_deref());
                    let there = self.path.iter().map(|key| key.as_bytes());
                    let direct = self.depth == self.path.len() && here.eq(there);
                    if direct {
                        (self.found, self.inside) = (true, true);
                        return Some(());
                    }
                    self.open(pending_key.take());
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.keys.truncate(self.depth.min(KEPT_DEPTH));
                    pending_key = None;
                }
                b',' => pending_key = None,
                _ => {}
            }
        }
    }

    fn open(&mut self, key: Option<Vec<u8>>) {
        if self.keys.len() < KEPT_DEPTH && self.keys.len() == self.depth {
            self.keys.push(key);
        }
        self.depth += 1;
    }

    /// Whether anything stands behind the array.
    pub fn more_behind(&mut self) -> bool {
        self.skip_space().is_some()
    }

    /// The next element, or `None` at the end of the array or of the file.
    pub fn next_element(&mut self) -> Option<Element<'_>> {
        if !self.inside {
            if self.found {
                return None;
            }
            self.seek()?;
        }
        loop {
            match self.skip_space()? {
                b']' => {
                    self.at += 1;
                    (self.inside, self.closed) = (false, true);
                    return None;
                }
                b',' => self.at += 1,
                // It closes nothing: an element of its own, that no one can read.
                b'}' => {
                    self.at += 1;
                    self.number += 1;
                    return Some(Element { number: self.number, text: b"}", left_out: 0 });
                }
                _ => break,
            }
        }
        self.element.clear();
        let mut left_out = 0u64;
        let mut depth = 0usize;
        let (mut in_string, mut escaped, mut whole) = (false, false, false);
        while let Some(byte) = self.peek() {
            if in_string {
                in_string = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
            } else {
                match byte {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth == 0 => {
                        whole = true;
                        break;
                    }
                    b'}' | b']' => depth -= 1,
                    b',' if depth == 0 => {
                        whole = true;
                        break;
                    }
                    _ => {}
                }
            }
            self.at += 1;
            if left_out == 0 && self.element.len() < MOST_ELEMENT_BYTES {
                self.element.push(byte);
            } else {
                left_out += 1;
            }
            if depth == 0 && !in_string && matches!(byte, b'}' | b']') {
                whole = true;
                break;
            }
        }
        if left_out > 0 {
            left_out += self.element.len() as u64;
            self.element = Vec::new();
        }
        while self.element.last().is_some_and(u8::is_ascii_whitespace) {
            self.element.pop();
        }
        self.number += 1;
        if !whole {
            // The file ends inside it.
            self.inside = false;
        }
        Some(Element { number: self.number, text: &self.element, left_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, path: &'static [&'static str]) -> (Vec<String>, bool) {
        let mut elements = Elements::new(text.as_bytes(), path);
        let mut found = Vec::new();
        while let Some(element) = elements.next_element() {
            found.push(String::from_utf8_lossy(element.text).into_owned());
        }
        (found, elements.closed)
    }

    #[test]
    fn elements_of_the_right_array() {
        assert_eq!(
            all(r#" [ {"a":[1,"]"]} , 2, "x,y" ] "#, &[]),
            (vec!["{\"a\":[1,\"]\"]}".into(), "2".to_string(), "\"x,y\"".into()], true)
        );
        let har = r#"{"log":{"pages":[1],"creator":{"entries":[9]},"entries":[{"b":"}"},{"c":{}}]}}"#;
        assert_eq!(all(har, &["log", "entries"]), (vec![r#"{"b":"}"}"#.into(), r#"{"c":{}}"#.into()], true));
        assert_eq!(all(r#"{"entries":[1]}"#, &["log", "entries"]), (vec![], false));
        assert_eq!(all("[1}}2]", &[]), (vec!["1".to_string(), "}".into(), "}".into(), "2".into()], true));
        assert_eq!(all("[]", &[]), (vec![], true));
        assert_eq!(all("", &[]), (vec![], false));
        assert_eq!(all(r#"[{"a":1},{"b":"#, &[]), (vec![r#"{"a":1}"#.into(), r#"{"b":"#.into()], false));
        assert_eq!(all(&"[".repeat(100_000), &["x"]).0.len(), 0);
    }

    #[test]
    fn a_giant_is_passed_over() {
        let text = format!("[\"{}\",7]", "x".repeat(MOST_ELEMENT_BYTES + 10));
        let mut elements = Elements::new(text.as_bytes(), &[]);
        let giant = elements.next_element().expect("told");
        assert_eq!((giant.text.len(), giant.left_out), (0, MOST_ELEMENT_BYTES as u64 + 12));
        assert_eq!(elements.next_element().map(|element| element.text.to_vec()), Some(b"7".to_vec()));
    }
}
