//! The few things importers need of JSON text without building a tree: the fields of one flat object, where a
//! value ends, and strings without their escapes. Fast, because line logs pass through here whole.

pub use super::plain::Plain;

/// The eight bytes from `at` on, as a little-endian word.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(eight.try_into().expect("eight bytes")))
}

/// The high bit of each byte of `word` that equals `byte`. Bits above the first hit may be wrong; only the lowest
/// set bit is used.
#[inline(always)]
fn hits(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let differing = word ^ (LOW * u64::from(byte));
    differing.wrapping_sub(LOW) & !differing & (LOW << 7)
}

/// Where the next quote or backslash stands, from `at` on.
#[inline(always)]
fn quote_or_backslash(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(word) = word(bytes, at) {
        let found = hits(word, b'"') | hits(word, b'\\');
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    while at < bytes.len() {
        if matches!(bytes[at], b'"' | b'\\') {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// With `bytes[at]` just behind an opening quote: where the closing quote stands.
pub fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = quote_or_backslash(bytes, at)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The text of a JSON string, given with its quotes or without.
pub fn text_of(raw: &[u8]) -> String {
    let inner = raw.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(raw);
    let mut plain = Plain::default();
    let closed = [inner, b"\""].concat();
    match plain.fill(&closed, 0) {
        Some(_) => String::from_utf8_lossy(plain.as_bytes()).into_owned(),
        None => String::from_utf8_lossy(inner).into_owned(),
    }
}

pub fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && matches!(bytes[at], b' ' | b'\t' | b'\n' | b'\r') {
        at += 1;
    }
    at
}

/// Where the value that begins at `bytes[at]` ends; `None` when it does not. Brackets are counted, not matched.
pub fn value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string_end(bytes, at + 1).map(|end| end + 1),
        b'{' | b'[' => {
            let mut depth = 0usize;
            while at < bytes.len() {
                match bytes[at] {
                    b'"' => at = string_end(bytes, at + 1)?,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            None
        }
        _ => {
            let len = bytes[at..]
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'))
                .unwrap_or(bytes.len() - at);
            (len > 0).then_some(at + len)
        }
    }
}

/// Walks the fields of one object: keys between their quotes as written, values as raw text.
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    First,
    Later,
    Done,
    Broken,
}

impl<'a> Fields<'a> {
    /// `None` when the text does not begin as an object.
    pub fn of(bytes: &'a [u8]) -> Option<Fields<'a>> {
        let at = skip_space(bytes, 0);
        (bytes.get(at) == Some(&b'{')).then_some(Fields { bytes, at: at + 1, state: State::First })
    }

    /// Whether the object was walked to its end and nothing stands behind it.
    pub fn whole(&self) -> bool {
        self.state == State::Done && skip_space(self.bytes, self.at) == self.bytes.len()
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let bytes = self.bytes;
        let mut at = skip_space(bytes, self.at);
        match (bytes.get(at)?, self.state) {
            (b'}', State::First | State::Later) => {
                self.at = at + 1;
                self.state = State::Done;
                return None;
            }
            (b',', State::Later) => at = skip_space(bytes, at + 1),
            (b'"', State::First) => {}
            _ => return None,
        }
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let end = string_end(bytes, at + 1)?;
        let colon = skip_space(bytes, end + 1);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        self.at = skip_space(bytes, colon + 1);
        self.state = State::Later;
        Some(&bytes[at + 1..end])
    }

    /// The next key; its value is yet to be read with [`Fields::value`] or [`Fields::text_into`].
    pub fn next_key(&mut self) -> Option<&'a [u8]> {
        if matches!(self.state, State::Done | State::Broken) {
            return None;
        }
        let key = self.key();
        if key.is_none() && self.state != State::Done {
            self.state = State::Broken;
        }
        key
    }

    /// The raw text of the value of the key just given.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        match value_end(self.bytes, self.at) {
            Some(end) => {
                let raw = &self.bytes[self.at..end];
                self.at = end;
                Some(raw)
            }
            None => {
                self.state = State::Broken;
                None
            }
        }
    }

    /// Unescapes the value of the key just given, if it is a string; otherwise leaves it to be read by `value`.
    pub fn text_into(&mut self, plain: &mut Plain) -> bool {
        if self.bytes.get(self.at) != Some(&b'"') {
            return false;
        }
        match plain.fill(self.bytes, self.at + 1) {
            Some(end) => {
                self.at = end;
                true
            }
            None => {
                self.state = State::Broken;
                false
            }
        }
    }

    /// The value of `wanted`, where the object is well formed up to it.
    pub fn find(bytes: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
        let mut fields = Fields::of(bytes)?;
        while let Some(key) = fields.next_key() {
            let value = fields.value()?;
            if key == wanted.as_bytes() {
                return Some(value);
            }
        }
        None
    }
}

/// Writes a JSON string with its quotes.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(raw: &str) -> Option<Vec<u8>> {
        let mut plain = Plain::default();
        plain.fill(raw.as_bytes(), 0).map(|_| plain.as_bytes().to_vec())
    }

    #[test]
    fn strings_lose_their_escapes() {
        for text in ["", "short", "a much longer text without any escape in it", "\"\\/\u{8}\u{c}\n\r\t", "ü😀 €\u{0}x"]
        {
            let quoted = serde_json::to_string(text).expect("a string");
            assert_eq!(plain(&quoted[1..]).as_deref(), Some(text.as_bytes()), "{quoted}");
        }
        assert_eq!(
            plain(r#"😀\ud83d\u00e9\udcff""#).as_deref(),
            Some(&b"\xf0\x9f\x98\x80\xef\xbf\xbd\xc3\xa9\xff"[..])
        );
        assert_eq!(plain(r#"\u12"#), None);
        assert_eq!(plain(r#"\u12zz\q""#).as_deref(), Some(&b"\\u12zzq"[..]));
        assert_eq!(plain("no end"), None);
        assert_eq!(plain("end\\"), None);
    }

    #[test]
    fn fields_come_in_order_and_breaks_are_seen() {
        let text = br#" { "a": 1 , "b":"x\"}" ,"c":[{"d":"]"}], "e":null } "#;
        let mut fields = Fields::of(text).expect("an object");
        let mut seen = Vec::new();
        while let Some(key) = fields.next_key() {
            seen.push((key, fields.value().expect("a value")));
        }
        assert!(fields.whole());
        let wanted: [(&[u8], &[u8]); 4] =
            [(b"a", b"1"), (b"b", br#""x\"}""#), (b"c", br#"[{"d":"]"}]"#), (b"e", b"null")];
        assert_eq!(seen, wanted);
        for bad in ["{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1}}", "{\"a\":1,}", "{,}", "{\"a\" 1}", "{\"a\":[1}"]
        {
            let mut fields = Fields::of(bad.as_bytes()).expect("begins as one");
            while fields.next_key().is_some() && fields.value().is_some() {}
            assert!(!fields.whole(), "{bad}");
        }
        assert!(Fields::of(b"[]").is_none());
    }
}
