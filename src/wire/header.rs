//! The lines of a Content-Length header block, and how one is recognised in places where it should not stand.
//!
//! Comes in: a line, or what has come of it. Goes out: what it is. This file keeps nothing.

/// What of a header line must be seen to be sure of it: the name, some blanks, the length or a usual media type.
pub(super) const LONGEST_TRACE_BYTES: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Blank,
    /// Content-Length; `None` where it is no number that fits.
    Length(Option<u64>),
    /// Another header.
    Other,
    /// Begins with a blank: the rest of the header before, if there is one.
    Continued,
    NoHeader,
}

/// Reads one line, with or without its line end.
pub(super) fn read_line(line: &[u8]) -> Line {
    let text = line.trim_ascii_end();
    if text.is_empty() {
        return Line::Blank;
    }
    if matches!(text[0], b' ' | b'\t') {
        return Line::Continued;
    }
    let Some(colon) = text.iter().position(|byte| *byte == b':') else { return Line::NoHeader };
    let name = text[..colon].trim_ascii_end();
    if name.is_empty() || !name.iter().all(|byte| is_name_byte(*byte)) {
        return Line::NoHeader;
    }
    if !name.eq_ignore_ascii_case(b"content-length") {
        return Line::Other;
    }
    let value = text[colon + 1..].trim_ascii();
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    Line::Length(std::str::from_utf8(value).ok().filter(|_| digits).and_then(|value| value.parse().ok()))
}

/// Whether what has come of a line may still become a header line.
pub(super) fn may_be_header(part: &[u8]) -> bool {
    match part.iter().position(|byte| !is_name_byte(*byte)) {
        None => true,
        Some(at) => at > 0 && part[at] == b':',
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Where in a line a Content-Length header begins, if other text stands before it.
pub(super) fn length_within(line: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    // `X-Content-Length:` is a name of its own.
    (1..line.len().saturating_sub(NAME.len()))
        .find(|at| line[*at..*at + NAME.len()].eq_ignore_ascii_case(NAME) && line[*at - 1] != b'-')
}

/// Whether a line is `{…}` or `[…]`.
pub(super) fn looks_like_json(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    matches!((text.first(), text.last()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trace {
    /// A whole line: `Content-Length: 12` or `Content-Type: …` and a line end.
    Header,
    /// So far it may become one.
    Maybe,
    No,
}

/// Whether `bytes` are such a line, or the beginning of one.
pub(super) fn trace(bytes: &[u8]) -> Trace {
    const NAMES: [&[u8]; 2] = [b"content-length:", b"content-type:"];
    for (number, name) in NAMES.iter().enumerate() {
        let common = bytes.len().min(name.len());
        if !bytes[..common].eq_ignore_ascii_case(&name[..common]) {
            continue;
        }
        let value = &bytes[common..];
        let (mut digits, mut after) = (0, false);
        for (at, byte) in value.iter().enumerate() {
            let fits = match byte {
                b'\n' => return if digits > 0 && at + 1 == value.len() { Trace::Header } else { Trace::No },
                b'\r' => {
                    after = true;
                    true
                }
                _ if number == 1 => {
                    digits += 1;
                    !after && (0x20..0x7f).contains(byte)
                }
                b' ' | b'\t' => {
                    after = digits > 0;
                    true
                }
                b'0'..=b'9' => {
                    digits += 1;
                    !after && digits <= 20
                }
                _ => false,
            };
            if !fits {
                return Trace::No;
            }
        }
        return if bytes.len() < LONGEST_TRACE_BYTES { Trace::Maybe } else { Trace::No };
    }
    Trace::No
}
