//! Bare JSON-RPC: messages one a line, as a list, printed over many lines or framed with Content-Length, and nothing else.
//!
//! Such a file has no times. With `--direction` it is what one side sent, byte for byte; without, it is a log of both, and who
//! sent what is guessed. In a log, a line that is no message is a bad line and no fault of anybody: who wrote it there is
//! not known. Two files of a `tee` pair are read by [`read_pair`].

mod frames;
mod guess;
mod pair;
mod shape;
#[cfg(test)]
mod tests;

use std::io::Read;

use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Happening, Knows, Micros, Side};

use super::array::Elements;
use super::reading::Reading;
use super::{Importer, Sureness};
use frames::Frames;
use guess::Guess;
pub use pair::read_pair;
use shape::Form;

pub struct Bare;

const KNOWS: Knows = Knows { times: false, direction: true, ids: true, payload: true, ends: false };

const NO_TIMES: &str = "bare messages have no times: only what was never answered can be told";

impl Importer for Bare {
    fn name(&self) -> &'static str {
        "json-rpc"
    }

    fn about(&self) -> &'static str {
        "bare JSON-RPC: one message a line, a JSON list, or with Content-Length; --direction says who sent it"
    }

    fn knows(&self) -> Knows {
        KNOWS
    }

    fn recognise(&self, head: &[u8]) -> Sureness {
        shape::sureness(head)
    }

    fn read(&self, reading: &mut Reading<'_>) -> Result<()> {
        match reading.options.direction {
            Some(side) => read_one_side(reading, side),
            None => read_log(reading),
        }
        Ok(())
    }
}

fn read_one_side(reading: &mut Reading<'_>, side: Side) {
    let mut scribe = reading.session(None, KNOWS, 0);
    reading.note(&mut scribe, 0, NO_TIMES);
    let text = format!("what the {} sent is not in this file: who did not answer cannot be told", side.other().name());
    reading.note(&mut scribe, 0, text);
    one_sided(&mut scribe, 0, side, reading);
    let mut at: Micros = 0;
    let mut frames = Frames::new(reading.input());
    while let Some(frame) = frames.next_frame() {
        at += 1;
        frames::tell(&frame, side, at, &mut scribe, reading);
    }
    one_sided(&mut scribe, at, side, reading);
    reading.finish(&mut scribe, at);
}

/// Nobody can be said not to have answered in a file that holds only the other side.
fn one_sided(scribe: &mut Scribe, at: Micros, side: Side, reading: &mut Reading<'_>) {
    let why = format!("what the {} sent is not in this file", side.other().name());
    let lost = Happening::Lost { from: Some(side.other()), events: 0, bytes: 0, why };
    scribe.happening(at, None, lost, reading.sink);
}

fn read_log(reading: &mut Reading<'_>) {
    let mut log = Log::default();
    match shape::form_of(&reading.head()) {
        Form::Framed => {
            let mut frames = Frames::new(reading.input());
            while let Some(frame) = frames.next_frame() {
                if frame.cut {
                    reading.unread(frame.bytes.len() as u64, "the file ends within a message".to_string());
                } else {
                    let from = log.guess.sender(&frame.peek);
                    let at = log.next();
                    log.scribe(reading).bytes(from, at, &frame.bytes, reading.sink);
                }
            }
        }
        Form::Lines => {
            let mut lines = reading.lines();
            while let Some(line) = lines.next_line() {
                let bytes = line.text.len() as u64 + line.left_out;
                match line.text.trim_ascii() {
                    b"" => {}
                    _ if line.left_out > 0 => {
                        reading.unread_line(line.number, bytes, "longer than a line may be, not read");
                    }
                    text => match shape::why_no_message(text) {
                        Some(why) => reading.unread_line(line.number, bytes, why),
                        None => log.message(reading, text),
                    },
                }
            }
        }
        form @ (Form::List | Form::Printed) => {
            // Values that follow each other are read as a list that was never opened.
            let opening = if form == Form::List { &b""[..] } else { b"[" };
            let mut elements = Elements::new(opening.chain(reading.input()), &[]);
            while let Some(element) = elements.next_element() {
                let bytes = element.text.len() as u64 + element.left_out;
                let why = match element.left_out {
                    0 => shape::why_no_message(element.text),
                    _ => Some("longer than is read"),
                };
                match why {
                    Some(why) => reading.unread(bytes, format!("message {}: {why}", element.number)),
                    None => log.message(reading, element.text),
                }
            }
            if form == Form::List && elements.closed && elements.more_behind() {
                reading.unread(0, "what stands behind the list is not read".to_string());
            }
        }
    }
    log.finish(reading);
}

/// A log of both sides; its session begins with the first message.
#[derive(Default)]
struct Log {
    scribe: Option<Scribe>,
    guess: Guess,
    at: Micros,
}

impl Log {
    fn next(&mut self) -> Micros {
        self.at += 1;
        self.at
    }

    fn scribe(&mut self, reading: &mut Reading<'_>) -> &mut Scribe {
        let scribe = self.scribe.get_or_insert_with(|| {
            let mut scribe = reading.session(None, Knows { direction: false, ..KNOWS }, 0);
            reading.note(&mut scribe, 0, NO_TIMES);
            reading.note(&mut scribe, 0, "who sent what is guessed; --direction says it");
            scribe
        });
        reading.tell_troubles(scribe, self.at);
        scribe
    }

    fn message(&mut self, reading: &mut Reading<'_>, body: &[u8]) {
        let from = self.guess.sender(body);
        let at = self.next();
        self.scribe(reading).body(from, at, None, body, reading.sink);
    }

    fn finish(mut self, reading: &mut Reading<'_>) {
        if let Some(mut scribe) = self.scribe.take() {
            reading.finish(&mut scribe, self.at);
        }
    }
}
