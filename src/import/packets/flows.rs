//! TCP segments of a whole capture → conversations.
//!
//! One flow per connection: its two halves put the bytes in order, its talk reads them. The client is the side that sent the
//! SYN; in a capture that begins later it is told from what is said, else guessed from the ports, and the session says so.
//! Everything is bounded: what waits, how many connections are held, and what is kept of one that is not understood.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::half::{Given, Half};
use super::http::{Carriers, HttpTalk};
use super::segment::Segment;
use super::talk::{self, Speech};
use crate::event::http::{CarrierKey, HttpScribe, HttpSetup};
use crate::event::redact::fresh_key;
use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side, Source};
use crate::import::Reading;
use crate::import::renumbering::{Keys, Renumbering};

/// Connections held at once. One costs a few hundred bytes when it is quiet.
const MOST_FLOWS: usize = 100_000;

const MISSING: &str = "packets are missing from the capture";

pub struct Flows {
    flows: HashMap<(SocketAddr, SocketAddr), Flow>,
    http: HttpScribe,
    keys: Keys,
    next_carrier: CarrierKey,
    next_connection: u64,
    last_at: Micros,
    started: bool,
    pub sums: Sums,
}

/// What was seen and not read.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sums {
    pub connections: u64,
    pub refused: u64,
    pub tls: (u64, u64),
    pub http2: (u64, u64),
    pub other: (u64, u64),
    pub midway: u64,
    pub unasked: u64,
}

struct Flow {
    number: u64,
    /// The address of the client, once it is known; what the first segment's sender is until then.
    client: SocketAddr,
    server: SocketAddr,
    sure: Sure,
    /// Of the client and of the server.
    halves: [Half; 2],
    talk: Talk,
    over: [bool; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sure {
    /// A SYN was seen.
    Seen,
    /// The capture began within the connection, and what was said shows who is who.
    Told,
    Guessed,
    NotYet,
}

enum Talk {
    /// Not clear yet: what each side said so far.
    Held([Vec<(Micros, Vec<u8>)>; 2]),
    Http(Box<HttpTalk>),
    JsonRpc(Box<Scribe>),
    /// Only counted.
    Unread(Speech, u64),
    Done,
}

impl Flows {
    pub fn new(reading: &Reading<'_>, format: &str) -> Flows {
        let http = HttpScribe::new(HttpSetup {
            name: reading.session_name(),
            source: Source::Import(format.to_string()),
            target: reading.file().to_string(),
            knows: Knows::ALL,
            only_rpc: true,
            first_session: 0,
            secret: fresh_key(),
        });
        Flows {
            flows: HashMap::new(),
            http,
            keys: Keys::default(),
            next_carrier: 1,
            next_connection: 1,
            last_at: 0,
            started: false,
            sums: Sums::default(),
        }
    }

    pub fn segment(&mut self, segment: &Segment<'_>, reading: &mut Reading<'_>) {
        // Packets of several queues may stand a little out of order in a capture; events may not.
        let at = if self.started { segment.at.max(self.last_at) } else { segment.at };
        (self.started, self.last_at) = (true, at);
        let key = ordered(segment.from, segment.to);
        let begins = segment.syn && segment.ack.is_none();
        if let Some(flow) = self.flows.get(&key) {
            let side = flow.side_of(segment.from);
            let again = flow.halves[side as usize].begun_by(segment.seq);
            if begins && !again && (flow.halves[side as usize].started() || flow.is_over()) {
                // The same ports, used for a new connection.
                self.end_flow(key, at, reading);
                self.flows.remove(&key);
            }
        }
        if !self.flows.contains_key(&key) {
            if !segment.syn && segment.payload.is_empty() && segment.cut == 0 {
                return;
            }
            if self.flows.len() >= MOST_FLOWS {
                self.flows.retain(|_, flow| !flow.is_over());
            }
            if self.flows.len() >= MOST_FLOWS {
                self.sums.refused += 1;
                return;
            }
            self.sums.connections += 1;
            self.sums.midway += u64::from(!segment.syn);
            self.flows.insert(key, Flow::new(self.next_connection, segment));
            self.next_connection += 1;
        }
        let Some(mut flow) = self.flows.remove(&key) else { return };
        flow.segment(segment, at, self, reading);
        self.flows.insert(key, flow);
    }

    fn end_flow(&mut self, key: (SocketAddr, SocketAddr), at: Micros, reading: &mut Reading<'_>) {
        if let Some(mut flow) = self.flows.remove(&key) {
            flow.finish(at, self, reading);
            self.flows.insert(key, flow);
        }
    }

    /// The capture is over. Gives the time of its last packet.
    pub fn finish(&mut self, reading: &mut Reading<'_>, notes: &[String], dropped: u64) {
        let mut keys: Vec<_> = self.flows.iter().map(|(key, flow)| (flow.number, *key)).collect();
        keys.sort_unstable();
        let at = self.last_at;
        for (_, key) in keys {
            self.end_flow(key, at, reading);
        }
        let sums = self.sums;
        let mut told: Vec<String> = notes.to_vec();
        for (what, (connections, bytes)) in
            [("encrypted (TLS)", sums.tls), ("HTTP/2", sums.http2), ("neither HTTP nor JSON-RPC", sums.other)]
        {
            if connections > 0 {
                told.push(format!("{what}: {} in {connections} connections not read", size(bytes)));
            }
        }
        if sums.midway > 0 {
            told.push(format!("{} connections began before the capture", sums.midway));
        }
        if sums.unasked > 0 {
            told.push(format!("{} HTTP responses answer requests from before the capture", sums.unasked));
        }
        if sums.refused > 0 {
            told.push(format!("{} segments of connections beyond {MOST_FLOWS} at once were not read", sums.refused));
        }
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        for text in &told {
            self.http.note(at, text, &mut sink);
        }
        if dropped > 0 {
            self.http.lost(at, dropped, 0, "the capturing machine dropped packets", &mut sink);
        }
        for (bytes, why) in sink.reading.take_troubles() {
            self.http.lost(at, 1, bytes, &why, &mut sink);
        }
        self.http.finish(at, &mut sink);
        // With no session at all these are the reason why.
        for text in told {
            reading.unread(0, text);
        }
    }
}

fn ordered(one: SocketAddr, other: SocketAddr) -> (SocketAddr, SocketAddr) {
    if one <= other { (one, other) } else { (other, one) }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=999 => format!("{bytes} B"),
        1_000..=999_999 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Servers listen below the range systems take ports for clients from.
fn likely_client(one: SocketAddr, other: SocketAddr) -> SocketAddr {
    if one.port() >= other.port() { one } else { other }
}

impl Flow {
    fn new(number: u64, segment: &Segment<'_>) -> Flow {
        let (from, to) = (segment.from, segment.to);
        let (client, sure) = match (segment.syn, segment.ack.is_some()) {
            (true, false) => (from, Sure::Seen),
            (true, true) => (to, Sure::Seen),
            (false, _) => (likely_client(from, to), Sure::NotYet),
        };
        let server = if client == from { to } else { from };
        let talk = Talk::Held(Default::default());
        Flow { number, client, server, sure, halves: Default::default(), talk, over: [false; 2] }
    }

    fn is_over(&self) -> bool {
        self.over == [true, true]
    }

    fn side_of(&self, address: SocketAddr) -> Side {
        if address == self.client { Side::Client } else { Side::Server }
    }

    fn segment(&mut self, segment: &Segment<'_>, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        if self.sure == Sure::NotYet && !segment.payload.is_empty() {
            self.find_sides(segment);
        }
        let side = self.side_of(segment.from);
        let mut given: Vec<(Side, Told)> = Vec::new();
        let index = side as usize;
        if segment.syn {
            self.halves[index].syn(segment.seq);
        } else {
            self.halves[index].segment(at, segment.seq, segment.payload, segment.cut, segment.fin, &mut |what| {
                given.push((side, Told::of(what)));
            });
        }
        if let Some(ack) = segment.ack {
            self.halves[1 - index].acknowledged(ack, at, &mut |what| given.push((side.other(), Told::of(what))));
        }
        for (side, told) in given {
            self.told(side, told, at, flows, reading);
        }
        if segment.rst && self.over != [true, true] {
            self.reset(side, at, flows, reading);
        }
    }

    /// A capture that began within the connection: what is said may show who is who.
    fn find_sides(&mut self, segment: &Segment<'_>) {
        match talk::client_sends(segment.payload) {
            Some(by_client) => {
                let client = if by_client { segment.from } else { segment.to };
                if client != self.client {
                    std::mem::swap(&mut self.client, &mut self.server);
                    self.halves.swap(0, 1);
                }
                self.sure = Sure::Told;
            }
            None => self.sure = Sure::Guessed,
        }
    }

    fn told(&mut self, side: Side, told: Told, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        match told {
            Told::Bytes(bytes) => self.bytes(side, at, &bytes, flows, reading),
            Told::Gap(bytes) => self.gap(side, at, bytes, flows, reading),
            Told::Fin => {
                if !self.over[side as usize] {
                    self.over[side as usize] = true;
                    self.decide(true, at, flows, reading);
                    self.fin(side, at, flows, reading);
                }
            }
        }
    }

    fn bytes(&mut self, side: Side, at: Micros, bytes: &[u8], flows: &mut Flows, reading: &mut Reading<'_>) {
        match &mut self.talk {
            Talk::Held(held) => {
                held[side as usize].push((at, bytes.to_vec()));
                self.decide(false, at, flows, reading);
            }
            Talk::Http(http) => http.bytes(side, at, bytes, &mut flows.carriers(reading).borrow()),
            Talk::JsonRpc(scribe) => scribe.bytes(side, at, bytes, reading.sink),
            Talk::Unread(_, count) => *count += bytes.len() as u64,
            Talk::Done => {}
        }
    }

    fn gap(&mut self, side: Side, at: Micros, bytes: u64, flows: &mut Flows, reading: &mut Reading<'_>) {
        self.decide(true, at, flows, reading);
        match &mut self.talk {
            Talk::Http(http) => http.gap(side, at, bytes, &mut flows.carriers(reading).borrow()),
            Talk::JsonRpc(scribe) => scribe.cut(side, at, bytes, MISSING, reading.sink),
            Talk::Unread(_, count) => *count += bytes,
            Talk::Held(_) | Talk::Done => {}
        }
    }

    /// Says what the connection speaks, as soon as that is clear, and reads what was held.
    fn decide(&mut self, over: bool, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        let Talk::Held(held) = &mut self.talk else { return };
        let said: Vec<Vec<u8>> = held
            .iter()
            .map(|pieces| {
                pieces.iter().flat_map(|(_, bytes)| bytes.iter().copied()).take(talk::MOST_HELD_BYTES).collect()
            })
            .collect();
        let full = said.iter().any(|said| said.len() >= talk::MOST_HELD_BYTES);
        let silent = said.iter().all(Vec::is_empty);
        if silent {
            return;
        }
        // Either side may speak first; the client's words count more.
        let by_client = talk::of(&said[0], full || over);
        let speech = match by_client {
            Speech::NotYet | Speech::Other
                if !said[1].is_empty() && (said[0].is_empty() || by_client == Speech::NotYet) =>
            {
                match talk::of(&said[1], full || over) {
                    Speech::Other if !said[0].is_empty() && !over => Speech::NotYet,
                    speech => speech,
                }
            }
            speech => speech,
        };
        if speech == Speech::NotYet {
            return;
        }
        let held = std::mem::take(held);
        self.talk = match speech {
            Speech::Http => Talk::Http(Box::new(HttpTalk::new(self.client.ip().to_string(), self.number))),
            Speech::JsonRpc => Talk::JsonRpc(Box::new(self.open_session(held_since(&held).unwrap_or(at), reading))),
            speech => Talk::Unread(speech, 0),
        };
        for (side, at, bytes) in in_time(held) {
            self.bytes(side, at, &bytes, flows, reading);
        }
    }

    fn open_session(&self, at: Micros, reading: &mut Reading<'_>) -> Scribe {
        let knows = Knows { direction: self.sure != Sure::Guessed, ..Knows::ALL };
        let name = format!("{} to {}", self.client, self.server);
        let mut scribe = reading.session(Some(&name), knows, at);
        reading.tell_troubles(&mut scribe, at);
        match self.sure {
            Sure::Seen => scribe.happening(at, None, Happening::Opened { pid: None }, reading.sink),
            Sure::Told => reading.note(&mut scribe, at, "the connection began before the capture"),
            Sure::Guessed | Sure::NotYet => {
                let text = "the connection began before the capture: who is the client is guessed from the ports";
                reading.note(&mut scribe, at, text);
            }
        }
        scribe
    }

    fn fin(&mut self, side: Side, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        let by = if side == Side::Client { Party::Client } else { Party::Server };
        match &mut self.talk {
            Talk::Http(http) => http.fin(side, at, &mut flows.carriers(reading).borrow()),
            Talk::JsonRpc(scribe) => scribe.end(side, at, by, How::Eof, reading.sink),
            _ => {}
        }
        if self.is_over() {
            self.close(flows);
        }
    }

    fn reset(&mut self, side: Side, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        self.decide(true, at, flows, reading);
        let by = if side == Side::Client { Party::Client } else { Party::Server };
        match &mut self.talk {
            Talk::Http(http) => http.rst(side, at, &mut flows.carriers(reading).borrow()),
            Talk::JsonRpc(scribe) => {
                for from in [Side::Client, Side::Server] {
                    if !self.over[from as usize] {
                        scribe.end(from, at, by, How::Reset, reading.sink);
                    }
                }
            }
            _ => {}
        }
        self.over = [true, true];
        self.close(flows);
    }

    /// No more of this connection is in the capture.
    fn finish(&mut self, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        if matches!(self.talk, Talk::Done) {
            return;
        }
        for side in [Side::Client, Side::Server] {
            let mut given = Vec::new();
            self.halves[side as usize].finish(at, &mut |what| given.push(Told::of(what)));
            for told in given {
                self.told(side, told, at, flows, reading);
            }
        }
        self.decide(true, at, flows, reading);
        if let Talk::JsonRpc(scribe) = &mut self.talk {
            for from in [Side::Client, Side::Server] {
                if !self.over[from as usize] {
                    scribe.flush(from, at, reading.sink);
                }
            }
        }
        self.close(flows);
    }

    fn close(&mut self, flows: &mut Flows) {
        let sums = &mut flows.sums;
        match &self.talk {
            Talk::Unread(speech, bytes) => {
                let sum = match speech {
                    Speech::Tls => &mut sums.tls,
                    Speech::Http2 => &mut sums.http2,
                    _ => &mut sums.other,
                };
                sum.0 += 1;
                sum.1 += bytes;
            }
            Talk::Http(http) => sums.unasked += http.unasked,
            _ => {}
        }
        self.talk = Talk::Done;
    }
}

impl Flows {
    fn carriers<'r, 'a>(&'r mut self, reading: &'r mut Reading<'a>) -> CarrierDoor<'r, 'a> {
        CarrierDoor {
            scribe: &mut self.http,
            next_carrier: &mut self.next_carrier,
            sink: Renumbering { reading, keys: &mut self.keys },
        }
    }
}

/// Holds the renumbering sink while carriers are told.
struct CarrierDoor<'r, 'a> {
    scribe: &'r mut HttpScribe,
    next_carrier: &'r mut CarrierKey,
    sink: Renumbering<'r, 'a>,
}

impl CarrierDoor<'_, '_> {
    fn borrow(&mut self) -> Carriers<'_> {
        Carriers { scribe: self.scribe, next_carrier: self.next_carrier, sink: &mut self.sink }
    }
}

enum Told {
    Bytes(Vec<u8>),
    Gap(u64),
    Fin,
}

impl Told {
    fn of(given: Given<'_>) -> Told {
        match given {
            Given::Bytes(_, bytes) => Told::Bytes(bytes.to_vec()),
            Given::Gap(_, bytes) => Told::Gap(bytes),
            Given::Fin(_) => Told::Fin,
        }
    }
}

type Pieces = [Vec<(Micros, Vec<u8>)>; 2];

fn held_since(held: &Pieces) -> Option<Micros> {
    held.iter().filter_map(|pieces| pieces.first()).map(|(at, _)| *at).min()
}

/// What both sides said, in the order they said it.
fn in_time(held: Pieces) -> Vec<(Side, Micros, Vec<u8>)> {
    let [client, server] = held;
    let client = client.into_iter().map(|(at, bytes)| (Side::Client, at, bytes));
    let server = server.into_iter().map(|(at, bytes)| (Side::Server, at, bytes));
    let mut all: Vec<_> = client.chain(server).collect();
    all.sort_by_key(|(_, at, _)| *at);
    all
}
