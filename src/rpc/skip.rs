//! The fast way past values of which nothing is wanted: whole and in one piece, or not at all.
//!
//! Comes in: bytes and where a value begins. Goes out: where it ends, if it is valid and ends within these bytes;
//! else `None`, and the resumable scanner reads it step by step, to resume it later or to tell what is wrong.

use super::string::{Tail, skip_plain};

/// One bit per open bracket, in one word.
const DEEPEST: u32 = 64;

/// The next byte that is not white space, and where it is.
#[inline(always)]
fn next(bytes: &[u8], mut at: usize) -> Option<(u8, usize)> {
    loop {
        let byte = *bytes.get(at)?;
        if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
            return Some((byte, at));
        }
        at += 1;
    }
}

/// Past the end of the string whose first byte behind the quote is at `at`.
#[inline(always)]
pub(super) fn string(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_plain(bytes, at);
    if *bytes.get(at)? == b'"' { Some(at + 1) } else { odd_string(bytes, at) }
}

fn odd_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                _ => return None,
            },
            wide @ 0x80.. => {
                let mut tail = Some(Tail::after(wide)?);
                at += 1;
                while let Some(more) = tail {
                    tail = more.take(*bytes.get(at)?)?;
                    at += 1;
                }
            }
            _ => return None,
        }
        at = skip_plain(bytes, at);
    }
}

/// Past the end of the number that begins at `at`. The byte behind it must be there, for the number to be over.
#[inline(always)]
pub(super) fn number(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes[at] == b'-' {
        at += 1;
    }
    match bytes.get(at)? {
        b'0' => at += 1,
        b'1'..=b'9' => at = digits(bytes, at)?,
        _ => return None,
    }
    if *bytes.get(at)? == b'.' {
        at = digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at)?, b'e' | b'E') {
        at += 1;
        if matches!(bytes.get(at)?, b'+' | b'-') {
            at += 1;
        }
        at = digits(bytes, at)?;
    }
    bytes.get(at).map(|_| at)
}

/// At least one digit, and what comes behind them.
#[inline(always)]
fn digits(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while bytes.get(at)?.is_ascii_digit() {
        at += 1;
    }
    (at > from).then_some(at)
}

/// Past `true`, `false` or `null`.
#[inline(always)]
pub(super) fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word: &[u8] = match bytes[at] {
        b't' => b"true",
        b'f' => b"false",
        _ => b"null",
    };
    bytes[at..].starts_with(word).then_some(at + word.len())
}

/// Past a key and its colon; `at` is before the key.
#[inline(always)]
fn key(bytes: &[u8], at: usize) -> Option<usize> {
    let (byte, at) = next(bytes, at)?;
    if byte != b'"' {
        return None;
    }
    let at = string(bytes, at + 1)?;
    let (byte, at) = next(bytes, at)?;
    (byte == b':').then_some(at + 1)
}

/// Past the end of the object or array that begins at `at`.
pub(super) fn container(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut brackets = 0u64;
    let mut depth = 0;
    loop {
        let (byte, here) = next(bytes, at)?;
        at = match byte {
            b'"' => string(bytes, here + 1)?,
            b'{' | b'[' => {
                let is_object = byte == b'{';
                let (first, inside) = next(bytes, here + 1)?;
                // `}` is `{` and two, `]` is `[` and two.
                if first != byte + 2 {
                    depth += 1;
                    if depth > DEEPEST {
                        return None;
                    }
                    brackets = brackets << 1 | u64::from(is_object);
                    at = if is_object { key(bytes, inside)? } else { inside };
                    continue;
                }
                inside + 1
            }
            b'-' | b'0'..=b'9' => number(bytes, here)?,
            b't' | b'f' | b'n' => word(bytes, here)?,
            _ => return None,
        };
        loop {
            if depth == 0 {
                return Some(at);
            }
            let in_object = brackets & 1 == 1;
            let (byte, here) = next(bytes, at)?;
            at = here + 1;
            match byte {
                b',' => {
                    if in_object {
                        at = key(bytes, at)?;
                    }
                    break;
                }
                b'}' if in_object => {}
                b']' if !in_object => {}
                _ => return None,
            }
            brackets >>= 1;
            depth -= 1;
        }
    }
}
