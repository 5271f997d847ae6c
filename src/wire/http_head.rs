//! The head of an HTTP/1.1 message: start line, fields, and how long the body is.

/// More fields than any server takes.
const MOST_FIELDS: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    Request { method: String, target: String },
    Response { status: u16, reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub start: Start,
    /// The 1 of HTTP/1.1.
    pub minor: u8,
    /// Names as written; bytes that are not UTF-8 are replaced.
    pub fields: Vec<(String, String)>,
}

/// How the head says where the body ends (RFC 9112, 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Known(u64),
    Chunked {
        ambiguous: bool,
    },
    Absent,
    /// A transfer coding that does not end in `chunked`.
    Unclear,
    Bad,
}

impl Head {
    /// Reads a whole head, with its blank line.
    pub fn read(bytes: &[u8]) -> Option<Head> {
        let end = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let line = std::str::from_utf8(bytes[..end].trim_ascii_end()).ok()?;
        let fields = read_fields(&bytes[end..])?;
        if let Some(rest) = line.strip_prefix("HTTP/1.") {
            let (minor, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            let status = status.parse().ok().filter(|status| (100..1000).contains(status))?;
            let start = Start::Response { status, reason: reason.to_string() };
            return Some(Head { start, minor: minor.parse().ok()?, fields });
        }
        let (method, rest) = line.split_once(' ')?;
        let (target, version) = rest.rsplit_once(' ')?;
        let minor = version.strip_prefix("HTTP/1.")?.parse().ok()?;
        let start = Start::Request { method: method.to_string(), target: target.trim().to_string() };
        Some(Head { start, minor, fields })
    }

    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn length(&self) -> Length {
        let lengths = || self.all("content-length").flat_map(|value| value.split(',')).map(str::trim);
        if let Some(last) = self.all("transfer-encoding").last() {
            let coding = last.rsplit(',').next().unwrap_or("").trim();
            if coding.eq_ignore_ascii_case("chunked") {
                return Length::Chunked { ambiguous: lengths().next().is_some() };
            }
            return Length::Unclear;
        }
        let mut agreed = None;
        for length in lengths() {
            let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            match length.parse::<u64>() {
                Ok(length) if digits && agreed.is_none_or(|known| known == length) => agreed = Some(length),
                _ => return Length::Bad,
            }
        }
        agreed.map_or(Length::Absent, Length::Known)
    }
}

/// Whether a line can begin a message: `GET /x HTTP/1.1` or `HTTP/1.1 200 OK`.
pub(super) fn is_start(line: &[u8], is_request: bool) -> bool {
    let line = line.trim_ascii_end();
    if !is_request {
        return line.starts_with(b"HTTP/1.")
            && line.get(8) == Some(&b' ')
            && line.get(9..12).is_some_and(|status| status.iter().all(u8::is_ascii_digit));
    }
    let version = line.len().checked_sub(9).map(|at| &line[at..]);
    let method = line.iter().take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_')).count();
    version.is_some_and(|version| version.starts_with(b" HTTP/1.")) && method > 0 && line.get(method) == Some(&b' ')
}

/// Reads fields up to and with the blank line behind them. `None` where a line is no field.
pub(super) fn read_fields(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if text.is_empty() {
            break;
        }
        if matches!(text[0], b' ' | b'\t') {
            // An old way to break long fields.
            let (_, value) = fields.last_mut()?;
            value.push(' ');
            value.push_str(&String::from_utf8_lossy(text.trim_ascii()));
            continue;
        }
        let colon = text.iter().position(|byte| *byte == b':')?;
        let name = text[..colon].trim_ascii_end();
        let is_name =
            |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'(' | b')' | b'<' | b'>' | b'"' | b'{' | b'}');
        if name.is_empty() || !name.iter().all(is_name) || fields.len() == MOST_FIELDS {
            return None;
        }
        let value = String::from_utf8_lossy(text[colon + 1..].trim_ascii()).into_owned();
        fields.push((String::from_utf8_lossy(name).into_owned(), value));
    }
    Some(fields)
}

/// Reads a chunk's line: its size, and extensions that are not looked at.
pub fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = line.trim_ascii_end();
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = line[digits..].trim_ascii_start();
    if digits == 0 || digits > 16 || !(rest.is_empty() || rest[0] == b';') {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()
}
