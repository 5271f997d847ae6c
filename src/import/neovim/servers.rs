//! The language servers of one editor, whose messages stand in one log without a name.
//!
//! Each server that is begun gets a session of its own. Whose a message is, is guessed by what must hold: the editor counts the ids
//! of each server's requests from 1 without a gap, an answer goes where its id is open, `initialized` follows the answer to
//! `initialize`, a cancel names an open request. What nothing tells goes where its sender spoke last. With one server
//! there is nothing to guess.

use std::collections::{HashMap, HashSet};

use crate::event::{Happening, Knows, Micros, Side};
use crate::import::Reading;
use crate::import::json::Fields;
use crate::import::runs::Runs;

/// An editor with more servers than this has a log of restarts.
const MOST_SERVERS: usize = 32;

/// Open requests and known ids of one server: far more than there are.
const MOST_IDS: usize = 100_000;

pub(super) struct Servers {
    knows: Knows,
    notes: &'static [&'static str],
    servers: Vec<Server>,
    /// Who was meant last, by sender.
    last: [usize; 2],
    /// Counts requests, to answer the oldest first.
    order: u64,
    /// The editor's start is on record. Where the beginning of the log is gone, how many servers speak in it nobody can
    /// tell, nor which of them an answer is from.
    whole: bool,
    /// The name of the server that is being begun.
    name: Option<String>,
}

struct Server {
    runs: Runs,
    /// Open requests by who asked: when, and whether cancelled.
    open: [HashMap<Vec<u8>, (u64, bool)>; 2],
    /// The id of the editor's next request.
    next: i64,
    /// Ids and tokens that this server gave.
    given: HashSet<Vec<u8>>,
    begun: bool,
    initialized: bool,
    leaving: bool,
    gone: bool,
}

/// What a message says of itself.
struct Said<'a> {
    id: Option<&'a [u8]>,
    method: &'a [u8],
    params: &'a [u8],
}

impl Servers {
    pub(super) fn new(knows: Knows, notes: &'static [&'static str]) -> Servers {
        Servers { knows, notes, servers: Vec::new(), last: [0; 2], order: 0, whole: false, name: None }
    }

    /// The log names the server that it begins next.
    pub(super) fn begins(&mut self, name: &str) {
        self.name = Some(name.to_string());
    }

    /// The editor was started: all servers of an earlier one are gone.
    pub(super) fn all_gone(&mut self) {
        self.whole = true;
        for server in &mut self.servers {
            server.gone = true;
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.servers.iter().any(|server| server.runs.is_open())
    }

    pub(super) fn message(&mut self, reading: &mut Reading<'_>, from: Side, at: Micros, body: &[u8]) {
        let mut said = Said { id: None, method: b"", params: b"" };
        if let Some(mut fields) = Fields::of(body) {
            while let Some(key) = fields.next_key() {
                let Some(value) = fields.value() else { break };
                match key {
                    b"id" => said.id = Some(value),
                    b"method" => {
                        said.method = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value)
                    }
                    b"params" => said.params = value,
                    _ => {}
                }
            }
        }
        let index = if said.method == b"initialize" { self.begin() } else { self.whose(from, &said, body) };
        self.last[from as usize] = index;
        self.remember(index, from, &said);
        self.servers[index].runs.message(reading, from, at, body);
    }

    /// A server's stderr goes where it spoke last.
    pub(super) fn stderr(&mut self, reading: &mut Reading<'_>, at: Micros, line: &[u8]) {
        if let Some(server) = self.servers.get_mut(self.last[Side::Server as usize]) {
            server.runs.stderr(reading, at, line);
        }
    }

    pub(super) fn note(&mut self, reading: &mut Reading<'_>, at: Micros, text: String) {
        if let Some(server) = self.servers.first_mut() {
            let at = server.runs.last_at().map_or(at, |last| last.max(at));
            server.runs.happening(reading, at, Happening::Note { text });
        }
    }

    pub(super) fn finish(&mut self, reading: &mut Reading<'_>) {
        for server in &mut self.servers {
            server.runs.finish(reading);
        }
    }

    /// The place of a server that is begun: of one that is gone, or a new one.
    fn begin(&mut self) -> usize {
        // One that was there before the log began goes on beside it.
        let free = self.servers.iter().position(|server| server.gone);
        let full = self.servers.len() == MOST_SERVERS;
        let index = free.or(full.then_some(0)).unwrap_or_else(|| self.add());
        let server = &mut self.servers[index];
        (server.open, server.given) = Default::default();
        (server.begun, server.initialized, server.leaving, server.gone) = (true, false, false, false);
        index
    }

    fn add(&mut self) -> usize {
        let knows = Knows { ids: self.whole, ..self.knows };
        let number = self.servers.len() + 1;
        let name = self.name.take().unwrap_or_else(|| format!("server {number}"));
        self.servers.push(Server {
            runs: Runs::new((number > 1).then_some(name), knows, self.notes),
            open: Default::default(),
            next: 1,
            given: HashSet::new(),
            begun: false,
            initialized: false,
            leaving: false,
            gone: false,
        });
        number - 1
    }

    fn whose(&mut self, from: Side, said: &Said<'_>, body: &[u8]) -> usize {
        if self.servers.is_empty() {
            return self.add();
        }
        let last = self.last[from as usize];
        if self.servers.len() == 1 {
            return 0;
        }
        let alive = |server: &Server| !server.gone;
        let usual = if alive(&self.servers[last]) { last } else { self.first(alive).unwrap_or(last) };
        let found = match (said.id, said.method) {
            (Some(id), b"") => self.asked(from.other(), id, memchr::memmem::find(body, b"-32800").is_some()),
            (Some(id), _) if from == Side::Client => {
                let number = std::str::from_utf8(id).ok().and_then(|id| id.parse::<i64>().ok());
                let free = |server: &Server| alive(server) && !server.open[Side::Client as usize].contains_key(id);
                self.first(|server| alive(server) && Some(server.next) == number).or_else(|| self.first(free))
            }
            (Some(id), _) => {
                let free = |server: &Server| alive(server) && !server.open[Side::Server as usize].contains_key(id);
                self.first(|server| free(server) && server.initialized && !server.given.contains(id))
                    .or_else(|| self.first(free))
            }
            (None, b"initialized") => {
                let answered = |server: &Server| server.begun && server.open[Side::Client as usize].is_empty();
                self.first(|server| alive(server) && !server.initialized && answered(server))
            }
            (None, b"exit") => self.first(|server| alive(server) && server.leaving),
            (None, b"$/cancelRequest") => Fields::find(said.params, "id").and_then(|id| self.asked(from, id, false)),
            (None, b"$/progress") => {
                Fields::find(said.params, "token").and_then(|token| self.first(|server| server.given.contains(token)))
            }
            _ => None,
        };
        found.unwrap_or(usual)
    }

    fn first(&self, is: impl Fn(&Server) -> bool) -> Option<usize> {
        self.servers.iter().position(is)
    }

    /// Where this id is open longest, first among those that were cancelled or not.
    fn asked(&self, asker: Side, id: &[u8], cancelled: bool) -> Option<usize> {
        let open = |server: &Server| server.open[asker as usize].get(id).copied();
        let known = self.servers.iter().enumerate().filter_map(|(index, server)| Some((open(server)?, index)));
        known.min_by_key(|((order, was), _)| (*was != cancelled, *order)).map(|(_, index)| index)
    }

    fn remember(&mut self, index: usize, from: Side, said: &Said<'_>) {
        self.order += 1;
        let server = &mut self.servers[index];
        match (said.id, said.method) {
            (Some(id), b"") => {
                server.open[from.other() as usize].remove(id);
            }
            (Some(id), method) => {
                if server.open[from as usize].len() < MOST_IDS {
                    server.open[from as usize].insert(id.to_vec(), (self.order, false));
                }
                if from == Side::Client {
                    let number = std::str::from_utf8(id).ok().and_then(|id| id.parse::<i64>().ok());
                    server.next = number.map_or(server.next, |number| number.saturating_add(1));
                    server.leaving |= method == b"shutdown";
                } else if server.given.len() < MOST_IDS {
                    server.given.insert(id.to_vec());
                    server.given.extend(Fields::find(said.params, "token").map(<[u8]>::to_vec));
                }
            }
            (None, b"initialized") => server.initialized = true,
            (None, b"exit") => server.gone = true,
            (None, b"$/cancelRequest") => {
                let open = Fields::find(said.params, "id").and_then(|id| server.open[from as usize].get_mut(id));
                if let Some((_, cancelled)) = open {
                    *cancelled = true;
                }
            }
            _ => {}
        }
    }
}
