//! NDJSON of `{ts, dir, raw}`: a plain tap's log.
//!
//! `raw` is what was read from a stream in one go, in whichever framing, so a message may lie across lines and a line
//! may hold several. Lines with `dir: "meta"` tell start, end of streams (`eof`) and exit, where the log has them;
//! `dir: "stderr"` is the server's stderr. Order is by position: many lines can share one time.

use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side};

use super::json::{Fields, Plain, text_of};
use super::{Importer, Reading, Sureness, side_of, time};

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
        let mut lines = reading.lines();
        let mut plain = Plain::default();
        let mut open: Option<Scribe> = None;
        let mut last_at: Micros = 0;
        while let Some(line) = lines.next_line() {
            if let (Some((at, from)), Some(scribe)) = (read_usual(line.text, &mut plain), &mut open)
                && line.left_out == 0
                && !reading.has_troubles()
            {
                last_at = at;
                scribe.bytes(from, at, plain.as_bytes(), reading.sink);
                continue;
            }
            if line.text.trim_ascii().is_empty() {
                continue;
            }
            if line.left_out > 0 {
                let bytes = line.text.len() as u64 + line.left_out;
                reading.unread_line(line.number, bytes, "longer than a line may be, not read");
                continue;
            }
            let (at, said) = match read_line(line.text, &mut plain) {
                Ok(read) => read,
                Err(why) => {
                    reading.unread_line(line.number, line.text.len() as u64, why);
                    continue;
                }
            };
            let at = at.unwrap_or(last_at);
            last_at = at;
            let scribe = match &mut open {
                Some(scribe) => scribe,
                None => {
                    // Only a log that tells of starts can be trusted to tell of ends.
                    let ends = matches!(said, Said::Meta { .. });
                    open.insert(reading.session(None, Knows { ends, ..Knows::ALL }, at))
                }
            };
            reading.tell_troubles(scribe, at);
            match said {
                Said::Traffic(from) => scribe.bytes(from, at, plain.as_bytes(), reading.sink),
                Said::Whole(from, body) => {
                    scribe.bytes(from, at, body, reading.sink);
                    scribe.bytes(from, at, b"\n", reading.sink);
                }
                Said::Stderr => scribe.stderr(at, plain.as_bytes(), reading.sink),
                Said::Meta { event, stream, code, pid } => match (event, stream) {
                    (b"start", _) => scribe.happening(at, None, Happening::Opened { pid }, reading.sink),
                    (b"eof", Some(from)) => {
                        let by = if from == Side::Client { Party::Client } else { Party::Server };
                        scribe.end(from, at, by, How::Eof, reading.sink);
                    }
                    (b"eof", None) => {}
                    (b"exit", _) => {
                        let exited = match code {
                            Some(code) if code < 0 => Happening::Exited { code: None, signal: Some(-code) },
                            code => Happening::Exited { code, signal: None },
                        };
                        scribe.happening(at, None, exited, reading.sink);
                    }
                    (other, _) => {
                        let text = format!("line {}: meta event {:?}", line.number, text_of(other));
                        scribe.happening(at, None, Happening::Note { text }, reading.sink);
                    }
                },
            }
        }
        if let Some(mut scribe) = open {
            reading.finish(&mut scribe, last_at);
        }
        Ok(())
    }
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

/// The one form nearly all lines have, `{"ts": 1.5, "dir": "c2s", "raw": "…"}`, with blanks or without; `None` for any other.
#[inline]
fn read_usual(line: &[u8], plain: &mut Plain) -> Option<(Micros, Side)> {
    let rest = line.strip_prefix(b"{\"ts\":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let comma = rest.iter().take(24).position(|byte| *byte == b',')?;
    let at = time::from_number(&rest[..comma])?;
    let rest = &rest[comma + 1..];
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"dir\":")?;
    let (dir, rest) = rest.strip_prefix(b" ").unwrap_or(rest).split_first_chunk::<6>()?;
    let from = match dir {
        b"\"c2s\"," => Side::Client,
        b"\"s2c\"," => Side::Server,
        _ => return None,
    };
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"raw\":")?;
    let text = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"")?;
    let end = plain.fill(text, 0)?;
    (&text[end..] == b"}").then_some((at, from))
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
