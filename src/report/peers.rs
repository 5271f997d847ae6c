//! Who talked: the names and versions that client and server gave of themselves.

use crate::event::{Event, Side};
use crate::rpc::Mark;

/// Longer names are cut: they are for reading, and a peer may send anything.
const LONGEST: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    pub name: String,
    pub version: Option<String>,
}

impl Program {
    pub fn words(&self) -> String {
        match self.version.as_deref().filter(|version| !version.is_empty()) {
            Some(version) => format!("{} {version}", self.name),
            None => self.name.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peers {
    pub client: Option<Program>,
    pub server: Option<Program>,
}

/// Where programs say what they are, by who says it.
const PLACES: [(Side, Mark, Mark); 5] = [
    (Side::Client, Mark::ClientName, Mark::ClientVersion),
    (Side::Client, Mark::MetaClientName, Mark::MetaClientVersion),
    (Side::Server, Mark::ServerName, Mark::ServerVersion),
    (Side::Server, Mark::AgentName, Mark::AgentVersion),
    (Side::Server, Mark::MetaServerName, Mark::MetaServerVersion),
];

impl Peers {
    /// The first name each side gives counts: a session is one conversation.
    pub fn event(&mut self, event: &Event) {
        if self.client.is_some() && self.server.is_some() {
            return;
        }
        let Some((from, message)) = event.message().filter(|(_, message)| !message.marks.is_empty()) else { return };
        for (side, name, version) in PLACES.iter().filter(|place| place.0 == from) {
            let known = if *side == Side::Client { &mut self.client } else { &mut self.server };
            let Some(name) = message.marks.text(*name).filter(|_| known.is_none()) else { continue };
            let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
            *known = Some(Program { name: cut(name), version: message.marks.text(*version).map(cut) });
        }
    }
}
