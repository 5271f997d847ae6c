//! Captures that lack a packet: whichever it is, nobody is accused of what did not happen.
//!
//! One small conversation with one call that is never answered, in each framing, put together packet by packet. Every
//! packet with data in it is left out once, in captures where each side acknowledges at once and in captures where it
//! does so only when it speaks again.

use rpctap::event::Collected;
use rpctap::finding::{Analyzer, Options, Severity};
use rpctap::import;

const HUNG: u32 = 3;
const CALLS: u32 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

struct Packet {
    at_ms: u64,
    bytes: Vec<u8>,
    has_data: bool,
}

struct Capture {
    packets: Vec<Packet>,
    now_ms: u64,
    /// Whether each side acknowledges at once.
    prompt: bool,
}

struct Connection {
    port: u16,
    client: u32,
    server: u32,
}

impl Capture {
    fn open(&mut self, port: u16) -> Connection {
        let mut connection = Connection { port, client: 1000, server: 900_000 };
        self.put(&mut connection, true, SYN, b"");
        self.put(&mut connection, false, SYN | ACK, b"");
        self.put(&mut connection, true, ACK, b"");
        connection
    }

    fn say(&mut self, connection: &mut Connection, by_client: bool, text: &[u8]) {
        self.put(connection, by_client, PUSH | ACK, text);
        if self.prompt {
            self.put(connection, !by_client, ACK, b"");
        }
    }

    fn close(&mut self, connection: &mut Connection) {
        self.put(connection, true, FIN | ACK, b"");
        self.put(connection, false, FIN | ACK, b"");
        self.put(connection, true, ACK, b"");
    }

    fn put(&mut self, connection: &mut Connection, by_client: bool, flags: u8, text: &[u8]) {
        let (client, server) = (connection.port, 8080);
        let ports = if by_client { [client, server] } else { [server, client] };
        let (seq, ack) =
            if by_client { (connection.client, connection.server) } else { (connection.server, connection.client) };
        let (from, to) = if by_client { (1, 2) } else { (2, 1) };
        let mut bytes = vec![0x45, 0];
        bytes.extend((text.len() as u16 + 40).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        bytes.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        bytes.extend(seq.to_be_bytes().into_iter().chain(ack.to_be_bytes()));
        bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend_from_slice(text);
        self.now_ms += 1;
        self.packets.push(Packet { at_ms: self.now_ms, bytes, has_data: !text.is_empty() });
        let taken = text.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        *(if by_client { &mut connection.client } else { &mut connection.server }) += taken;
    }

    fn file(&self, without: Option<usize>) -> Vec<u8> {
        let mut file = Vec::new();
        for number in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 262_144, 101] {
            file.extend(number.to_le_bytes());
        }
        let kept = self.packets.iter().enumerate().filter(|(place, _)| Some(*place) != without);
        for (_, packet) in kept {
            let (seconds, micros) = (1_794_962_996 + packet.at_ms / 1000, packet.at_ms % 1000 * 1000);
            for number in [seconds as u32, micros as u32, packet.bytes.len() as u32, packet.bytes.len() as u32] {
                file.extend(number.to_le_bytes());
            }
            file.extend_from_slice(&packet.bytes);
        }
        file
    }
}

fn ask(id: u32) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"work\",\"params\":{{\"n\":{id}}}}}").into_bytes()
}

fn answer(id: u32) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"n\":{id}}}}}").into_bytes()
}

/// Calls one after the other, of which one is never answered, on one connection.
fn bare(capture: &mut Capture, frame: &dyn Fn(bool, Vec<u8>) -> Vec<u8>, first: &[(bool, &[u8])], last: bool) {
    let mut line = capture.open(50_000);
    for (by_client, text) in first {
        capture.say(&mut line, *by_client, text);
    }
    for id in 1..=CALLS {
        capture.now_ms += 1_000;
        capture.say(&mut line, true, &frame(true, ask(id)));
        if id != HUNG {
            capture.say(&mut line, false, &frame(false, answer(id)));
        }
    }
    capture.now_ms += 100_000;
    if last {
        capture.say(&mut line, true, &socket_frame(true, 0x88, &[3, 0xe8]));
        capture.say(&mut line, false, &socket_frame(false, 0x88, &[3, 0xe8]));
    }
    capture.close(&mut line);
}

fn lines(capture: &mut Capture) {
    bare(capture, &|_, text| [text, b"\n".to_vec()].concat(), &[], false);
}

fn content_length(capture: &mut Capture) {
    let frame = |_, text: Vec<u8>| [format!("Content-Length: {}\r\n\r\n", text.len()).into_bytes(), text].concat();
    bare(capture, &frame, &[], false);
}

fn socket_frame(by_client: bool, first: u8, text: &[u8]) -> Vec<u8> {
    let key = [7u8, 1, 9, 3];
    let mut frame = vec![first, text.len() as u8 | if by_client { 0x80 } else { 0 }];
    if by_client {
        frame.extend(key);
    }
    frame.extend(text.iter().enumerate().map(|(at, byte)| if by_client { byte ^ key[at % 4] } else { *byte }));
    frame
}

fn web_socket(capture: &mut Capture) {
    let upgrade = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    let agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Accept: x\r\n\r\n";
    let frame = |by_client, text: Vec<u8>| socket_frame(by_client, 0x81, &text);
    bare(capture, &frame, &[(true, upgrade), (false, agreed)], true);
}

fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn http(capture: &mut Capture) {
    let mut line = capture.open(50_000);
    let mut hung = None;
    for id in 1..=CALLS {
        capture.now_ms += 1_000;
        if id == HUNG {
            let mut other = capture.open(50_001);
            capture.say(&mut other, true, &post("/rpc", &ask(id)));
            hung = Some(other);
            continue;
        }
        // Heads and bodies in packets of their own, as many programs write them.
        let asked = post("/rpc", &ask(id));
        let (head, body) = asked.split_at(asked.len() - ask(id).len());
        capture.say(&mut line, true, head);
        capture.say(&mut line, true, body);
        let body = answer(id);
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        capture.say(&mut line, false, head.as_bytes());
        capture.say(&mut line, false, &body);
    }
    capture.now_ms += 100_000;
    capture.close(&mut line);
    if let Some(mut hung) = hung {
        capture.close(&mut hung);
    }
}

fn http_events(capture: &mut Capture) {
    let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len()).into_bytes();
    let mut stream = capture.open(50_000);
    capture.say(&mut stream, true, b"GET /sse HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n");
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    // Who only listens acknowledges all the same.
    let hear = |capture: &mut Capture, stream: &mut Connection, text: &[u8]| {
        capture.put(stream, false, PUSH | ACK, text);
        capture.put(stream, true, ACK, b"");
    };
    hear(capture, &mut stream, head);
    hear(capture, &mut stream, &chunk("event: endpoint\r\ndata: /messages?session_id=abc\r\n\r\n".to_string()));
    let mut line = capture.open(50_001);
    let accepted = b"HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted";
    for id in 1..=CALLS {
        capture.now_ms += 1_000;
        capture.say(&mut line, true, &post("/messages?session_id=abc", &ask(id)));
        if id != HUNG {
            let event = format!("event: message\r\ndata: {}\r\n\r\n", String::from_utf8(answer(id)).expect("text"));
            // The answer comes before its request is even accepted.
            hear(capture, &mut stream, &chunk(event));
        }
        capture.say(&mut line, false, accepted);
    }
    capture.now_ms += 100_000;
    capture.close(&mut line);
    capture.close(&mut stream);
}

/// The accusations of a capture, and whether it says that something is missing; `None` where nothing could be read.
fn accusations(file: Vec<u8>) -> Option<(Vec<(String, u64)>, bool)> {
    let mut collected = Collected::default();
    let input = import::Input::from_reader("test.pcap", Box::new(std::io::Cursor::new(file)), None).expect("readable");
    import::read(input, &import::Options::default(), &mut 1, &mut collected).ok()?;
    let mut bodies = collected.clone();
    let mut told = Vec::new();
    let mut missing = false;
    for session in &collected.sessions {
        let mut analyzer = Analyzer::new(session, &Options::default());
        for event in collected.events.iter().filter(|event| event.session == session.key) {
            analyzer.event(event, &mut bodies);
        }
        let judged = analyzer.finish(None);
        missing |= judged.notes.iter().any(|note| note.text.contains("missing"));
        let worst = judged.findings.iter().filter(|finding| finding.severity >= Severity::Suspect);
        told.extend(worst.map(|finding| (finding.rule.name.to_string(), finding.count)));
    }
    Some((told, missing))
}

#[test]
fn whichever_packet_is_missing_nobody_is_accused_of_what_did_not_happen() {
    type Talk = (&'static str, fn(&mut Capture));
    let talks: [Talk; 5] = [
        ("lines", lines),
        ("content-length", content_length),
        ("http", http),
        ("events", http_events),
        ("web-socket", web_socket),
    ];
    for (name, talk) in talks {
        for prompt in [true, false] {
            let mut capture = Capture { packets: Vec::new(), now_ms: 0, prompt };
            talk(&mut capture);
            let (whole, missing) = accusations(capture.file(None)).expect("readable");
            assert!(!missing && whole.iter().any(|(_, count)| *count == 1), "{name}: {whole:?}");
            let mut kept = 0;
            let with_data: Vec<usize> = (0..capture.packets.len()).filter(|at| capture.packets[*at].has_data).collect();
            for place in &with_data {
                let Some((told, missing)) = accusations(capture.file(Some(*place))) else { continue };
                // Where it does not show that the session ended, the call that hangs is only overdue.
                let hangs = |(rule, count): &(String, u64)| rule == "overdue-request" && *count == 1;
                let more: Vec<_> = told.iter().filter(|told| !whole.contains(told) && !hangs(told)).collect();
                assert!(more.is_empty(), "{name}, prompt {prompt}, without packet {place}: {more:?}");
                assert!(missing, "{name}, prompt {prompt}, without packet {place}: not told");
                kept += usize::from(told == whole);
            }
            assert!(kept * 4 >= with_data.len(), "{name}: the call that hangs is told {kept} of {}", with_data.len());
        }
    }
}
