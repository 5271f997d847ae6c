//! The events of an event stream: their data to the scribe, their ids as happenings.

use crate::event::scribe::OpenBody;
use crate::event::{Happening, Side};
use crate::wire::sse::{Said, Sse};

use super::held::{LONGEST_HELD_BYTES, looks_like_rpc};
use super::reader::Pen;

/// Ids of server-sent events are short; a longer one is cut.
const LONGEST_EVENT_ID_CHARS: usize = 200;

#[derive(Default)]
pub(super) struct Events {
    sse: Sse,
    /// The data of the current event, as long as it is short.
    held: Vec<u8>,
    open: Option<OpenBody>,
}

impl Events {
    /// `expects_rpc`: data that does not look like JSON-RPC is evidence here, not somebody else's.
    pub(super) fn feed(&mut self, expects_rpc: bool, had_rpc: &mut bool, piece: &[u8], pen: &mut Pen<'_>) {
        let Events { sse, held, open } = self;
        sse.feed(piece, &mut |said: Said<'_>| match said {
            Said::Data(data) => match open {
                Some(open) => pen.part(*open, data),
                None if held.len() + data.len() <= LONGEST_HELD_BYTES => held.extend_from_slice(data),
                None => {
                    let body = pen.begin(Side::Server);
                    pen.part(body, held);
                    pen.part(body, data);
                    held.clear();
                    *open = Some(body);
                }
            },
            Said::Event { name, id, .. } => {
                if let Some(id) = id.filter(|id| !id.is_empty()) {
                    let id = id.chars().take(LONGEST_EVENT_ID_CHARS).collect();
                    pen.happening(Happening::StreamEvent { id });
                }
                if let Some(open) = open.take() {
                    *had_rpc = true;
                    pen.end(open);
                } else if name == "endpoint" {
                    pen.endpoint = Some(String::from_utf8_lossy(held).into_owned());
                } else if !held.trim_ascii().is_empty() && (expects_rpc || looks_like_rpc(held)) {
                    *had_rpc = true;
                    pen.body(Side::Server, held);
                }
                held.clear();
            }
            Said::Comment | Said::Retry(_) | Said::Torn { .. } => {}
        });
    }

    /// Bytes are missing here: the event they fall into is none.
    pub(super) fn gap(&mut self, pen: &mut Pen<'_>) {
        self.end(pen);
        self.held.clear();
        self.sse.gap();
    }

    /// An event without its empty line is not an event, unless we began to write it down.
    pub(super) fn end(&mut self, pen: &mut Pen<'_>) {
        if let Some(open) = self.open.take() {
            pen.end_cut(open);
        }
    }
}
