//! The two files of a `tee` pair: both directions known, no times.

use std::collections::HashMap;

use super::frames::{self, Frame, Frames};
use super::guess::{MOST_IDS, Seen, look};
use super::{Bare, KNOWS};
use crate::error::Result;
use crate::event::scribe::Scribe;
use crate::event::{Micros, Side, Sink};
use crate::import::{Input, Options, Reading};

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
        frames::tell(&frame, from, at, scribe, reading);
        next[turn] = files[turn].next_frame();
    }
    for (side, file) in [Side::Client, Side::Server].into_iter().zip(files.iter()) {
        if let Some(why) = file.input.broken() {
            reading.unread(0, format!("the file of the {} breaks off: {why}", side.name()));
        }
    }
    reading.finish(scribe, at);
}
