//! One TCP connection: segments → what was said on it.
//!
//! Its two halves put the bytes in order, its talk reads them. The client is the side that sent the SYN; in a capture
//! that begins later it is told from what is said, else guessed from the ports, and the session says so. There what the
//! connection speaks is settled only when both sides were heard, and each side is read from its next message on.
//! Everything is bounded: what waits, and what is kept of a connection that is not understood.

use std::net::SocketAddr;

use super::flows::Flows;
use super::half::{Given, Half};
use super::http::HttpTalk;
use super::segment::Segment;
use super::talk::{self, Pieces, Speech};
use crate::event::scribe::Scribe;
use crate::event::{Happening, How, Knows, Micros, Party, Side};
use crate::import::Reading;

const MISSING: &str = "packets are missing from the capture";

const ONE_WAY: &str = "only one direction of the connection is in the capture";

const BEFORE: &str = "the connection began before the capture";

const LET_GO: &str = "the connection was quiet while many others were open, and was let go";

pub(super) struct Flow {
    pub(super) number: u64,
    /// When its last segment came, as a count of all segments.
    pub(super) used: u64,
    /// The address of the client, once it is known; what the first segment's sender is until then.
    client: SocketAddr,
    server: SocketAddr,
    sure: Sure,
    /// Of the client and of the server.
    pub(super) halves: [Half; 2],
    talk: Talk,
    over: [bool; 2],
    /// Segments of this side are in the capture.
    seen: [bool; 2],
    /// It was told that one of them is not.
    one_way: bool,
    /// Where messages of this side begin is known.
    synced: [bool; 2],
    /// Bytes of this side that are missing from before anything was read.
    missed: [u64; 2],
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
    Held(Pieces),
    Http(Box<HttpTalk>),
    JsonRpc(Box<Scribe>),
    /// Only counted.
    Unread(Speech, u64),
    Done,
}

/// Servers listen below the range systems take ports for clients from.
fn likely_client(one: SocketAddr, other: SocketAddr) -> SocketAddr {
    if one.port() >= other.port() { one } else { other }
}

impl Flow {
    pub(super) fn new(number: u64, segment: &Segment<'_>) -> Flow {
        let (from, to) = (segment.from, segment.to);
        let (client, sure) = match (segment.syn, segment.ack.is_some()) {
            (true, false) => (from, Sure::Seen),
            (true, true) => (to, Sure::Seen),
            (false, _) => (likely_client(from, to), Sure::NotYet),
        };
        let server = if client == from { to } else { from };
        let talk = Talk::Held(Default::default());
        Flow {
            number,
            used: 0,
            client,
            server,
            sure,
            halves: Default::default(),
            talk,
            over: [false; 2],
            seen: [false; 2],
            one_way: false,
            synced: [sure == Sure::Seen; 2],
            missed: [0; 2],
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over == [true, true]
    }

    pub(super) fn side_of(&self, address: SocketAddr) -> Side {
        if address == self.client { Side::Client } else { Side::Server }
    }

    pub(super) fn segment(&mut self, segment: &Segment<'_>, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        if self.sure == Sure::NotYet {
            self.find_sides(segment);
        }
        let side = self.side_of(segment.from);
        let mut given: Vec<(Side, Told)> = Vec::new();
        let index = side as usize;
        self.seen[index] = true;
        let closes = segment.fin || segment.rst;
        // Who speaks or closes has what it acknowledges: what is missing of that was lost before it did, and not after.
        let mut give = |what: Given<'_>| given.push((side.other(), Told::of(what)));
        if let Some(ack) = segment.ack {
            self.halves[1 - index].acknowledged(ack, at, &mut give);
        }
        if segment.rst {
            self.halves[1 - index].finish(at, &mut give);
        }
        if segment.syn {
            self.halves[index].syn(segment.seq);
        } else {
            let half = &mut self.halves[index];
            half.segment(at, segment.seq, segment.payload, segment.cut, segment.fin, &mut |what| {
                given.push((side, Told::of(what)));
            });
            if segment.rst {
                half.finish(at, &mut |what| given.push((side, Told::of(what))));
            }
        }
        if closes && !self.seen[1 - index] {
            self.one_way(side.other(), at, flows, reading);
        }
        for (side, told) in given {
            self.told(side, told, at, flows, reading);
        }
        // Without the other side's SYN this one could not have spoken.
        let unheard = self.sure == Sure::Seen && !self.seen[1 - index] && !self.one_way;
        if unheard && !segment.payload.is_empty() && !matches!(self.talk, Talk::Held(_)) {
            self.one_way(side.other(), at, flows, reading);
        }
        if segment.rst && self.over != [true, true] {
            self.reset(side, at, flows, reading);
        }
    }

    /// A capture that began within the connection: what is said may show who is who.
    fn find_sides(&mut self, segment: &Segment<'_>) {
        let Some(by_client) = talk::client_sends(segment.payload) else { return };
        let client = if by_client { segment.from } else { segment.to };
        if client != self.client {
            std::mem::swap(&mut self.client, &mut self.server);
            self.halves.swap(0, 1);
            self.seen.swap(0, 1);
            self.over.swap(0, 1);
            self.synced.swap(0, 1);
            self.missed.swap(0, 1);
            if let Talk::Held(held) = &mut self.talk {
                held.swap(0, 1);
            }
        }
        self.sure = Sure::Told;
    }

    fn told(&mut self, side: Side, told: Told, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        match told {
            Told::Bytes(bytes) => self.bytes(side, at, &bytes, flows, reading),
            Told::Gap(bytes) => self.gap(side, at, bytes, MISSING, flows, reading),
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
        // The rest of a long body was all there was to hear until now.
        if let Talk::Unread(Speech::Other, _) = self.talk
            && self.is_midway()
            && talk::begins_http(bytes)
        {
            self.talk = self.http();
        }
        match &mut self.talk {
            Talk::Held(held) => {
                held[side as usize].push((at, bytes.to_vec()));
                self.decide(false, at, flows, reading);
            }
            Talk::Http(http) => http.bytes(side, at, bytes, &mut flows.carriers(reading).borrow()),
            Talk::JsonRpc(scribe) => {
                let synced = &mut self.synced[side as usize];
                let start = match *synced {
                    true => Some(0),
                    // Within the connection it has shown how it frames, and any object may begin a packet.
                    false if self.sure == Sure::Seen => talk::frame_start_again(bytes, scribe.framing(side)),
                    false => talk::frame_start(bytes),
                };
                let start = start.unwrap_or(bytes.len());
                if start > 0 {
                    let why = if self.sure == Sure::Seen { MISSING } else { BEFORE };
                    scribe.cut(side, at, start as u64, why, reading.sink);
                }
                *synced |= start < bytes.len() || bytes.ends_with(b"\n");
                if start < bytes.len() {
                    scribe.bytes(side, at, &bytes[start..], reading.sink);
                }
            }
            Talk::Unread(_, count) => *count += bytes.len() as u64,
            Talk::Done => {}
        }
    }

    /// Nothing that this side said is in the capture, whether it said anything or not.
    fn one_way(&mut self, side: Side, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        if self.said_nothing() {
            return;
        }
        let first = !std::mem::replace(&mut self.one_way, true);
        flows.sums.one_way += u64::from(first);
        self.gap(side, at, 0, ONE_WAY, flows, reading);
        if let (Talk::JsonRpc(scribe), true) = (&mut self.talk, first) {
            reading.note(scribe, at, format!("{ONE_WAY}: nothing that the {} said is known", side.name()));
        }
    }

    /// What was said first may not be in the capture.
    fn is_midway(&self) -> bool {
        self.sure != Sure::Seen || self.missed != [0, 0]
    }

    fn said_nothing(&self) -> bool {
        match &self.talk {
            Talk::Held(held) => held.iter().all(Vec::is_empty),
            talk => matches!(talk, Talk::Done),
        }
    }

    fn gap(&mut self, side: Side, at: Micros, bytes: u64, why: &str, flows: &mut Flows, reading: &mut Reading<'_>) {
        self.decide(true, at, flows, reading);
        match &mut self.talk {
            Talk::Http(http) => http.gap(side, at, bytes, why, &mut flows.carriers(reading).borrow()),
            Talk::JsonRpc(scribe) => {
                scribe.cut(side, at, bytes, why, reading.sink);
                self.synced[side as usize] &= bytes == 0;
            }
            Talk::Unread(_, count) => *count += bytes,
            Talk::Held(_) if bytes > 0 => {
                self.missed[side as usize] += bytes;
                self.synced[side as usize] = false;
                // It may be all there was on this connection.
                let mut carriers = flows.carriers(reading);
                let into = carriers.borrow();
                into.scribe.lost_from(at, side, bytes, why, into.sink);
            }
            Talk::Held(_) | Talk::Done => {}
        }
    }

    /// Says what the connection speaks, as soon as that is clear, and reads what was held.
    fn decide(&mut self, over: bool, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        let Talk::Held(held) = &mut self.talk else { return };
        let midway = self.sure != Sure::Seen || self.missed != [0, 0];
        let speech = if midway { talk::of_both_midway(held, over) } else { talk::of_both(held, over) };
        if speech == Speech::NotYet {
            return;
        }
        if self.sure == Sure::NotYet {
            self.sure = Sure::Guessed;
        }
        let held = std::mem::take(held);
        let silent = [Side::Client, Side::Server].into_iter().find(|side| held[*side as usize].is_empty());
        self.talk = match speech {
            Speech::Http => self.http(),
            Speech::JsonRpc => {
                Talk::JsonRpc(Box::new(self.open_session(talk::held_since(&held).unwrap_or(at), reading)))
            }
            speech => Talk::Unread(speech, 0),
        };
        for side in [Side::Client, Side::Server] {
            let missed = self.missed[side as usize];
            match &mut self.talk {
                Talk::JsonRpc(scribe) if missed > 0 => scribe.cut(side, at, missed, MISSING, reading.sink),
                Talk::Http(http) if missed > 0 => {
                    http.gap(side, at, 0, MISSING, &mut flows.carriers(reading).borrow());
                }
                _ => {}
            }
        }
        for (side, at, bytes) in talk::in_time(held) {
            self.bytes(side, at, &bytes, flows, reading);
        }
        // What looks like bare messages may be a part of something else, of which the other side has not spoken.
        if let (Talk::JsonRpc(scribe), Some(silent), true) = (&mut self.talk, silent, self.sure != Sure::Seen) {
            scribe.cut(silent, at, 0, BEFORE, reading.sink);
        }
    }

    fn http(&self) -> Talk {
        // One client may talk to several servers: these are conversations of their own.
        let client = format!("{} to {}", self.client.ip(), self.server);
        Talk::Http(Box::new(HttpTalk::new(client, self.number, self.synced)))
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

    /// No more of this connection is read, though there may be more.
    pub(super) fn let_go(&mut self, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        for side in [Side::Client, Side::Server] {
            if !self.over[side as usize] && !self.said_nothing() {
                self.gap(side, at, 0, LET_GO, flows, reading);
            }
        }
        self.wind_up(at, flows, reading);
        if let Talk::Http(http) = &mut self.talk {
            http.let_go(at, &mut flows.carriers(reading).borrow());
        }
        self.close(flows);
        flows.last_bare = None;
    }

    /// No more of this connection is in the capture.
    pub(super) fn finish(&mut self, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        if !matches!(self.talk, Talk::Done) {
            self.wind_up(at, flows, reading);
            self.close(flows);
        }
    }

    /// Gives what came and was waited with.
    fn wind_up(&mut self, at: Micros, flows: &mut Flows, reading: &mut Reading<'_>) {
        for side in [Side::Client, Side::Server] {
            if !self.seen[side as usize] {
                self.one_way(side, at, flows, reading);
            }
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
    }

    fn close(&mut self, flows: &mut Flows) {
        let sums = &mut flows.sums;
        match std::mem::replace(&mut self.talk, Talk::Done) {
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
            Talk::JsonRpc(scribe) => flows.last_bare = Some(scribe),
            _ => {}
        }
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
