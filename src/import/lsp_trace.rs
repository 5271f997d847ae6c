//! VS Code's trace of a language server, as text (`"trace.server": "verbose"` or `"messages"`).
//!
//! An entry is a head (`[Trace - 12:45:41 AM] Sending request 'initialize - (0)'.`) and, where the trace is verbose,
//! the payload below it. Messages are put together again from these parts. The clock has seconds and no date; the
//! durations that stand in the entries (`in 227ms`) place answers more finely within their second. vscode-languageclient
//! 11 writes `2026-11-18 05:35:20.254 [trace] Sending …` instead, with the date; in a log channel, the older form stands behind
//! such a time.

use std::collections::HashMap;

use crate::error::Result;
use crate::event::{Happening, Knows, Micros, Side};

use super::json::value_end;
use super::lines::MOST_LINE_BYTES;
use super::runs::{self, Runs};
use super::{Importer, Reading, Sureness, time};

pub struct LspTrace;

const NOTE: &str =
    "the trace has a clock of seconds without a date, and messages are put together again from its parts";
const DATED_NOTE: &str = "the trace has local time, and messages are put together again from its parts";

/// Requests whose time is remembered, to place their answers: far more than are ever open.
const MOST_OPEN: usize = 10_000;

struct Head<'a> {
    stamp: Stamp,
    from: Side,
    what: What<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stamp {
    /// Since midnight, in whole seconds.
    Clock(Micros),
    /// In milliseconds.
    Dated(Micros),
}

enum What<'a> {
    Request { method: &'a str, id: &'a str },
    Notification { method: &'a str },
    Response { id: &'a str, after_ms: Option<i64>, failed: Option<(&'a str, Option<i64>)> },
}

/// An entry whose payload is still to come.
struct Pending {
    at: Micros,
    from: Side,
    method: Option<String>,
    id: Option<String>,
    /// The message, and the code once its end was read: a message may have several lines.
    failed: Option<(String, Option<i64>)>,
    payload: String,
    number: u64,
}

impl Importer for LspTrace {
    fn name(&self) -> &'static str {
        "lsp-trace"
    }

    fn about(&self) -> &'static str {
        "VS Code's language server trace as text"
    }

    fn knows(&self) -> Knows {
        Knows { ends: false, ..Knows::ALL }
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = String::from_utf8_lossy(head);
        if text.lines().any(|line| read_head(line).is_some()) { 95 } else { 0 }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let head = reading.head();
        let head = String::from_utf8_lossy(&head);
        let payload = head.lines().any(|line| is_payload(line).is_some());
        let dated = head.lines().find_map(read_head).is_some_and(|head| matches!(head.stamp, Stamp::Dated(_)));
        let notes = [if dated { DATED_NOTE } else { NOTE }, "the trace has no payloads (not verbose)"];
        let notes = if payload { &notes[..1] } else { &notes[..] };
        let mut runs = Runs::new(None, Knows { payload, ..self.knows() }, notes);
        let mut clock = Clock::default();
        let mut asked: HashMap<(Side, String), Micros> = HashMap::new();
        let mut pending: Option<Pending> = None;
        let mut others = 0u64;
        let mut lines = reading.lines();
        while let Some(line) = lines.next_line() {
            let text = String::from_utf8_lossy(line.text);
            if let Some(head) = read_head(&text) {
                tell(&mut pending, &mut runs, reading);
                let (method, id, failed, asked_at) = match head.what {
                    What::Request { method, id } => (Some(method), Some(id), None, None),
                    What::Notification { method } => (Some(method), None, None, None),
                    What::Response { id, after_ms, failed } => {
                        let asked_at = asked.remove(&(head.from.other(), id.to_string()));
                        let since = asked_at.zip(after_ms).map(|(at, ms)| at.saturating_add(ms.saturating_mul(1_000)));
                        (None, Some(id), failed, since)
                    }
                };
                let at = clock.at(head.stamp, asked_at);
                if let (Some(_), Some(id)) = (method, id)
                    && asked.len() < MOST_OPEN
                {
                    asked.insert((head.from, id.to_string()), at);
                }
                pending = Some(Pending {
                    at,
                    from: head.from,
                    method: method.map(str::to_string),
                    id: id.map(runs::printed_id),
                    failed: failed.map(|(message, code)| (message.to_string(), code)),
                    payload: String::new(),
                    number: line.number,
                });
            } else if let Some(Pending { failed: Some((message, code @ None)), payload, .. }) = &mut pending
                && payload.is_empty()
                && is_payload(&text).is_none()
                && message.len() + text.len() <= MOST_LINE_BYTES
            {
                message.push('\n');
                message.push_str(&text);
                if let Some((words, found)) = with_code(message) {
                    *code = Some(found);
                    message.truncate(words);
                }
            } else if let Some(waiting) = &mut pending
                && waiting.payload.len() + text.len() <= MOST_LINE_BYTES
                && (!waiting.payload.is_empty() || is_payload(&text).is_some())
                && !complete(&waiting.payload)
            {
                let part = if waiting.payload.is_empty() { is_payload(&text).unwrap_or("") } else { &text };
                waiting.payload.push_str(part);
                waiting.payload.push('\n');
            } else if !text.trim().is_empty() {
                others += 1;
            }
        }
        tell(&mut pending, &mut runs, reading);
        if others > 0 && runs.is_open() {
            let text = format!("{others} lines of the log are no trace entries and were passed over");
            let at = runs.last_at().unwrap_or(0);
            runs.happening(reading, at, Happening::Note { text });
        }
        runs.finish(reading);
        Ok(())
    }
}

/// Makes a rising time of a clock that knows neither the day nor parts of a second.
#[derive(Default)]
struct Clock {
    days: i64,
    last_clock: Micros,
    last: Micros,
}

impl Clock {
    fn at(&mut self, stamp: Stamp, wanted: Option<Micros>) -> Micros {
        let clock = match stamp {
            Stamp::Clock(clock) => clock,
            Stamp::Dated(at) => {
                let within = wanted.map_or(at, |wanted| wanted.clamp(at, at + 999));
                self.last = self.last.max(within);
                return self.last;
            }
        };
        // Half a day back can only be midnight; less is a clock that was set.
        if self.last_clock - clock > time::DAY / 2 {
            self.days += 1;
        }
        self.last_clock = clock;
        let second = self.days * time::DAY + clock;
        let within = wanted.map_or(second, |wanted| wanted.clamp(second, second + time::SECOND - 1));
        self.last = self.last.max(within);
        self.last
    }
}

fn tell(pending: &mut Option<Pending>, runs: &mut Runs, reading: &mut Reading<'_>) {
    let Some(entry) = pending.take() else { return };
    let text = entry.payload.trim();
    let payload = (!text.is_empty() && !is_absent(text)).then(|| match value_end(text.as_bytes(), 0) {
        Some(end) => &text[..end],
        None => text,
    });
    if payload.is_some_and(|payload| serde_json::from_str::<serde::de::IgnoredAny>(payload).is_err()) {
        let why = "the payload of this entry is no JSON, and left out";
        reading.unread_line(entry.number, text.len() as u64, why);
        let body = envelope_of(&entry, None);
        runs.message(reading, entry.from, entry.at, &body);
        return;
    }
    let body = envelope_of(&entry, payload);
    runs.message(reading, entry.from, entry.at, &body);
}

fn envelope_of(entry: &Pending, payload: Option<&str>) -> Vec<u8> {
    match (&entry.method, &entry.id, &entry.failed) {
        (Some(method), id, _) => runs::call(id.as_deref(), method, payload),
        (None, Some(id), Some((message, code))) => runs::error(id, code.unwrap_or(0), message.trim_end(), payload),
        (None, id, _) => runs::result(id.as_deref().unwrap_or("null"), payload.unwrap_or("null")),
    }
}

/// The beginning of a payload: what stands behind its label.
fn is_payload(line: &str) -> Option<&str> {
    let line = dated(line).map_or(line, |(_, rest)| rest);
    for label in ["Params: ", "Result: ", "Error data: "] {
        if let Some(rest) = line.strip_prefix(label) {
            return Some(rest);
        }
    }
    is_absent(line).then_some(line)
}

fn is_absent(text: &str) -> bool {
    text.starts_with("No result returned") || text.starts_with("No parameters provided")
}

fn complete(payload: &str) -> bool {
    let text = payload.trim_start();
    // Only a bracket at the start of a line can end a pretty-printed value, so most lines need no look at the whole.
    let last = payload.trim_end().rsplit('\n').next().unwrap_or("");
    let may_end = !text.starts_with(['{', '[']) || last.starts_with(['}', ']']) || !text.trim_end().contains('\n');
    !text.is_empty() && (is_absent(text) || (may_end && value_end(text.as_bytes(), 0).is_some()))
}

/// `[Trace - 12:45:41 AM] Sending request 'initialize - (0)'.`; the clock in whatever the user's language makes of it.
fn read_head(line: &str) -> Option<Head<'_>> {
    let (at, line) = dated(line).map_or((None, line), |(at, rest)| (Some(at), rest));
    let (stamp, rest) = match (line.strip_prefix("[Trace - "), at) {
        (Some(line), at) => {
            let (clock, rest) = line.split_once("] ")?;
            let clock = read_clock(clock)?;
            (at.map_or(Stamp::Clock(clock), Stamp::Dated), rest)
        }
        (None, Some(at)) => (Stamp::Dated(at), line),
        (None, None) => return None,
    };
    let (from, rest) = match rest.split_once(' ')? {
        ("Sending", rest) => (Side::Client, rest),
        ("Received", rest) => (Side::Server, rest),
        _ => return None,
    };
    let (kind, rest) = rest.split_once(" '")?;
    let close = rest.rfind("'.").or_else(|| rest.find("' in ")).or_else(|| rest.rfind('\''))?;
    // `rfind` may meet a quote inside an error message: the name ends at the first quote behind its id.
    let close = rest.find(")'").map_or(close, |at| at + 1);
    let (name, tail) = (&rest[..close], &rest[close..]);
    let numbered = || name.strip_suffix(')')?.rsplit_once(" - (");
    let what = match kind {
        "notification" => What::Notification { method: name },
        "request" => {
            let (method, id) = numbered()?;
            What::Request { method, id }
        }
        "response" => {
            let (_, id) = numbered()?;
            let after_ms = tail
                .split_once(" in ")
                .or_else(|| tail.split_once(" took "))
                .and_then(|(_, rest)| rest.split_once("ms").and_then(|(number, _)| number.trim().parse().ok()));
            What::Response { id, after_ms, failed: failure(tail) }
        }
        _ => return None,
    };
    Some(Head { stamp, from, what })
}

/// The time that a log channel writes before its entries, as `2026-11-18 05:35:20.254 [info] `.
fn dated(line: &str) -> Option<(Micros, &str)> {
    let (stamp, rest) = line.split_once(" [")?;
    let (level, rest) = rest.split_once("] ")?;
    matches!(level, "trace" | "debug" | "info").then(|| Some((time::from_text(stamp)?, rest)))?
}

/// `Request failed: request cancelled (-32800).`, without the code where the message goes on below.
fn failure(tail: &str) -> Option<(&str, Option<i64>)> {
    let (_, rest) = tail.split_once("Request failed: ").or_else(|| tail.split_once("Responding failed: "))?;
    Some(with_code(rest).map_or((rest, None), |(words, code)| (&rest[..words], Some(code))))
}

/// How long the message is that stands before its code, and the code.
fn with_code(text: &str) -> Option<(usize, i64)> {
    let (message, code) = text.trim_end().trim_end_matches('.').rsplit_once(" (")?;
    Some((message.len(), code.strip_suffix(')')?.parse().ok()?))
}

fn read_clock(stamp: &str) -> Option<Micros> {
    if let Some(at) = time::from_text(stamp) {
        return Some(at.rem_euclid(time::DAY));
    }
    // Danish, Finnish, Indonesian and others write `14.12.11`.
    let colons = stamp.replace('.', ":");
    let between_dots = !stamp.contains(':') && stamp.starts_with(|c: char| c.is_ascii_digit());
    let stamp = if between_dots { colons.as_str() } else { stamp };
    let digits = stamp.find(|c: char| c.is_ascii_digit())?;
    let (mut clock, rest) = time::clock(&stamp.as_bytes()[digits..])?;
    let rest = String::from_utf8_lossy(rest).to_lowercase();
    let half = 12 * 3_600 * time::SECOND;
    let after_noon = rest.contains("pm") || rest.contains("p.m") || stamp.contains("下午") || stamp.contains("午後");
    let before_noon = rest.contains("am") || rest.contains("a.m") || stamp.contains("上午") || stamp.contains("午前");
    if after_noon && clock < half {
        clock += half;
    } else if before_noon && clock >= half {
        clock -= half;
    }
    Some(clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_many_tongues() {
        let second = time::SECOND;
        let noon = 12 * 3600 * second;
        for (stamp, wanted) in [
            ("12:45:41 AM", 45 * 60 + 41),
            ("12:45:41\u{202f}PM", 12 * 3600 + 45 * 60 + 41),
            ("1:02:03 PM", 13 * 3600 + 123),
            ("13:02:03", 13 * 3600 + 123),
            ("下午1:02:03", 13 * 3600 + 123),
            ("2026-11-18 00:00:07.000", 7),
            ("13.02.03", 13 * 3600 + 123),
        ] {
            assert_eq!(read_clock(stamp), Some(wanted * second), "{stamp}");
        }
        assert_eq!(read_clock("soon"), None);
        let mut clock = Clock::default();
        let (five, six) = (Stamp::Clock(noon + 5 * second), Stamp::Clock(noon + 6 * second));
        assert_eq!(clock.at(five, None), noon + 5 * second);
        assert_eq!(clock.at(five, Some(noon)), noon + 5 * second);
        assert_eq!(clock.at(six, Some(noon + 6 * second + 7)), noon + 6 * second + 7);
        assert_eq!(clock.at(six, None), noon + 6 * second + 7);
        assert_eq!(clock.at(Stamp::Clock(0), None), time::DAY);
    }

    #[test]
    fn heads_with_quotes_in_messages() {
        let line =
            "[Trace - 12:45:43 AM] Received response 'x/y - (3)' in 1ms. Request failed: it's 'so' (bad). (-32601).";
        let head = read_head(line).expect("a head");
        assert!(matches!(
            head.what,
            What::Response { id: "3", after_ms: Some(1), failed: Some(("it's 'so' (bad).", Some(-32601))) }
        ));
        let line = "[Trace - 12:45:43 AM] Sending notification '$/cancelRequest'.";
        assert!(matches!(read_head(line).expect("a head").what, What::Notification { method: "$/cancelRequest" }));
    }

    fn errors(text: &'static str) -> Vec<(Micros, Option<i64>)> {
        use crate::event::{Collected, Event};
        use crate::import::{Input, Options, read};
        let mut collected = Collected::default();
        let input = Input::from_reader("log", Box::new(text.as_bytes()), None).expect("readable");
        assert_eq!(read(input, &Options::default(), &mut 1, &mut collected).expect("a trace"), "lsp-trace");
        let answers = collected.events.iter().filter(|event| Event::message(event).is_some_and(|m| m.1.is_response()));
        let code = |event: &Event| event.message()?.1.marks.number(crate::rpc::Mark::ErrorCode).map(|code| code as i64);
        answers.map(|event| (event.at % time::SECOND, code(event))).collect()
    }

    #[test]
    fn a_failure_with_a_message_of_two_lines_is_a_failure() {
        let told = errors(
            "[Trace - 5:35:19 AM] Sending request 'fail - (2)'.\nParams: {}\n\n\n\
             [Trace - 5:35:19 AM] Received response 'fail - (2)' in 0ms. Request failed: it's 'bad'\n\
             second line (x). (-32603).\nError data: {\n    \"why\": 1\n}\n\n\n\
             [Trace - 5:35:19 AM] Sending request 'fail - (3)'.\nParams: {}\n\n\n\
             [Trace - 5:35:19 AM] Received response 'fail - (3)' in 0ms. Request failed: cut off\n",
        );
        assert_eq!(told, [(0, Some(-32603)), (0, Some(0))]);
    }

    #[test]
    fn behind_the_time_of_a_log_channel_the_older_form_is_read() {
        let before = "2026-11-18 05:35:20.254 [info] ";
        for (payload, clock) in [("", "5:35:20 AM"), (before, "05.35.20")] {
            let text = format!(
                "{before}[Trace - {clock}] Sending request 'a - (0)'.\n{payload}Params: {{\n    \"x\": 1\n}}\n\n\n\
                 2026-11-18 05:35:20.355 [info] [Trace - {clock}] Received response 'a - (0)' in 101ms. Request failed: \
                 no (-32601).\n{before}something else\n"
            );
            assert_eq!(errors(text.leak()), [(355_000, Some(-32601))]);
        }
    }

    #[test]
    fn the_newer_form_has_the_date() {
        let told = errors(
            "2026-11-18 05:35:20.254 [trace] Sending request 'a - (0)'.\nParams: {}\n\n\n\
             2026-11-18 05:35:20.355 [trace] Received response 'a - (0)' in 101ms. Request failed: no (-32601).\n",
        );
        assert_eq!(told, [(355_000, Some(-32601))]);
    }
}
