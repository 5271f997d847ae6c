//! `strace -f -e trace=read,write,… -s N` of a stdio server → its traffic.
//!
//! Reads of descriptor 0 are the client's bytes, writes to 1 the server's, writes to 2 stderr. A call that another
//! thread interrupted (`<unfinished ...>`, `<... read resumed>`) is joined by thread. Strings cut by `-s` are told as
//! lost bytes. With `-ttt` times are exact; with `-t` or `-tt` they have no date; without, there are none.

use std::collections::HashMap;

use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side};

use super::{Importer, Reading, Sureness, time};

pub struct Strace;

/// Threads with an unfinished call at one time: far more than a traced server has.
const MOST_THREADS: usize = 10_000;

#[derive(Debug, PartialEq)]
struct Line<'a> {
    thread: u64,
    at: Option<Stamp>,
    rest: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stamp {
    /// `-ttt`.
    Epoch(Micros),
    /// `-t`, `-tt`: since midnight.
    Clock(Micros),
}

impl Importer for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn about(&self) -> &'static str {
        "strace -f -ttt -e trace=read,write -s 1000000 of a stdio server"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = String::from_utf8_lossy(head);
        let lines: Vec<&str> = text.lines().take(200).collect();
        let calls = lines.iter().filter(|line| split(line).is_some_and(|line| call_name(line.rest).is_some())).count();
        match calls * 2 > lines.len() && calls > 0 {
            true => 90,
            false => 0,
        }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut lines = reading.lines();
        let mut state = State::default();
        while let Some(line) = lines.next_line() {
            let text = String::from_utf8_lossy(line.text);
            if text.trim().is_empty() || is_talk(&text) {
                continue;
            }
            let Some(parts) = split(&text) else {
                reading.unread_line(line.number, line.text.len() as u64, "not a line of strace");
                continue;
            };
            if line.left_out > 0 {
                let bytes = line.text.len() as u64 + line.left_out;
                reading.unread_line(line.number, bytes, "longer than a line may be, not read");
                continue;
            }
            state.line(reading, &parts, line.number);
        }
        if let Some(mut scribe) = state.scribe.take() {
            reading.finish(&mut scribe, state.last);
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    scribe: Option<Scribe>,
    unfinished: HashMap<u64, String>,
    days: i64,
    last_clock: Micros,
    last: Micros,
    ended: [bool; 2],
    threads: HashMap<u64, ()>,
}

impl State {
    fn line(&mut self, reading: &mut Reading<'_>, line: &Line<'_>, number: u64) {
        let at = self.time(line.at);
        if self.threads.len() < MOST_THREADS {
            self.threads.insert(line.thread, ());
        }
        if let Some(end) = line.rest.strip_prefix("+++ ") {
            self.exited(reading, line, at, end);
            return;
        }
        if line.rest.starts_with("--- ") {
            return;
        }
        if let Some(begun) = line.rest.strip_suffix("<unfinished ...>") {
            if self.unfinished.len() < MOST_THREADS || self.unfinished.contains_key(&line.thread) {
                self.unfinished.insert(line.thread, begun.to_string());
            }
            return;
        }
        if let Some(resumed) = line.rest.strip_prefix("<... ") {
            let Some((_, tail)) = resumed.split_once(" resumed>") else {
                reading.unread_line(number, line.rest.len() as u64, "a resumed call in no known form");
                return;
            };
            // Without its beginning (the trace was attached in mid-call) the descriptor is not known.
            match self.unfinished.remove(&line.thread) {
                Some(begun) => {
                    let whole = begun + tail;
                    self.call(reading, &whole, at, false, number);
                }
                None if tail.contains('"') => {
                    reading.unread_line(number, line.rest.len() as u64, "a call resumed that began before the trace");
                }
                None => {}
            }
            return;
        }
        self.call(reading, line.rest, at, true, number);
    }

    fn time(&mut self, stamp: Option<Stamp>) -> Micros {
        match stamp {
            Some(Stamp::Epoch(at)) => self.last = at,
            Some(Stamp::Clock(clock)) => {
                if self.last_clock - clock > time::DAY / 2 {
                    self.days += 1;
                }
                self.last_clock = clock;
                self.last = self.days * time::DAY + clock;
            }
            None => self.last += 1,
        }
        self.last
    }

    fn call(&mut self, reading: &mut Reading<'_>, text: &str, at: Micros, timed_at_start: bool, number: u64) {
        let Some(name) = call_name(text) else {
            reading.unread_line(number, text.len() as u64, "not a call strace writes");
            return;
        };
        let reads = match name {
            "read" | "readv" | "recvfrom" | "recvmsg" | "recv" | "pread64" => true,
            "write" | "writev" | "sendto" | "sendmsg" | "send" | "pwrite64" => false,
            _ => return,
        };
        let arguments = &text[name.len() + 1..];
        let digits = arguments.find(|c: char| !c.is_ascii_digit()).unwrap_or(arguments.len());
        let Ok(descriptor) = arguments[..digits].parse::<u32>() else { return };
        let from = match (descriptor, reads) {
            (0, true) => Some(Side::Client),
            (1, false) => Some(Side::Server),
            (2, false) => None,
            // A socket on descriptor 0 or 1 carries both ways.
            _ => return,
        };
        let Some((bytes, cut, result, took)) = outcome(arguments) else {
            reading.unread_line(number, text.len() as u64, "a call whose text or result cannot be read");
            return;
        };
        // A read that waited is printed with the time it began; its bytes came when it ended.
        let at = if reads && timed_at_start { at.saturating_add(took) } else { at };
        if result < 0 {
            return;
        }
        let timed = self.last != 0 && self.days == 0 && self.last > 10 * 365 * time::DAY;
        if self.scribe.is_none() {
            let knows = Knows { times: timed || self.last_clock > 0, ..Knows::ALL };
            let mut scribe = reading.session(None, knows, at);
            if !timed {
                let text = if self.last_clock > 0 {
                    "the trace has times of day without a date; strace -ttt has both"
                } else {
                    "the trace has no times; strace -ttt writes them"
                };
                reading.note(&mut scribe, at, text);
            }
            self.scribe = Some(scribe);
        }
        let Some(scribe) = &mut self.scribe else { return };
        reading.tell_troubles(scribe, at);
        let Some(from) = from else {
            scribe.stderr(at, &bytes, reading.sink);
            return;
        };
        if result == 0 && reads && bytes.is_empty() {
            if !self.ended[from as usize] {
                self.ended[from as usize] = true;
                scribe.end(from, at, Party::Client, How::Eof, reading.sink);
            }
            return;
        }
        let count = (result as u64).min(if cut { u64::MAX } else { bytes.len() as u64 });
        let shown = &bytes[..bytes.len().min(count as usize)];
        scribe.bytes(from, at, shown, reading.sink);
        let missing = count - shown.len() as u64;
        if missing > 0 {
            let why = format!("line {number}: strace cut the text (a greater -s keeps it)");
            scribe.cut(from, at, missing, &why, reading.sink);
        }
    }

    /// `+++ exited with 0 +++`, `+++ killed by SIGKILL (core dumped) +++`: of the last thread, the process's own.
    fn exited(&mut self, reading: &mut Reading<'_>, line: &Line<'_>, at: Micros, end: &str) {
        self.threads.remove(&line.thread);
        self.unfinished.remove(&line.thread);
        if !self.threads.is_empty() {
            return;
        }
        let Some(scribe) = &mut self.scribe else { return };
        let exited = if let Some(code) = end.strip_prefix("exited with ") {
            Happening::Exited { code: code.split(' ').next().and_then(|code| code.parse().ok()), signal: None }
        } else if let Some(signal) = end.strip_prefix("killed by ") {
            Happening::Exited { code: None, signal: signal.split(' ').next().and_then(signal_number) }
        } else {
            return;
        };
        if !self.ended[Side::Server as usize] {
            self.ended[Side::Server as usize] = true;
            scribe.end(Side::Server, at, Party::Server, How::Eof, reading.sink);
        }
        scribe.happening(at, None, exited, reading.sink);
    }
}

/// What strace says of itself: `strace: Process 12 attached with 3 threads`, `Process 12 detached`.
fn is_talk(line: &str) -> bool {
    let of_process = line.starts_with("Process ") || line.contains("] Process ");
    line.starts_with("strace: ") || of_process && (line.contains(" attached") || line.contains(" detached"))
}

/// Takes `[pid 123]` or `123`, and the time, off the front.
fn split(line: &str) -> Option<Line<'_>> {
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
            time::from_number(word.as_bytes()).map(Stamp::Epoch)
        };
        at?;
        rest = after.trim_start();
    }
    let known = rest.starts_with("+++ ") || rest.starts_with("--- ") || rest.starts_with("<... ");
    (known || call_name(rest).is_some()).then_some(Line { thread, at, rest })
}

fn call_name(text: &str) -> Option<&str> {
    if text.starts_with("<... ") || text.starts_with("+++ exited") {
        return Some("");
    }
    let end = text.find('(')?;
    let name = &text[..end];
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

/// All texts among the arguments joined, whether one was cut, the call's result and how long it took.
fn outcome(arguments: &str) -> Option<(Vec<u8>, bool, i64, Micros)> {
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
    Some((text, cut, result, took.unwrap_or(0)))
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

fn signal_number(name: &str) -> Option<i32> {
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
        let (text, cut, result, took) =
            outcome(r#"0<pipe:[12]>, "a\"b)\n\0\177\x41"..., 8192) = 100 <0.003140>"#).expect("a call");
        assert_eq!(text, b"a\"b)\n\0\x7fA");
        assert!(cut);
        assert_eq!((result, took), (100, 3_140));
        let (text, cut, result, _) =
            outcome(r#"1, [{iov_base="ab", iov_len=2}, {iov_base="c", iov_len=1}], 2) = 3"#).expect("a call");
        assert_eq!((text.as_slice(), cut, result), (&b"abc"[..], false, 3));
        assert_eq!(outcome(r#"0, 0x7ffe, 10) = -1 EAGAIN (Resource temporarily unavailable)"#).map(|o| o.2), Some(-1));
        assert!(outcome(r#"0, "abc"#).is_none() && outcome("0, 1").is_none());
    }

    #[test]
    fn every_way_of_writing_thread_and_time() {
        let read = "read(0, \"\", 1) = 0";
        for (line, thread, at) in [
            (format!("12 1794962802.950346 {read}"), 12, Some(Stamp::Epoch(1_794_962_802_950_346))),
            (format!("[pid  12] 00:00:01.5 {read}"), 12, Some(Stamp::Clock(1_500_000))),
            (format!("00:00:01 {read}"), 0, Some(Stamp::Clock(1_000_000))),
            (read.to_string(), 0, None),
        ] {
            assert_eq!(split(&line), Some(Line { thread, at, rest: read }), "{line}");
        }
        assert_eq!(split("hello there"), None);
    }
}
