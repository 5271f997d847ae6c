//! One line of strace taken apart: who, when, which call, with which text and result.
//!
//! This file refuses to know what a descriptor means and what came before the line.

use crate::event::Micros;
use crate::import::time;

#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) thread: u64,
    pub(super) at: Option<Stamp>,
    pub(super) rest: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stamp {
    /// `-ttt`.
    Epoch(Micros),
    /// `-t`, `-tt`: since midnight.
    Clock(Micros),
    /// `-r`: since the line before.
    Since(Micros),
}

/// A number of seconds below this is no time since the epoch: strace is younger.
const FIRST_EPOCH: Micros = 10 * 365 * time::DAY;

/// What a call says.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    /// All texts among the arguments, joined.
    pub(super) text: Vec<u8>,
    /// Whether `-s` cut one.
    pub(super) cut: bool,
    pub(super) result: i64,
    /// With `-T`.
    pub(super) took: Option<Micros>,
}

/// What strace says of itself: `strace: Process 12 attached with 3 threads`, `Process 12 detached`.
pub(super) fn is_talk(line: &str) -> bool {
    let of_process = line.starts_with("Process ") || line.contains("] Process ");
    line.starts_with("strace: ") || of_process && (line.contains(" attached") || line.contains(" detached"))
}

/// Takes `[pid 123]` or `123`, and the time, off the front.
pub(super) fn split(line: &str) -> Option<Line<'_>> {
    let mut rest = line.trim_start();
    let mut thread = 0;
    if let Some(inner) = rest.strip_prefix("[pid") {
        let (number, after) = inner.split_once(']')?;
        thread = number.trim().parse().ok()?;
        rest = after.trim_start();
    } else if let Some((word, after)) = rest.split_once(' ')
        && !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_digit())
    {
        thread = word.parse().ok()?;
        rest = after.trim_start();
    }
    let mut at = None;
    if let Some((word, after)) = rest.split_once(' ')
        && word.starts_with(|c: char| c.is_ascii_digit())
    {
        at = if word.contains(':') {
            let (clock, left) = time::clock(word.as_bytes())?;
            left.is_empty().then_some(Stamp::Clock(clock))
        } else {
            let micros = time::from_number(word.as_bytes());
            micros.map(|at| if at < FIRST_EPOCH { Stamp::Since(at) } else { Stamp::Epoch(at) })
        };
        at?;
        rest = after.trim_start();
        // `-r` beside another time.
        if let Some((_, after)) = rest.strip_prefix("(+").and_then(|rest| rest.split_once(')')) {
            rest = after.trim_start();
        }
    }
    let known = rest.starts_with("+++ ") || rest.starts_with("--- ") || rest.starts_with("<... ");
    (known || call_name(rest).is_some()).then_some(Line { thread, at, rest })
}

pub(super) fn call_name(text: &str) -> Option<&str> {
    if text.starts_with("<... ") || text.starts_with("+++ exited") {
        return Some("");
    }
    let end = text.find('(')?;
    let name = &text[..end];
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

/// Of the arguments and all that stands behind them.
pub(super) fn outcome(arguments: &str) -> Option<Outcome> {
    let bytes = arguments.as_bytes();
    let mut text = Vec::new();
    let (mut at, mut cut) = (0, false);
    let end = loop {
        match *bytes.get(at)? {
            b'"' => {
                at = unescape(bytes, at + 1, &mut text)?;
                if bytes[at..].starts_with(b"...") {
                    cut = true;
                    at += 3;
                }
            }
            b')' => {
                let rest = arguments[at + 1..].trim_start();
                if let Some(result) = rest.strip_prefix("= ") {
                    break result;
                }
                at += 1;
            }
            _ => at += 1,
        }
    };
    let digits = end.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(end.len());
    let result = if end.starts_with('?') { -1 } else { end[..digits].parse().ok()? };
    let took = end.rsplit_once('<').and_then(|(_, rest)| {
        let seconds = rest.strip_suffix('>')?;
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
        let (micros, _) = fraction.split_at_checked(6).unwrap_or((fraction, ""));
        let scale = 10i64.checked_pow(6 - micros.len() as u32)?;
        let whole: i64 = whole.parse().ok()?;
        whole.checked_mul(time::SECOND)?.checked_add(micros.parse::<i64>().ok()? * scale)
    });
    Some(Outcome { text, cut, result, took })
}

/// The text of a write that has only begun, and how long it is to be. `None` for calls with lists of texts: what they cut
/// is known only from the result.
pub(super) fn begun(arguments: &str) -> Option<(Vec<u8>, u64)> {
    let bytes = arguments.as_bytes();
    let start = memchr::memchr(b'"', bytes)?;
    if memchr::memchr(b'[', &bytes[memchr::memchr(b',', bytes)?..start]).is_some() {
        return None;
    }
    let mut text = Vec::new();
    let end = unescape(bytes, start + 1, &mut text)?;
    let rest = arguments[end..].trim_start_matches("...").strip_prefix(", ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let length = rest[..digits].parse().ok()?;
    Some((text, length))
}

/// C escapes: `\n`, `\"`, octal of one to three digits, `\x`. Gives the place behind the closing quote.
fn unescape(bytes: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        let run = memchr::memchr2(b'"', b'\\', &bytes[at..])?;
        out.extend_from_slice(&bytes[at..at + run]);
        at += run;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        let escaped = *bytes.get(at + 1)?;
        at += 2;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(11),
            b'f' => out.push(12),
            b'0'..=b'7' => {
                let mut code = u32::from(escaped - b'0');
                for _ in 0..2 {
                    match bytes.get(at) {
                        Some(digit @ b'0'..=b'7') => {
                            code = code * 8 + u32::from(digit - b'0');
                            at += 1;
                        }
                        _ => break,
                    }
                }
                out.push(code as u8);
            }
            b'x' => {
                let digits = std::str::from_utf8(bytes.get(at..at + 2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            other => out.push(other),
        }
    }
}

pub(super) fn signal_number(name: &str) -> Option<i32> {
    let known = [
        ("SIGHUP", 1),
        ("SIGINT", 2),
        ("SIGQUIT", 3),
        ("SIGILL", 4),
        ("SIGTRAP", 5),
        ("SIGABRT", 6),
        ("SIGBUS", 7),
        ("SIGFPE", 8),
        ("SIGKILL", 9),
        ("SIGUSR1", 10),
        ("SIGSEGV", 11),
        ("SIGUSR2", 12),
        ("SIGPIPE", 13),
        ("SIGALRM", 14),
        ("SIGTERM", 15),
    ];
    known.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_taken_apart() {
        let call = outcome(r#"0<pipe:[12]>, "a\"b)\n\0\177\x41"..., 8192) = 100 <0.003140>"#).expect("a call");
        assert_eq!(call.text, b"a\"b)\n\0\x7fA");
        assert!(call.cut);
        assert_eq!((call.result, call.took), (100, Some(3_140)));
        let call = outcome(r#"1, [{iov_base="ab", iov_len=2}, {iov_base="c", iov_len=1}], 2) = 3"#).expect("a call");
        assert_eq!(call, Outcome { text: b"abc".to_vec(), cut: false, result: 3, took: None });
        let again = r#"0, 0x7ffe, 10) = -1 EAGAIN (Resource temporarily unavailable)"#;
        assert_eq!(outcome(again).map(|call| call.result), Some(-1));
        assert!(outcome(r#"0, "abc"#).is_none() && outcome("0, 1").is_none());
    }

    #[test]
    fn every_way_of_writing_thread_and_time() {
        let read = "read(0, \"\", 1) = 0";
        for (line, thread, at) in [
            (format!("12 1794962802.950346 {read}"), 12, Some(Stamp::Epoch(1_794_962_802_950_346))),
            (format!("[pid  12] 00:00:01.5 {read}"), 12, Some(Stamp::Clock(1_500_000))),
            (format!("00:00:01 {read}"), 0, Some(Stamp::Clock(1_000_000))),
            (format!("12      0.000589 {read}"), 12, Some(Stamp::Since(589))),
            (format!("1794962802.950346 (+     0.000116) {read}"), 0, Some(Stamp::Epoch(1_794_962_802_950_346))),
            (read.to_string(), 0, None),
        ] {
            assert_eq!(split(&line), Some(Line { thread, at, rest: read }), "{line}");
        }
        assert_eq!(split("hello there"), None);
    }

    #[test]
    fn a_write_that_has_only_begun_has_its_text() {
        assert_eq!(begun(r#"1, "ab\n", 3 "#), Some((b"ab\n".to_vec(), 3)));
        assert_eq!(begun(r#"1<pipe:[7]>, "ab"..., 30 "#), Some((b"ab".to_vec(), 30)));
        assert_eq!(begun(r#"1, [{iov_base="ab", iov_len=2}], 1 "#), None);
        assert_eq!(begun("0,  "), None);
    }
}
