//! Bare JSON-RPC: messages one a line or framed with Content-Length, and nothing else.
//!
//! Such a file has no times. With `--direction` it is what one side sent; without, both sides are mixed and who sent
//! what is guessed: an answer comes from the other side than its request, and the rest by who usually sends it.
//! Two files of a `tee` pair are read by [`read_pair`]: both directions known, still no times.

use std::collections::{HashMap, VecDeque};
use std::io::Read;

use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Happening, Knows, Micros, Side, Sink};
use crate::wire::{Piece, sniff::Sniff};

use super::json::Fields;
use super::reading::Reading;
use super::{Importer, Input, Options, Sureness};

pub struct Bare;

const KNOWS: Knows = Knows { times: false, direction: true, ids: true, payload: true, ends: false };

/// How much of a message is kept to see what it is; the rest only passes through.
const PEEK_BYTES: usize = 64 * 1024;

/// Ids remembered to tell whose answer an answer is.
const MOST_IDS: usize = 200_000;

impl Importer for Bare {
    fn name(&self) -> &'static str {
        "json-rpc"
    }

    fn about(&self) -> &'static str {
        "bare JSON-RPC, one message a line or with Content-Length; --direction says who sent it"
    }

    fn knows(&self) -> Knows {
        KNOWS
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let framed = text.len() > 15 && text[..15].eq_ignore_ascii_case(b"content-length:");
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or(text);
        let message = if framed { memchr::memmem::find(text, b"{").map_or(&b""[..], |at| &text[at..]) } else { first };
        let mut sureness = 0;
        if let Some(mut fields) = Fields::of(message.strip_prefix(b"[").unwrap_or(message)) {
            while let Some(key) = fields.next_key() {
                sureness = match key {
                    b"jsonrpc" => 80,
                    b"method" | b"id" | b"result" | b"error" => sureness.max(30),
                    _ => sureness,
                };
                if fields.value().is_none() {
                    break;
                }
            }
        }
        if framed { sureness.max(50) } else { sureness }
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        let direction = reading.options.direction;
        let mut scribe = reading.session(None, Knows { direction: direction.is_some(), ..KNOWS }, 0);
        reading.note(&mut scribe, 0, "bare messages have no times: only what was never answered can be told");
        let mut at: Micros = 0;
        let mut frames = Frames::new(reading.input());
        let mut guess = Guess::default();
        if direction.is_none() {
            reading.note(&mut scribe, 0, "who sent what is guessed; --direction says it");
        }
        if let Some(side) = direction {
            let text =
                format!("what the {} sent is not in this file: who did not answer cannot be told", side.other().name());
            reading.note(&mut scribe, 0, text);
            one_sided(&mut scribe, 0, side, reading);
        }
        while let Some(frame) = frames.next_frame() {
            at += 1;
            let from = direction.unwrap_or_else(|| guess.sender(&frame.peek));
            scribe.bytes(from, at, &frame.bytes, reading.sink);
        }
        if let Some(side) = direction {
            one_sided(&mut scribe, at, side, reading);
        }
        reading.finish(&mut scribe, at);
        Ok(())
    }
}

/// Nobody can be said not to have answered in a file that holds only the other side.
fn one_sided(scribe: &mut Scribe, at: Micros, side: Side, reading: &mut Reading<'_>) {
    let why = format!("what the {} sent is not in this file", side.other().name());
    let lost = Happening::Lost { from: Some(side.other()), events: 0, bytes: 0, why };
    scribe.happening(at, None, lost, reading.sink);
}

/// One frame with its framing, as it stood in the file.
struct Frame {
    bytes: Vec<u8>,
    /// The beginning of its body.
    peek: Vec<u8>,
}

/// Cuts a file into frames without altering a byte. A frame past the limit is given in parts, each as it comes.
struct Frames {
    input: Input,
    framer: Sniff,
    block: Vec<u8>,
    held: Vec<u8>,
    /// Where `held[0]` lies in the file.
    start: u64,
    peek: Vec<u8>,
    ready: VecDeque<Frame>,
    ended: bool,
}

/// A frame longer than this is handed on before its end.
const MOST_HELD_BYTES: usize = 8 * 1024 * 1024;

impl Frames {
    fn new(input: Input) -> Frames {
        Frames {
            input,
            framer: Sniff::default(),
            block: vec![0; 64 * 1024],
            held: Vec::new(),
            start: 0,
            peek: Vec::new(),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            let len = self.input.read(&mut self.block).unwrap_or(0);
            self.held.extend_from_slice(&self.block[..len]);
            let mut ends = Vec::new();
            let peek = &mut self.peek;
            let mut tell = |piece: Piece<'_>| match piece {
                Piece::Body(part) => {
                    let room = PEEK_BYTES.saturating_sub(peek.len());
                    peek.extend_from_slice(&part[..part.len().min(room)]);
                }
                Piece::End { end, .. } => ends.push((end, std::mem::take(peek))),
                Piece::Fault { .. } => {}
            };
            if len == 0 {
                self.ended = true;
                self.framer.finish(&mut tell);
            } else {
                self.framer.feed(&self.block[..len], &mut tell);
            }
            for (end, peek) in ends {
                let cut = (end.saturating_sub(self.start) as usize).min(self.held.len());
                let bytes = self.held.drain(..cut).collect();
                self.start += cut as u64;
                self.ready.push_back(Frame { bytes, peek });
            }
            let rest = self.held.len() > MOST_HELD_BYTES || (self.ended && !self.held.is_empty());
            if rest {
                let bytes = std::mem::take(&mut self.held);
                self.start += bytes.len() as u64;
                self.ready.push_back(Frame { bytes, peek: self.peek.clone() });
            }
        }
    }
}

/// What a message is, for the purposes of order and direction.
enum Seen {
    Request(Vec<u8>),
    Notification,
    Answer(Vec<u8>),
    Other,
}

fn look(body: &[u8]) -> (Seen, Vec<u8>) {
    let (mut id, mut method, mut answer) = (None, None, false);
    if let Some(mut fields) = Fields::of(body) {
        while let Some(key) = fields.next_key() {
            answer |= matches!(key, b"result" | b"error");
            let Some(value) = fields.value() else { break };
            match key {
                b"id" => id = Some(value.to_vec()),
                b"method" => method = Some(value.to_vec()),
                _ => {}
            }
        }
    }
    let seen = match (&method, id) {
        (Some(_), Some(id)) => Seen::Request(id),
        (Some(_), None) => Seen::Notification,
        (None, Some(id)) if answer => Seen::Answer(id),
        _ => Seen::Other,
    };
    (seen, method.unwrap_or_default())
}

/// Guesses who sent a message of a mixed log.
#[derive(Default)]
struct Guess {
    asked: HashMap<Vec<u8>, Side>,
    last: Option<Side>,
}

/// Methods that servers send; everything else that asks is taken for the client's.
const OF_SERVERS: &[&str] = &[
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "session/request_permission",
    "session/update",
    "fs/read_text_file",
    "fs/write_text_file",
    "notifications/message",
    "notifications/progress",
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "textDocument/publishDiagnostics",
    "client/registerCapability",
    "client/unregisterCapability",
    "workspace/configuration",
    "workspace/applyEdit",
    "workspace/workspaceFolders",
    "telemetry/event",
    "$/progress",
    "$/logTrace",
];

impl Guess {
    fn sender(&mut self, body: &[u8]) -> Side {
        let (seen, method) = look(body);
        let method = method.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(&method);
        let side = match seen {
            Seen::Answer(id) => self.asked.remove(&id).map_or(Side::Server, Side::other),
            Seen::Request(id) => {
                let side = usual(method);
                if self.asked.len() < MOST_IDS {
                    self.asked.insert(id, side);
                }
                side
            }
            Seen::Notification => usual(method),
            Seen::Other => self.last.unwrap_or(Side::Server),
        };
        self.last = Some(side);
        side
    }
}

fn usual(method: &[u8]) -> Side {
    let of_window = method.starts_with(b"window/") || method.starts_with(b"terminal/");
    let by_server =
        OF_SERVERS.iter().any(|known| known.as_bytes() == method) || of_window || method.ends_with(b"/refresh");
    if by_server { Side::Server } else { Side::Client }
}

/// Reads the two files of a `tee` pair into one session. Nothing says how they lay in time, but an answer cannot come
/// before its request: each file is read until an answer whose request the other has yet to bring.
pub fn read_pair(client: Input, server: Input, options: &Options, key: u32, sink: &mut dyn Sink) -> Result<()> {
    let mut next_key = key;
    let name = format!("{} and {}", client.name(), server.name());
    let mut files = [Frames::new(client), Frames::new(server)];
    let empty = Input::from_reader(&name, Box::new(std::io::empty()), None)?;
    let mut reading = Reading::new(empty, &Bare, options, &mut next_key, sink);
    let mut scribe = reading.session(None, KNOWS, 0);
    reading.note(&mut scribe, 0, "two files without times: only what was never answered can be told");
    merge(&mut files, &mut scribe, &mut reading);
    Ok(())
}

fn merge(files: &mut [Frames; 2], scribe: &mut Scribe, reading: &mut Reading<'_>) {
    let mut asked: [HashMap<Vec<u8>, u32>; 2] = Default::default();
    let mut next: [Option<Frame>; 2] = [files[0].next_frame(), files[1].next_frame()];
    let mut turn = 0;
    let mut at: Micros = 0;
    loop {
        let waits = |side: usize, asked: &[HashMap<Vec<u8>, u32>; 2]| {
            let Some(frame) = &next[side] else { return true };
            matches!(look(&frame.peek).0, Seen::Answer(id) if !asked[1 - side].contains_key(&id))
        };
        if waits(turn, &asked) {
            let other_may = next[1 - turn].is_some() && !waits(1 - turn, &asked);
            if other_may || next[turn].is_none() {
                turn = 1 - turn;
            }
        }
        let Some(frame) = next[turn].take() else { break };
        let from = if turn == 0 { Side::Client } else { Side::Server };
        match look(&frame.peek).0 {
            Seen::Request(id) if asked[turn].len() < MOST_IDS => *asked[turn].entry(id).or_default() += 1,
            Seen::Answer(id) => {
                if let Some(count) = asked[1 - turn].get_mut(&id) {
                    *count -= 1;
                    if *count == 0 {
                        asked[1 - turn].remove(&id);
                    }
                }
            }
            _ => {}
        }
        at += 1;
        scribe.bytes(from, at, &frame.bytes, reading.sink);
        next[turn] = files[turn].next_frame();
    }
    for (side, file) in [Side::Client, Side::Server].into_iter().zip(files.iter()) {
        if let Some(why) = file.input.broken() {
            reading.unread(0, format!("the file of the {} breaks off: {why}", side.name()));
        }
    }
    reading.finish(scribe, at);
}
