//! TCP segments of a whole capture → conversations.
//!
//! One [`Flow`] per connection, all of them into the same HTTP scribe, and the sums of what was not read. How many
//! connections are held is bounded.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::flow::Flow;
use super::http::{Carriers, Clients};
use super::order::InOrder;
use super::segment::Segment;
use crate::event::http::{CarrierKey, HttpScribe, HttpSetup};
use crate::event::redact::fresh_key;
use crate::event::{Knows, Micros, Source};
use crate::import::Reading;
use crate::import::renumbering::{Keys, Renumbering};

/// Connections held at once. One costs a few hundred bytes when it is quiet.
const MOST_FLOWS: usize = 100_000;

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
            secret: fresh_key(),
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
        self.flush(reading);
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
        if sums.one_way > 0 {
            told.push(format!("{} connections are in the capture in one direction only", sums.one_way));
        }
        if sums.unasked > 0 {
            told.push(format!("{} HTTP responses answer requests from before the capture", sums.unasked));
        }
        let passed = self.http.passed_over();
        if passed > 0 {
            told.push(format!("{passed} HTTP exchanges have nothing to do with JSON-RPC"));
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
