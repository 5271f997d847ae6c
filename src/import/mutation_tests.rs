//! Every sample, damaged in many seeded ways, through every importer: no panic, no hang, no broken promise to the sink.
//!
//! `RPCTAP_FULL=1` runs many more rounds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::event::{Event, Session, StreamId};

/// Holds importers to what [`Sink`] asks of them, and to memory in proportion to the file.
#[derive(Default)]
struct Checking {
    sessions: HashMap<SessionKey, u64>,
    lengths: HashMap<(SessionKey, StreamId), u64>,
    events: u64,
    bytes: u64,
}

impl Sink for Checking {
    fn session(&mut self, session: &Session) {
        assert!(self.sessions.insert(session.key, 0).is_none(), "session {} is told twice", session.key);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        assert!(self.sessions.contains_key(&session), "bytes before their session");
        *self.lengths.entry((session, stream)).or_default() += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
    }

    fn event(&mut self, event: Event) {
        let last = self.sessions.get_mut(&event.session).expect("an event before its session");
        *last += 1;
        assert_eq!(event.seq, *last, "events are numbered without gaps");
        if let Some(span) = event.span().filter(|span| span.len > 0) {
            let length = self.lengths.get(&(event.session, span.stream)).copied().unwrap_or(0);
            assert!(
                span.start.checked_add(span.len).is_some_and(|end| end <= length),
                "{event:?} points past its stream"
            );
        }
        self.events += 1;
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.roll(4) {
        let len = bytes.len();
        let at = dice.roll(len.max(1));
        let run = dice.roll(200).min(len - at.min(len));
        match dice.roll(8) {
            0 | 1 if len > 0 => bytes[at] ^= 1 << dice.roll(8),
            2 => bytes.truncate(at),
            3 => {
                let copy = bytes[at.min(len)..at.min(len) + run].to_vec();
                let to = dice.roll(len + 1);
                bytes.splice(to..to, copy);
            }
            4 => {
                let noise: Vec<u8> = (0..dice.roll(40)).map(|_| dice.roll(256) as u8).collect();
                bytes.splice(at.min(len)..at.min(len), noise);
            }
            5 => {
                bytes.drain(at.min(len)..at.min(len) + run);
            }
            // Numbers are what lengths and times are made of.
            6 => {
                let digits: Vec<usize> = (at..len).filter(|at| bytes[*at].is_ascii_digit()).take(20).collect();
                for digit in digits {
                    bytes[digit] = b'0' + dice.roll(10) as u8;
                }
            }
            _ => {
                let end = (at + 1 + dice.roll(8)).min(len);
                for byte in &mut bytes[at.min(end)..end] {
                    *byte = [0, 0xff, b'"', b'\\', b'{', b'}', b'\n', b'['][dice.roll(8)];
                }
            }
        }
    }
}

fn samples() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let mut files = files_of(&folder).expect("the samples are there");
    files.retain(|path| path.extension().is_none_or(|ending| ending != "md"));
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("readable"))).collect()
}

fn try_reading(name: &str, bytes: &[u8], format: Option<&str>) -> Checking {
    let mut checking = Checking::default();
    let options = Options { format: format.map(str::to_string), ..Options::default() };
    if let Ok(input) = Input::from_reader(name, Box::new(std::io::Cursor::new(bytes.to_vec())), None) {
        let _ = read(input, &options, &mut 1, &mut checking);
    }
    // Rebuilt messages and base64 grow a little, nothing grows without bound.
    let most = bytes.len() as u64 * 40 + 100_000;
    assert!(checking.bytes <= most, "{name}: {} bytes out of {}", checking.bytes, bytes.len());
    assert!(checking.events <= most, "{name}: {} events out of {} bytes", checking.events, bytes.len());
    checking
}

fn rounds(few: usize, many: usize) -> usize {
    if std::env::var_os("RPCTAP_FULL").is_some() { many } else { few }
}

#[test]
fn damaged_samples_end_in_events_or_one_error() {
    for (path, bytes) in samples() {
        let name = path.display().to_string();
        assert!(try_reading(&name, &bytes, None).events > 0, "{name} gives no events");
        let mut dice = Dice(0x5eed_0000 + bytes.len() as u64);
        // Long samples are slow in a debug build, and their beginnings hold every kind of line.
        let start = &bytes[..bytes.len().min(40_000)];
        for _ in 0..rounds(25, 2_000) {
            let mut damaged = start.to_vec();
            damage(&mut damaged, &mut dice);
            try_reading(&name, &damaged, None);
        }
    }
}

#[test]
fn every_importer_survives_every_sample() {
    let all = samples();
    for importer in IMPORTERS {
        for (path, bytes) in &all {
            let mut dice = Dice(0xfeed_0000 + bytes.len() as u64);
            let start = &bytes[..bytes.len().min(20_000)];
            try_reading(&path.display().to_string(), start, Some(importer.name()));
            for _ in 0..rounds(2, 100) {
                let mut damaged = start.to_vec();
                damage(&mut damaged, &mut dice);
                try_reading(&path.display().to_string(), &damaged, Some(importer.name()));
            }
        }
    }
}

#[test]
fn every_cut_of_a_short_sample_is_survived() {
    for name in ["json-rpc.jsonl", "mcpsnoop.jsonl", "mcp-inspector.json", "claude-desktop-bare.log", "vscode-mcp.log"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name);
        let bytes = std::fs::read(path).expect("the sample is there");
        for end in (0..bytes.len()).step_by(rounds(7, 1)) {
            try_reading(name, &bytes[..end], None);
        }
    }
}
