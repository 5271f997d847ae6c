//! The few things importers need of JSON text without building a tree: the fields of one flat object, where a
//! value ends, and strings without their escapes. Fast, because line logs pass through here whole.

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

/// A buffer for unescaped text that is filled again and again.
#[derive(Debug, Default)]
pub struct Plain {
    bytes: Vec<u8>,
    len: usize,
}

impl Plain {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Takes back what was added behind `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Unescapes a string as [`Plain::add`] does, in place of all before.
    pub fn fill(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        self.clear();
        self.add(bytes, at)
    }

    /// Adds bytes as they are.
    pub fn add_plain(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn make_room(&mut self, more: usize) {
        let room = self.len + more;
        if self.bytes.len() < room {
            self.bytes.resize(room.next_multiple_of(4096), 0);
        }
    }

    /// Unescapes the string that begins at `bytes[at]` (just behind its opening quote) and adds it; gives the place
    /// behind the closing quote, or adds nothing. What is no escape is kept as it stands.
    pub fn add(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        // Unescaping never lengthens; sixteen more, so that whole blocks can be written past the end.
        self.make_room(bytes.len() - at + 16);
        let out = &mut self.bytes[..];
        let mut to = self.len;
        loop {
            // Sixteen bytes are copied whether they are plain or not: what is wrong is written over.
            while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
                out[to..to + 16].copy_from_slice(block);
                let found = marked(block);
                if found == 0 {
                    at += 16;
                    to += 16;
                    continue;
                }
                let plain = found.trailing_zeros() as usize;
                at += plain;
                to += plain;
                let Some(&[mark, escaped]) = bytes.get(at..at + 2) else { break };
                let simple = ESCAPES[escaped as usize];
                if mark == b'"' || simple == 0 {
                    break;
                }
                out[to] = simple;
                to += 1;
                at += 2;
            }
            match *bytes.get(at)? {
                b'"' => {
                    self.len = to;
                    return Some(at + 1);
                }
                b'\\' => {
                    let escaped = *bytes.get(at + 1)?;
                    if escaped == b'u' {
                        let (len, taken) = unicode(&bytes[at..], &mut out[to..]);
                        to += len;
                        at += taken;
                        continue;
                    }
                    out[to] = if ESCAPES[escaped as usize] == 0 { escaped } else { ESCAPES[escaped as usize] };
                    to += 1;
                    at += 2;
                }
                other => {
                    out[to] = other;
                    to += 1;
                    at += 1;
                }
            }
        }
    }
}

/// What stands for an escape of one letter; 0 for `u` and for what is no escape.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table[b'b' as usize] = 8;
    table[b'f' as usize] = 12;
    table
};

/// One bit per byte of the block that is a quote or a backslash.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn marked(block: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};
    let block = u128::from_le_bytes(*block);
    // SAFETY: these need SSE2, which every x86-64 has, and touch no memory through a pointer.
    unsafe {
        let block = _mm_set_epi64x((block >> 64) as i64, block as i64);
        let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
        let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
        _mm_movemask_epi8(_mm_or_si128(quotes, backslashes)) as u32
    }
}

/// One bit per byte of the block that is a quote or a backslash.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn marked(block: &[u8; 16]) -> u32 {
    block.iter().enumerate().fold(0, |found, (at, byte)| found | u32::from(matches!(byte, b'"' | b'\\')) << at)
}

/// Reads `\uXXXX` (and the other half of a pair) at the start of `bytes`; gives bytes written and bytes taken.
fn unicode(bytes: &[u8], out: &mut [u8]) -> (usize, usize) {
    let unit = |at: usize| -> Option<u32> {
        if bytes.get(at) != Some(&b'\\') || bytes.get(at + 1) != Some(&b'u') {
            return None;
        }
        let digits = std::str::from_utf8(bytes.get(at + 2..at + 6)?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let Some(first) = unit(0) else {
        out[..2].copy_from_slice(b"\\u");
        return (2, 2);
    };
    let (code, taken) = match first {
        0xd800..=0xdbff => match unit(6) {
            Some(second @ 0xdc00..=0xdfff) => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12),
            _ => (0xfffd, 6),
        },
        // Python writes a byte that is no UTF-8 as a lone surrogate; it goes back to what it was.
        0xdc80..=0xdcff => {
            out[0] = (first & 0xff) as u8;
            return (1, 6);
        }
        0xdc00..=0xdfff => (0xfffd, 6),
        code => (code, 6),
    };
    let text = char::from_u32(code).unwrap_or('\u{fffd}');
    (text.encode_utf8(out).len(), taken)
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
