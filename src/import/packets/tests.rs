//! Captures put together by hand: every link type, byte order and resolution, and what connections can go through.

use crate::event::{Collected, Event, Happening, How, Party, Side, What};
use crate::import::{Input, Options, read};
use crate::rpc::{Kind, Oddity, Unreadable};

const CLIENT_PORT: u16 = 50_000;
const SERVER_PORT: u16 = 8_080;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
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
fn ip(from_client: bool, seq: u32, ack: u32, flags: u8, payload: &[u8], v6: bool) -> Vec<u8> {
    let (from, to) = if from_client { (CLIENT_PORT, SERVER_PORT) } else { (SERVER_PORT, CLIENT_PORT) };
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

struct Capture {
    link: Link,
    v6: bool,
    /// Time in milliseconds, bytes kept, bytes there were.
    packets: Vec<(u64, Vec<u8>, usize)>,
    client_seq: u32,
    server_seq: u32,
}

impl Capture {
    fn new(link: Link, v6: bool) -> Capture {
        Capture { link, v6, packets: Vec::new(), client_seq: u32::MAX - 20, server_seq: 7 }
    }

    fn put(&mut self, from_client: bool, flags: u8, payload: &[u8]) -> &mut Capture {
        self.put_cut(from_client, flags, payload, payload.len())
    }

    /// Of the payload only `kept` bytes are in the capture.
    fn put_cut(&mut self, from_client: bool, flags: u8, payload: &[u8], kept: usize) -> &mut Capture {
        let (seq, ack) =
            if from_client { (self.client_seq, self.server_seq) } else { (self.server_seq, self.client_seq) };
        let packet = self.link.wrap(&ip(from_client, seq, ack, flags, payload, self.v6), self.v6);
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

    fn open(&mut self) -> &mut Capture {
        self.put(true, SYN, b"").put(false, SYN | ACK, b"").put(true, ACK, b"")
    }

    fn close(&mut self) -> &mut Capture {
        self.put(true, FIN | ACK, b"").put(false, FIN | ACK, b"").put(true, ACK, b"")
    }

    fn pcap(&self, big: bool, nanos: bool) -> Vec<u8> {
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

    fn pcapng(&self, big: bool, nanos: bool) -> Vec<u8> {
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

fn collect(file: Vec<u8>) -> Result<Collected, String> {
    let mut collected = Collected::default();
    let input = Input::from_reader("test.pcap", Box::new(std::io::Cursor::new(file)), None).expect("readable");
    read(input, &Options::default(), &mut 1, &mut collected).map_err(|error| error.to_string())?;
    Ok(collected)
}

fn kinds(collected: &Collected) -> Vec<(Side, Kind)> {
    collected.events.iter().filter_map(Event::message).map(|(from, message)| (from, message.kind)).collect()
}

fn happened(collected: &Collected) -> Vec<&Happening> {
    let what = collected.events.iter().map(|event| &event.what);
    what.filter_map(|what| if let What::Happening(happening) = what { Some(happening) } else { None }).collect()
}

const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
const PONG: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
const EXCHANGE: [(Side, Kind); 2] = [(Side::Client, Kind::Request), (Side::Server, Kind::Result)];

#[test]
fn every_link_order_and_resolution() {
    let links = [Link::Ethernet, Link::Vlan, Link::Cooked, Link::Cooked2, Link::Null, Link::NullSwapped, Link::Raw];
    for link in links {
        for v6 in [false, true] {
            let mut capture = Capture::new(link, v6);
            capture.open().put(true, ACK, &PING[..10]).put(true, ACK, &PING[10..]).put(false, ACK, PONG).close();
            for (big, nanos) in [(false, false), (true, false), (false, true), (true, true)] {
                for file in [capture.pcap(big, nanos), capture.pcapng(big, nanos)] {
                    let collected = collect(file).expect("readable");
                    let what = format!("{link:?} v6 {v6} big {big} nanos {nanos}");
                    assert_eq!(kinds(&collected), EXCHANGE, "{what}");
                    let request = collected.events.iter().find(|event| event.message().is_some()).expect("the request");
                    assert_eq!(request.at, 1_794_962_996_040_000, "{what}");
                    let how = |what: &Happening| matches!(what, Happening::Closed { how: How::Eof, .. });
                    assert_eq!(happened(&collected).iter().filter(|what| how(what)).count(), 2, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_reset_is_no_ordered_end() {
    let mut capture = Capture::new(Link::Raw, false);
    capture.open().put(true, ACK, PING).put(false, RST, b"");
    let collected = collect(capture.pcap(false, false)).expect("readable");
    let resets: Vec<_> = happened(&collected)
        .into_iter()
        .filter(|what| matches!(what, Happening::Closed { by: Party::Server, how: How::Reset, .. }))
        .collect();
    assert_eq!(resets.len(), 2);
}

#[test]
fn a_missing_packet_is_a_loss_and_what_follows_is_read() {
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open().put(true, ACK, PING);
    capture.client_seq = capture.client_seq.wrapping_add(500);
    for _ in 0..30 {
        capture.put(true, ACK, PING).put(false, ACK, b"");
    }
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected).len(), 31);
    let lost: Vec<_> = happened(&collected)
        .into_iter()
        .filter_map(|what| if let Happening::Lost { from, bytes, .. } = what { Some((*from, *bytes)) } else { None })
        .collect();
    assert_eq!(lost, [(Some(Side::Client), 500)]);
}

#[test]
fn what_the_snap_length_cut_is_told_with_the_message_it_fell_into() {
    let mut capture = Capture::new(Link::Ethernet, false);
    let long =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{{\"text\":\"{}\"}}}}\n", "y".repeat(900));
    capture.open().put_cut(true, ACK, long.as_bytes(), 100).put(true, ACK, PING).put(false, ACK, PONG);
    let collected = collect(capture.pcapng(false, false)).expect("readable");
    let (_, first) = collected.events.iter().filter_map(Event::message).next().expect("the message that was cut");
    let known = first.kind == Kind::Request && first.oddities.has(Oddity::PayloadCut);
    assert!(known || first.kind == Kind::Unreadable(Unreadable::Truncated), "{first:?}");
    assert_eq!(kinds(&collected)[1..], EXCHANGE);
}

#[test]
fn a_capture_that_begins_later_says_so() {
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.put(false, ACK, PONG).put(true, ACK, PING).put(false, ACK, PONG);
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert!(!collected.sessions[0].knows.direction);
    assert_eq!(kinds(&collected).len(), 3);
    assert_eq!(kinds(&collected)[0].0, Side::Server);
    let guessed = |what: &&Happening| matches!(what, Happening::Note { text } if text.contains("guessed"));
    assert!(happened(&collected).iter().any(guessed));
}

#[test]
fn content_length_over_tcp_and_the_same_ports_twice() {
    let framed = |body: &[u8]| [format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat();
    let mut capture = Capture::new(Link::Cooked, false);
    capture.open().put(true, ACK, &framed(PING)).put(false, ACK, &framed(PONG)).close();
    capture.client_seq = 99;
    capture.server_seq = 5_000_000;
    capture.open().put(true, ACK, &framed(PING)).put(false, ACK, &framed(PONG)).close();
    let collected = collect(capture.pcap(true, false)).expect("readable");
    assert_eq!(collected.sessions.len(), 2);
    assert_eq!(kinds(&collected), [EXCHANGE, EXCHANGE].concat());
}

#[test]
fn encrypted_and_unknown_traffic_is_told_with_its_size() {
    for (first, word) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "encrypted"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "neither HTTP nor JSON-RPC"),
    ] {
        let mut capture = Capture::new(Link::Ethernet, false);
        capture.open().put(true, ACK, first).put(true, ACK, &[0xee; 1200]).close();
        let error = collect(capture.pcap(false, false)).expect_err("nothing to read");
        assert!(error.contains(word) && error.contains("1.2 kB") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_cut_last_packet_leaves_the_others() {
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open().put(true, ACK, PING).put(false, ACK, PONG).close();
    for file in [capture.pcap(false, false), capture.pcapng(true, true)] {
        for cut in 1..40 {
            let collected = collect(file[..file.len() - cut].to_vec()).expect("readable");
            assert_eq!(kinds(&collected), EXCHANGE);
        }
    }
}

#[test]
fn a_web_socket_is_read_from_its_upgrade_on() {
    let masked = |text: &[u8]| {
        let key = [1u8, 2, 3, 4];
        let mut frame = vec![0x81, 0x80 | text.len() as u8];
        frame.extend_from_slice(&key);
        frame.extend(text.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]));
        frame
    };
    let plain = |text: &[u8]| [&[0x81, text.len() as u8][..], text].concat();
    let mut capture = Capture::new(Link::Ethernet, false);
    capture
        .open()
        .put(
            true,
            ACK,
            b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
              Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        )
        .put(
            false,
            ACK,
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Accept: x\r\n\r\n",
        )
        .put(true, ACK, &masked(PING.trim_ascii()))
        .put(false, ACK, &plain(PONG.trim_ascii()))
        .close();
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), EXCHANGE);
}

#[test]
fn http_that_was_given_up_is_closed_by_the_client() {
    let call = b"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}";
    let post = [
        format!(
            "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n\
             Content-Length: {}\r\n\r\n",
            call.len()
        )
        .as_bytes(),
        call,
    ]
    .concat();
    let mut capture = Capture::new(Link::Ethernet, false);
    capture
        .open()
        .put(true, ACK, &post)
        .put(false, ACK, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        .put(true, FIN | ACK, b"");
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), [(Side::Client, Kind::Request)]);
    let closed = |what: &&Happening| matches!(what, Happening::CarrierClosed { by: Party::Client, how: How::Eof, .. });
    assert_eq!(happened(&collected).iter().filter(|what| closed(what)).count(), 1);
}
