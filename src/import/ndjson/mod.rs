//! NDJSON of `{ts, dir, raw}`: a plain tap's log.
//!
//! `raw` is what was read from a stream in one go, in whichever framing, so a message may lie across lines and a line
//! may hold several. Lines with `dir: "meta"` tell start, end of streams (`eof`) and exit, where the log has them;
//! `dir: "stderr"` is the server's stderr. Order is by position: many lines can share one time. A log that was appended to
//! has several runs: each is a session. Some taps strip the line ends off: where each `raw` is one whole JSON value they
//! are put back.

mod cut;

use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side};

use super::json::{Fields, Plain, skip_space, text_of, value_end};
use super::lines::Line;
use super::{Importer, Reading, Sureness, side_of, time};
use cut::{Cutting, Piece};

pub struct Ndjson;

/// What one line says.
#[derive(Debug, PartialEq)]
enum Said<'a> {
    Traffic(Side),
    /// `raw` is a JSON value and not a string of bytes: one whole message.
    Whole(Side, &'a [u8]),
    Stderr,
    Meta {
        event: &'a [u8],
        stream: Option<Side>,
        code: Option<i32>,
        pid: Option<u32>,
    },
}

impl Importer for Ndjson {
    fn name(&self) -> &'static str {
        "ndjson"
    }

    fn about(&self) -> &'static str {
        "one {ts, dir, raw} object a line: the bytes of a stream as they were read, in either framing"
    }

    fn knows(&self) -> Knows {
        Knows::ALL
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let mut plain = Plain::default();
        let whole_lines = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(8);
        let (mut good, mut bad) = (0, 0);
        for line in whole_lines {
            match read_line(line, &mut plain) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
        match (good, bad) {
            (0, _) => cut_first_line(head),
            // The last line of a head is often cut.
            (_, 0 | 1) => 95,
            _ => 60,
        }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let mut log = Log { untimed: lacks_times(&reading.head()), ..Log::default() };
        let mut cutting = Cutting::start(reading.input())?;
        while let Some(batch) = cutting.next() {
            for piece in batch.pieces() {
                match (piece, &mut log.open) {
                    (Piece::Usual { at, from, bytes }, Some(scribe)) if log.has_ends && !reading.has_troubles() => {
                        log.last_at = at;
                        scribe.bytes(from, at, bytes, reading.sink);
                    }
                    (Piece::Usual { at, from, bytes }, _) => log.take(at, Said::Traffic(from), bytes, 0, reading),
                    (Piece::Other(line), _) => log.line(line, reading),
                }
            }
            cutting.give_back(batch);
        }
        log.finish(reading);
        Ok(())
    }
}

/// The session of a log that is open, as far as it was read.
#[derive(Default)]
struct Log {
    plain: Plain,
    open: Option<Scribe>,
    runs: u32,
    ended: [bool; 2],
    exited: bool,
    last_at: Micros,
    /// Lines have no `ts`.
    untimed: bool,
    /// The log keeps the line ends of what it holds, or holds parts of messages.
    has_ends: bool,
}

impl Log {
    fn finish(&mut self, reading: &mut Reading<'_>) {
        if let Some(mut scribe) = self.open.take() {
            reading.finish(&mut scribe, self.last_at);
        }
        (self.ended, self.exited) = ([false; 2], false);
    }

    /// A line that is not as most lines are.
    fn line(&mut self, line: Line<'_>, reading: &mut Reading<'_>) {
        if line.text.trim_ascii().is_empty() {
            return;
        }
        if line.left_out > 0 {
            let bytes = line.text.len() as u64 + line.left_out;
            return reading.unread_line(line.number, bytes, "longer than a line may be, not read");
        }
        let mut plain = std::mem::take(&mut self.plain);
        match read_line(line.text, &mut plain) {
            Ok((at, said)) => self.take(at.unwrap_or(self.last_at), said, plain.as_bytes(), line.number, reading),
            Err(why) => reading.unread_line(line.number, line.text.len() as u64, why),
        }
        self.plain = plain;
    }

    /// What a line said; `plain` is its `raw`, unescaped.
    fn take(&mut self, at: Micros, said: Said<'_>, plain: &[u8], number: u64, reading: &mut Reading<'_>) {
        let starts = matches!(said, Said::Meta { event: b"start", .. });
        if starts && (self.exited || self.ended == [true; 2]) {
            self.finish(reading);
        }
        self.last_at = at;
        let scribe = match &mut self.open {
            Some(scribe) => scribe,
            None => {
                self.runs += 1;
                let name = (self.runs > 1).then(|| format!("#{}", self.runs));
                // Only a log that tells of starts can be trusted to tell of ends.
                let ends = matches!(said, Said::Meta { .. });
                let knows = Knows { ends, times: !self.untimed, ..Knows::ALL };
                let mut scribe = reading.session(name.as_deref(), knows, at);
                if self.untimed {
                    reading.note(
                        &mut scribe,
                        at,
                        "lines of this log have no ts: their order is known, their times are not",
                    );
                }
                self.open.insert(scribe)
            }
        };
        reading.tell_troubles(scribe, at);
        match said {
            Said::Traffic(from) => {
                self.has_ends |= !is_whole_value(plain);
                scribe.bytes(from, at, plain, reading.sink);
                if !self.has_ends {
                    scribe.bytes(from, at, b"\n", reading.sink);
                }
            }
            Said::Whole(from, body) => {
                scribe.bytes(from, at, body, reading.sink);
                scribe.bytes(from, at, b"\n", reading.sink);
            }
            Said::Stderr => scribe.stderr(at, plain, reading.sink),
            Said::Meta { event, stream, code, pid } => match (event, stream) {
                (b"start", _) => scribe.happening(at, None, Happening::Opened { pid }, reading.sink),
                (b"eof", Some(from)) => {
                    self.ended[from as usize] = true;
                    let by = if from == Side::Client { Party::Client } else { Party::Server };
                    scribe.end(from, at, by, How::Eof, reading.sink);
                }
                (b"eof", None) => {}
                (b"exit", _) => {
                    self.exited = true;
                    let exited = match code {
                        Some(code) if code < 0 => Happening::Exited { code: None, signal: Some(-code) },
                        code => Happening::Exited { code, signal: None },
                    };
                    scribe.happening(at, None, exited, reading.sink);
                }
                (other, _) => {
                    let text = format!("line {number}: meta event {:?}", text_of(other));
                    scribe.happening(at, None, Happening::Note { text }, reading.sink);
                }
            },
        }
    }
}

/// Whether traffic among the first lines has no time: then those that stand in the log say little.
fn lacks_times(head: &[u8]) -> bool {
    let mut plain = Plain::default();
    let lines = head.split(|byte| *byte == b'\n').filter_map(|line| read_line(line, &mut plain).ok());
    let mut traffic = lines.filter(|(_, said)| matches!(said, Said::Traffic(_) | Said::Whole(..)));
    traffic.any(|(at, _)| at.is_none())
}

/// One JSON object or array and nothing behind it, not even a line end.
fn is_whole_value(bytes: &[u8]) -> bool {
    let start = skip_space(bytes, 0);
    matches!(bytes.get(start), Some(b'{' | b'[')) && value_end(bytes, start) == Some(bytes.len())
}

/// The first line may be longer than the head: then its beginning must do.
fn cut_first_line(head: &[u8]) -> Sureness {
    if head.contains(&b'\n') {
        return 0;
    }
    let Some(mut fields) = Fields::of(head) else { return 0 };
    let (mut ts, mut dir) = (false, false);
    while let Some(key) = fields.next_key() {
        match key {
            b"raw" => return if ts || dir { 90 } else { 0 },
            b"ts" => ts = true,
            b"dir" => dir = true,
            _ => {}
        }
        if fields.value().is_none() {
            return 0;
        }
    }
    0
}

/// Reads one line; the unescaped `raw` goes to `plain`.
#[inline]
fn read_line<'a>(line: &'a [u8], plain: &mut Plain) -> std::result::Result<(Option<Micros>, Said<'a>), &'static str> {
    let mut fields = Fields::of(line).ok_or("not a JSON object")?;
    let (mut at, mut dir, mut whole, mut has_raw) = (None, None, None, false);
    let (mut event, mut stream, mut code, mut pid) = (None, None, None, None);
    while let Some(key) = fields.next_key() {
        match key {
            b"raw" => {
                has_raw = true;
                if !fields.text_into(plain) {
                    whole = fields.value();
                }
            }
            b"ts" => {
                let raw = fields.value().ok_or("broken JSON")?;
                at = match raw.first() {
                    Some(b'"') => time::from_text(&text_of(raw)),
                    _ => time::from_number(raw),
                };
                if at.is_none() && raw != b"null" {
                    return Err("ts is no time");
                }
            }
            _ => {
                let raw = fields.value().ok_or("broken JSON")?;
                match key {
                    b"dir" => dir = Some(raw),
                    b"event" => event = Some(raw),
                    b"stream" => stream = side_in_quotes(raw),
                    b"rc" | b"code" => code = number(raw),
                    b"pid" => pid = number(raw),
                    _ => {}
                }
            }
        }
    }
    if !fields.whole() {
        return Err("broken JSON");
    }
    let dir = dir.ok_or("no dir")?;
    if dir == b"\"meta\"" {
        let event = event.and_then(|raw| raw.strip_prefix(b"\"")?.strip_suffix(b"\"")).ok_or("meta without event")?;
        return Ok((at, Said::Meta { event, stream, code, pid }));
    }
    if !has_raw {
        return Err("no raw");
    }
    match (dir, whole) {
        (b"\"stderr\"", None) => Ok((at, Said::Stderr)),
        (dir, whole) => {
            let from = side_in_quotes(dir).ok_or("dir is neither c2s nor s2c")?;
            Ok((at, whole.map_or(Said::Traffic(from), |body| Said::Whole(from, body))))
        }
    }
}

#[inline]
fn side_in_quotes(raw: &[u8]) -> Option<Side> {
    match raw {
        b"\"c2s\"" => Some(Side::Client),
        b"\"s2c\"" => Some(Side::Server),
        _ => side_of(std::str::from_utf8(raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok()?),
    }
}

fn number<N: std::str::FromStr>(raw: &[u8]) -> Option<N> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::event::{Collected, Event};
    use crate::import::{Input, Options, read};

    fn import(text: String) -> Collected {
        let mut collected = Collected::default();
        let input =
            Input::from_reader("log", Box::new(std::io::Cursor::new(text.into_bytes())), None).expect("readable");
        read(input, &Options::default(), &mut 1, &mut collected).expect("a log");
        collected
    }

    #[test]
    fn each_run_of_an_appended_log_is_a_session() {
        let run = "{\"ts\":1,\"dir\":\"meta\",\"event\":\"start\"}\n\
             {\"ts\":2,\"dir\":\"c2s\",\"raw\":\"{\\\"id\\\":1,\\\"method\\\":\\\"a\\\"}\\n\"}\n\
             {\"ts\":3,\"dir\":\"meta\",\"event\":\"exit\",\"rc\":0}\n";
        let collected = import(run.repeat(2));
        let names: Vec<&str> = collected.sessions.iter().map(|session| session.name.as_str()).collect();
        assert_eq!(names, ["log", "log #2"]);
        assert_eq!(collected.events.iter().filter(|event| event.message().is_some() && event.session == 2).count(), 1);
    }

    #[test]
    fn a_log_without_times_knows_none() {
        let line =
            |ts: &str| format!("{{{ts}\"dir\":\"c2s\",\"raw\":\"{{\\\"id\\\":1,\\\"method\\\":\\\"a\\\"}}\\n\"}}\n");
        for (text, times) in
            [(line(""), false), (line("\"ts\":1,") + &line("\"ts\":null,"), false), (line("\"ts\":1,"), true)]
        {
            assert_eq!(import(text.clone()).sessions[0].knows.times, times, "{text}");
        }
    }

    #[test]
    fn line_ends_that_the_tap_stripped_are_put_back() {
        let line = |raw: &str| format!("{{\"ts\":1,\"dir\":\"c2s\",\"raw\":\"{raw}\"}}\n");
        let message = r#"{\"id\":1,\"method\":\"a\"}"#;
        let count = |text: String| import(text).events.iter().filter_map(Event::message).count();
        assert_eq!(count(line(message).repeat(3)), 3);
        // A log of what was read, that happened to begin with a whole message.
        assert_eq!(count(line(message) + &line(&format!("\\n{message}")) + &line("\\n")), 2);
        let framed = line("Content-Length: 23\\r\\n\\r\\n") + &line(message);
        assert_eq!(count(framed.repeat(2)), 2);
    }
}
