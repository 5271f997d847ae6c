//! Captures put together by hand, packet by packet, and what was read of them.

use crate::event::{Collected, Event, Happening, Side, What};
use crate::import::{Input, Options, read};
use crate::rpc::Kind;

pub(super) const CLIENT_PORT: u16 = 50_000;
pub(super) const SERVER_PORT: u16 = 8_080;

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    Ethernet,
    Vlan,
    Cooked,
    Cooked2,
    Null,
    NullSwapped,
    Raw,
}

impl Link {
    fn number(self) -> u32 {
        match self {
            Link::Ethernet | Link::Vlan => 1,
            Link::Cooked => 113,
            Link::Cooked2 => 276,
            Link::Null | Link::NullSwapped => 0,
            Link::Raw => 101,
        }
    }

    fn wrap(self, ip: &[u8], v6: bool) -> Vec<u8> {
        let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        let family: u32 = if v6 { 30 } else { 2 };
        let head: Vec<u8> = match self {
            Link::Ethernet => [&[0; 12][..], &kind].concat(),
            Link::Vlan => [&[0; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7], &kind].concat(),
            Link::Cooked => [&[0; 14][..], &kind].concat(),
            Link::Cooked2 => [&kind[..], &[0; 18]].concat(),
            Link::Null => family.to_le_bytes().to_vec(),
            Link::NullSwapped => family.to_be_bytes().to_vec(),
            Link::Raw => Vec::new(),
        };
        // A short Ethernet frame is padded; the padding is no payload.
        let mut packet = [head, ip.to_vec()].concat();
        if self == Link::Ethernet && packet.len() < 60 {
            packet.resize(60, 0);
        }
        packet
    }
}

/// One packet as IP.
pub(super) fn ip(
    (client, server): (u16, u16),
    from_client: bool,
    (seq, ack): (u32, u32),
    flags: u8,
    payload: &[u8],
    v6: bool,
) -> Vec<u8> {
    let (from, to) = if from_client { (client, server) } else { (server, client) };
    let mut tcp = Vec::new();
    tcp.extend_from_slice(&from.to_be_bytes());
    tcp.extend_from_slice(&to.to_be_bytes());
    tcp.extend_from_slice(&seq.to_be_bytes());
    tcp.extend_from_slice(&ack.to_be_bytes());
    tcp.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    let (one, other): (u8, u8) = if from_client { (1, 2) } else { (2, 1) };
    if v6 {
        let mut head = vec![0x60, 0, 0, 0];
        head.extend_from_slice(&(tcp.len() as u16).to_be_bytes());
        head.extend_from_slice(&[6, 64]);
        for last in [one, other] {
            head.extend_from_slice(&[0; 15]);
            head.push(last);
        }
        return [head, tcp].concat();
    }
    let mut head = vec![0x45, 0];
    head.extend_from_slice(&(tcp.len() as u16 + 20).to_be_bytes());
    head.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, one, 10, 0, 0, other]);
    [head, tcp].concat()
}

pub(super) struct Capture {
    link: Link,
    v6: bool,
    /// Time in milliseconds, bytes kept, bytes there were.
    pub(super) packets: Vec<(u64, Vec<u8>, usize)>,
    pub(super) client_port: u16,
    pub(super) server_port: u16,
    pub(super) client_seq: u32,
    pub(super) server_seq: u32,
}

impl Capture {
    pub(super) fn new(link: Link, v6: bool) -> Capture {
        Capture {
            link,
            v6,
            packets: Vec::new(),
            client_port: CLIENT_PORT,
            server_port: SERVER_PORT,
            client_seq: u32::MAX - 20,
            server_seq: 7,
        }
    }

    pub(super) fn put(&mut self, from_client: bool, flags: u8, payload: &[u8]) -> &mut Capture {
        self.put_cut(from_client, flags, payload, payload.len())
    }

    /// Of the payload only `kept` bytes are in the capture.
    pub(super) fn put_cut(&mut self, from_client: bool, flags: u8, payload: &[u8], kept: usize) -> &mut Capture {
        let (seq, ack) =
            if from_client { (self.client_seq, self.server_seq) } else { (self.server_seq, self.client_seq) };
        let packet = self
            .link
            .wrap(&ip((self.client_port, self.server_port), from_client, (seq, ack), flags, payload, self.v6), self.v6);
        let there = packet.len();
        let mut packet = packet;
        packet.truncate(there - (payload.len() - kept));
        let at = self.packets.len() as u64 * 10;
        self.packets.push((at, packet, there));
        let taken = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        let seq = if from_client { &mut self.client_seq } else { &mut self.server_seq };
        *seq = seq.wrapping_add(taken);
        self
    }

    pub(super) fn open(&mut self) -> &mut Capture {
        self.put(true, SYN, b"").put(false, SYN | ACK, b"").put(true, ACK, b"")
    }

    pub(super) fn close(&mut self) -> &mut Capture {
        self.put(true, FIN | ACK, b"").put(false, FIN | ACK, b"").put(true, ACK, b"")
    }

    pub(super) fn pcap(&self, big: bool, nanos: bool) -> Vec<u8> {
        let four = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let two = |number: u16| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let magic = if nanos { 0xa1b2_3c4du32 } else { 0xa1b2_c3d4 };
        let mut file = four(magic).to_vec();
        file.extend(two(2).into_iter().chain(two(4)));
        for number in [0, 0, 262_144, self.link.number()] {
            file.extend(four(number));
        }
        for (ms, packet, there) in &self.packets {
            let part = (ms % 1000) as u32 * if nanos { 1_000_000 } else { 1_000 };
            for number in [1_794_962_996 + (ms / 1000) as u32, part, packet.len() as u32, *there as u32] {
                file.extend(four(number));
            }
            file.extend_from_slice(packet);
        }
        file
    }

    pub(super) fn pcapng(&self, big: bool, nanos: bool) -> Vec<u8> {
        let four = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let two = |number: u16| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let block = |kind: u32, body: Vec<u8>| {
            let padded = body.len().div_ceil(4) * 4;
            let mut block = four(kind).to_vec();
            block.extend(four(padded as u32 + 12));
            block.extend_from_slice(&body);
            block.resize(8 + padded, 0);
            block.extend(four(padded as u32 + 12));
            block
        };
        let mut head = four(0x1a2b_3c4d).to_vec();
        head.extend(two(1).into_iter().chain(two(0)).chain([0xff; 8]));
        let mut file = block(0x0a0d_0d0a, head);
        let mut about = two(self.link.number() as u16).to_vec();
        about.extend(two(0).into_iter().chain(four(262_144)));
        if nanos {
            about.extend(two(9).into_iter().chain(two(1)).chain([9, 0, 0, 0]));
        }
        about.extend(two(0).into_iter().chain(two(0)));
        file.extend(block(1, about));
        for (ms, packet, there) in &self.packets {
            let units = (1_794_962_996_000 + ms) * if nanos { 1_000_000 } else { 1_000 };
            let mut body = Vec::new();
            for number in [0, (units >> 32) as u32, units as u32, packet.len() as u32, *there as u32] {
                body.extend(four(number));
            }
            body.extend_from_slice(packet);
            file.extend(block(6, body));
        }
        file
    }
}

pub(super) fn collect(file: Vec<u8>) -> Result<Collected, String> {
    let mut collected = Collected::default();
    let input = Input::from_reader("test.pcap", Box::new(std::io::Cursor::new(file)), None).expect("readable");
    read(input, &Options::default(), &mut 1, &mut collected).map_err(|error| error.to_string())?;
    Ok(collected)
}

pub(super) fn kinds(collected: &Collected) -> Vec<(Side, Kind)> {
    collected.events.iter().filter_map(Event::message).map(|(from, message)| (from, message.kind)).collect()
}

pub(super) fn happened(collected: &Collected) -> Vec<&Happening> {
    let what = collected.events.iter().map(|event| &event.what);
    what.filter_map(|what| if let What::Happening(happening) = what { Some(happening) } else { None }).collect()
}

/// From whom bytes were lost, and why.
pub(super) fn losses(collected: &Collected) -> Vec<(Option<Side>, &str)> {
    let lost = |what| if let &Happening::Lost { from, ref why, .. } = what { Some((from, why.as_str())) } else { None };
    happened(collected).into_iter().filter_map(lost).collect()
}

/// A WebSocket frame, masked as a client's.
pub(super) fn masked(first: u8, text: &[u8]) -> Vec<u8> {
    let key = [1u8, 2, 3, 4];
    let mut frame = vec![first, 0x80 | text.len() as u8];
    frame.extend_from_slice(&key);
    frame.extend(text.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]));
    frame
}

pub(super) fn post(body: &[u8], more: &str) -> Vec<u8> {
    let head = format!(
        "POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(super) fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(super) const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
pub(super) const PONG: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
pub(super) const EXCHANGE: [(Side, Kind); 2] = [(Side::Client, Kind::Request), (Side::Server, Kind::Result)];
