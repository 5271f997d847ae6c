//! Who sent a message of a log that does not say so.
//!
//! An answer comes from the other side than its request, and the rest from who usually sends it.

use std::collections::HashMap;

use crate::event::Side;
use crate::import::json::Fields;

/// Ids remembered to tell whose answer an answer is.
pub(super) const MOST_IDS: usize = 200_000;

/// What a message is, for the purposes of order and direction.
pub(super) enum Seen {
    Request(Vec<u8>),
    Notification,
    Answer(Vec<u8>),
    Other,
}

pub(super) fn look(body: &[u8]) -> (Seen, Vec<u8>) {
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
pub(super) struct Guess {
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
    pub(super) fn sender(&mut self, body: &[u8]) -> Side {
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
