//! One direction of a WebSocket, read from a copy of its bytes.

use crate::event::scribe::OpenBody;
use crate::event::{Happening, How, Side};
use crate::wire::websocket::{Fault, Told, WebSocket};

use super::closing::party;
use super::reader::Pen;

/// The carrier that began its conversation: a WebSocket that did is all there is to it, and ends it.
const FIRST_CARRIER: u64 = 1;

/// So much of a close frame's reason goes into a note.
const LONGEST_REASON_CHARS: usize = 123;

pub(super) struct Socket {
    frames: WebSocket,
    open: Option<OpenBody>,
}

impl Socket {
    /// By the `Sec-WebSocket-Extensions` of the response.
    pub(super) fn new(extensions: Option<&str>) -> Socket {
        Socket { frames: WebSocket::agreed(extensions), open: None }
    }

    pub(super) fn feed(&mut self, from: Side, bytes: &[u8], pen: &mut Pen<'_>) {
        let Socket { frames, open } = self;
        frames.feed(bytes, &mut |told: Told<'_>| hear(told, from, open, pen));
    }

    /// Bytes are missing here.
    pub(super) fn gap(&mut self, from: Side, missing: u64, pen: &mut Pen<'_>) {
        let Socket { frames, open } = self;
        frames.gap(missing, &mut |told: Told<'_>| hear(told, from, open, pen));
    }

    /// The connection is over.
    pub(super) fn end(&mut self, from: Side, pen: &mut Pen<'_>) {
        let Socket { frames, open } = self;
        frames.finish(&mut |told: Told<'_>| hear(told, from, open, pen));
        if let Some(open) = open.take() {
            pen.end_cut(open);
        }
    }
}

fn hear(told: Told<'_>, from: Side, open: &mut Option<OpenBody>, pen: &mut Pen<'_>) {
    match told {
        Told::Data(part) => {
            let body = *open.get_or_insert_with(|| pen.begin(from));
            pen.part(body, part);
        }
        Told::Message { readable, .. } => {
            if !readable {
                let why = "a WebSocket message could not be read whole".to_string();
                pen.happening(Happening::Lost { from: Some(from), events: 1, bytes: 0, why });
            }
            match open.take() {
                Some(open) if readable => pen.end(open),
                Some(open) => pen.end_cut(open),
                None => {}
            }
        }
        Told::Ping | Told::Pong => {}
        Told::Close { code, reason } => {
            let reason: String = String::from_utf8_lossy(reason).chars().take(LONGEST_REASON_CHARS).collect();
            let code = code.map_or("no code".to_string(), |code| code.to_string());
            pen.note(format!("the {} closes the WebSocket: {code} {reason}", from.name()).trim_end().to_string());
            if pen.carrier == FIRST_CARRIER {
                let closed = Happening::Closed { from, by: party(from), how: How::Eof };
                pen.scribe.happening(pen.at, None, closed, pen.sink);
            }
        }
        // It was told as a loss.
        Told::Fault(Fault::Gap) => {}
        Told::Fault(fault) => pen.note(format!("{} (from the {})", fault.sentence(), from.name())),
        Told::PassedOver(bytes) => {
            let why = "what follows a gap in a WebSocket could not be read".to_string();
            pen.happening(Happening::Lost { from: Some(from), events: 0, bytes, why });
        }
    }
}
