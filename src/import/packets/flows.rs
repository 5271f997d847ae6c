//! TCP segments of a whole capture → conversations.
//!
//! One [`Flow`] per connection, all of them into the same HTTP scribe, and the sums of what was not read. How many
//! connections are held is bounded: of those that are over a few are remembered, for what comes late, and of the others
//! the ones that were quiet longest are let go, which is told.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use super::flow::Flow;
use super::http::{Carriers, Clients};
use super::order::InOrder;
use super::segment::Segment;
use crate::event::http::{CarrierKey, HttpScribe, HttpSetup};
use crate::event::scribe::Scribe;
use crate::event::{Happening, Knows, Micros, Source};
use crate::import::Reading;
use crate::import::renumbering::{Keys, Renumbering};

/// Connections held at once. One costs a few kilobytes when it is quiet, up to a megabyte when a piece is missing.
pub(super) const MOST_FLOWS: usize = 2048;

/// Connections that are over and still known, for segments that come late.
const MOST_OVER: usize = 512;

pub struct Flows {
    flows: HashMap<(SocketAddr, SocketAddr), Flow>,
    http: HttpScribe,
    keys: Keys,
    next_carrier: CarrierKey,
    clients: Clients,
    next_connection: u64,
    last_at: Micros,
    started: bool,
    order: InOrder,
    /// Connections that are over, oldest first.
    over: VecDeque<(SocketAddr, SocketAddr)>,
    /// Counts segments, to tell which connection was quiet longest.
    clock: u64,
    /// The bare session that ended last, for what is known of the whole capture only later.
    pub(super) last_bare: Option<Box<Scribe>>,
    pub sums: Sums,
}

/// What was seen and not read.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sums {
    pub connections: u64,
    pub let_go: u64,
    pub tls: (u64, u64),
    pub http2: (u64, u64),
    pub other: (u64, u64),
    pub midway: u64,
    pub one_way: u64,
    pub unasked: u64,
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
            secret: reading.secret(),
        });
        Flows {
            flows: HashMap::new(),
            http,
            keys: Keys::default(),
            next_carrier: 1,
            clients: Clients::default(),
            next_connection: 1,
            last_at: 0,
            started: false,
            order: InOrder::default(),
            over: VecDeque::new(),
            clock: 0,
            last_bare: None,
            sums: Sums::default(),
        }
    }

    pub fn segment(&mut self, segment: &Segment<'_>, reading: &mut Reading<'_>) {
        if self.order.must_flush(segment.at) {
            self.take_due(reading);
        }
        self.order.put(segment);
        self.take_due(reading);
    }

    /// No more segments come: takes those that wait for others.
    pub fn flush(&mut self, reading: &mut Reading<'_>) {
        self.order.finish();
        self.take_due(reading);
    }

    fn take_due(&mut self, reading: &mut Reading<'_>) {
        while let Some(kept) = self.order.take() {
            self.take(&kept.segment(), reading);
        }
    }

    fn take(&mut self, segment: &Segment<'_>, reading: &mut Reading<'_>) {
        // A clock may be set back in a capture; events may not go back.
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
                self.make_room(at, reading);
            }
            self.sums.connections += 1;
            self.sums.midway += u64::from(!segment.syn);
            self.flows.insert(key, Flow::new(self.next_connection, segment));
            self.next_connection += 1;
        }
        let Some(mut flow) = self.flows.remove(&key) else { return };
        self.clock += 1;
        flow.used = self.clock;
        let was_over = flow.is_over();
        flow.segment(segment, at, self, reading);
        if flow.is_over() && !was_over {
            self.over.push_back(key);
        }
        self.flows.insert(key, flow);
        if self.over.len() > MOST_OVER
            && let Some(oldest) = self.over.pop_front()
            && self.flows.get(&oldest).is_some_and(Flow::is_over)
        {
            self.flows.remove(&oldest);
        }
    }

    /// Lets go of the half of the connections that was quiet longest.
    fn make_room(&mut self, at: Micros, reading: &mut Reading<'_>) {
        let mut ages: Vec<_> = self.flows.iter().map(|(key, flow)| (flow.used, *key)).collect();
        ages.sort_unstable();
        ages.truncate(MOST_FLOWS / 2);
        for (_, key) in ages {
            if let Some(mut flow) = self.flows.remove(&key)
                && !flow.is_over()
            {
                self.sums.let_go += 1;
                flow.let_go(at, self, reading);
            }
        }
        self.over.retain(|key| self.flows.contains_key(key));
    }

    fn end_flow(&mut self, key: (SocketAddr, SocketAddr), at: Micros, reading: &mut Reading<'_>) {
        if let Some(mut flow) = self.flows.remove(&key) {
            flow.finish(at, self, reading);
            self.flows.insert(key, flow);
        }
    }

    /// The capture is over.
    pub fn finish(&mut self, reading: &mut Reading<'_>, notes: &[String], dropped: u64) {
        self.flush(reading);
        let mut keys: Vec<_> = self.flows.iter().map(|(key, flow)| (flow.number, *key)).collect();
        keys.sort_unstable();
        let at = self.last_at;
        // What is known of the whole capture is told in all sessions that are open, or in the one that ended last.
        let mut bare = Vec::new();
        let last = self.last_bare.take();
        for (_, key) in keys {
            self.end_flow(key, at, reading);
            bare.extend(self.last_bare.take());
        }
        if bare.is_empty() && !self.http.has_open_sessions() {
            bare.extend(last);
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
        if sums.one_way > 0 {
            told.push(format!("{} connections are in the capture in one direction only", sums.one_way));
        }
        if sums.unasked > 0 {
            told.push(format!("{} HTTP responses answer requests that are not in the capture", sums.unasked));
        }
        let passed = self.http.passed_over();
        if passed > 0 {
            told.push(format!("{passed} HTTP exchanges have nothing to do with JSON-RPC"));
        }
        if sums.let_go > 0 {
            told.push(format!("{} connections were quiet while {MOST_FLOWS} were open, and were let go", sums.let_go));
        }
        let mut lost: Vec<(u64, u64, String)> = Vec::new();
        if dropped > 0 {
            lost.push((dropped, 0, "the capturing machine dropped packets".to_string()));
        }
        lost.extend(reading.take_troubles().into_iter().map(|(bytes, why)| (1, bytes, why)));
        for scribe in &mut bare {
            for text in &told {
                reading.note(scribe, at, text.as_str());
            }
            for (events, bytes, why) in &lost {
                let lost = Happening::Lost { from: None, events: *events, bytes: *bytes, why: why.clone() };
                scribe.happening(at, None, lost, reading.sink);
            }
        }
        let mut sink = Renumbering { reading, keys: &mut self.keys };
        let ended_too = bare.is_empty();
        for text in &told {
            self.http.note_at_end(at, text, ended_too, &mut sink);
        }
        for (events, bytes, why) in &lost {
            self.http.lost_at_end(at, (*events, *bytes), why, ended_too, &mut sink);
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

impl Flows {
    pub(super) fn carriers<'r, 'a>(&'r mut self, reading: &'r mut Reading<'a>) -> CarrierDoor<'r, 'a> {
        CarrierDoor {
            scribe: &mut self.http,
            next_carrier: &mut self.next_carrier,
            clients: &mut self.clients,
            sink: Renumbering { reading, keys: &mut self.keys },
        }
    }
}

/// Holds the renumbering sink while carriers are told.
pub(super) struct CarrierDoor<'r, 'a> {
    scribe: &'r mut HttpScribe,
    next_carrier: &'r mut CarrierKey,
    clients: &'r mut Clients,
    sink: Renumbering<'r, 'a>,
}

impl CarrierDoor<'_, '_> {
    pub(super) fn borrow(&mut self) -> Carriers<'_> {
        let CarrierDoor { scribe, next_carrier, clients, sink } = self;
        Carriers { scribe, next_carrier, clients, sink }
    }
}
