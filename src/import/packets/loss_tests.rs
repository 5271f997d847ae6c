//! Captures that lack something: packets, a direction, the beginning, their order.

use super::by_hand::*;
use crate::event::{Event, Happening, Side};

#[test]
fn an_answer_that_is_missing_when_the_connection_closes_is_a_loss_of_its_session() {
    for (flags, reset) in [(FIN | ACK, false), (RST | ACK, true), (RST, true)] {
        for http in [false, true] {
            let (ask, answer) = if http { (post(PING, ""), ok(PONG)) } else { (PING.to_vec(), PONG.to_vec()) };
            let mut capture = Capture::new(Link::Ethernet, false);
            capture.open().put(true, ACK, &ask);
            capture.server_seq = capture.server_seq.wrapping_add(answer.len() as u32);
            if flags == RST {
                capture.put(true, ACK, b"");
            }
            capture.put(true, flags, b"");
            let collected = collect(capture.pcap(false, false)).expect("readable");
            let what = format!("reset {reset} http {http}");
            assert_eq!(losses(&collected), [(Some(Side::Server), "packets are missing from the capture")], "{what}");
            let place = |wanted: fn(&Happening) -> bool| happened(&collected).iter().position(|what| wanted(what));
            let lost = place(|what| matches!(what, Happening::Lost { .. }));
            let closed = place(|what| matches!(what, Happening::Closed { .. } | Happening::CarrierClosed { .. }));
            assert!(lost < closed, "{what}");
        }
    }
}

#[test]
fn a_lost_answer_does_not_shift_those_that_follow() {
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open().put(true, ACK, &post(PING, ""));
    capture.server_seq = capture.server_seq.wrapping_add(200);
    capture.put(true, ACK, &post(PING, "")).put(false, ACK, &ok(PONG));
    for _ in 0..20 {
        capture.put(true, ACK, b"").put(false, ACK, b"");
    }
    capture.put(true, ACK, &post(PING, "")).put(false, ACK, &ok(PONG)).close();
    let collected = collect(capture.pcap(false, false)).expect("readable");
    let answers = |event: &&Event| event.message().is_some_and(|(from, _)| from == Side::Server);
    let carriers: Vec<_> = collected.events.iter().filter(answers).map(|event| event.carrier).collect();
    assert_eq!(losses(&collected).len(), 1);
    assert_eq!(carriers.last(), Some(&Some(3)));
}

#[test]
fn one_direction_alone_says_nothing_about_the_other() {
    for http in [false, true] {
        let mut capture = Capture::new(Link::Ethernet, false);
        capture.put(true, SYN, b"");
        capture.server_seq += 1;
        capture.put(true, ACK, b"");
        for _ in 0..3 {
            capture.put(true, ACK, &if http { post(PING, "") } else { PING.to_vec() });
            capture.server_seq += 100;
        }
        capture.put(true, FIN | ACK, b"");
        let collected = collect(capture.pcap(false, false)).expect("readable");
        assert_eq!(kinds(&collected).len(), 3);
        assert!(losses(&collected).iter().all(|(from, _)| *from == Some(Side::Server)));
        assert!(losses(&collected).iter().any(|(_, why)| why.contains("only one direction")), "http {http}");
        let noted = |what: &&Happening| matches!(what, Happening::Note { text } if text.contains("one direction"));
        assert!(happened(&collected).iter().any(noted), "http {http}");
    }
}

#[test]
fn packed_requests_are_read_or_told() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(PING).expect("packed");
    let packed = gzip.finish().expect("packed");
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open().put(true, ACK, &post(&packed, "Content-Encoding: gzip\r\n")).put(false, ACK, &ok(PONG));
    capture.put(true, ACK, &post(b"whatever", "Content-Encoding: br\r\n")).put(false, ACK, &ok(b"something")).close();
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), EXCHANGE);
    assert_eq!(losses(&collected), [(Some(Side::Client), "a body coded as br cannot be read")]);
}

#[test]
fn packets_out_of_order_in_the_file_are_read_in_time() {
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open();
    for _ in 0..20 {
        capture.put(true, ACK, PING).put(false, ACK, PONG);
    }
    capture.close();
    let in_order = collect(capture.pcap(false, false)).expect("readable");
    for packets in capture.packets.chunks_mut(6) {
        packets.reverse();
    }
    let shuffled = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&in_order).len(), 40);
    assert_eq!(shuffled.events, in_order.events);
}

#[test]
fn http_is_known_and_read_from_its_next_message_on() {
    let mut capture = Capture::new(Link::Ethernet, false);
    // The body of a request whose head was sent before; it looks like a bare message.
    capture.put(true, ACK, PING).put(false, ACK, &ok(PONG));
    capture.put(true, ACK, &post(PING, "")).put(false, ACK, &ok(PONG)).close();
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), EXCHANGE);
    assert!(collected.events.iter().filter(|event| event.message().is_some()).all(|event| event.carrier.is_some()));
}

#[test]
fn http_is_known_behind_the_rest_of_a_long_body() {
    let mut capture = Capture::new(Link::Ethernet, false);
    let part = [b"\"id\":1,\"method\":\"x\"\n", &[b'y'; 1_400][..]].concat();
    for _ in 0..20 {
        capture.put(false, ACK, &part);
    }
    capture.put(true, ACK, &post(PING, "")).put(false, ACK, &ok(PONG)).close();
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), EXCHANGE);
}

#[test]
fn an_event_stream_from_before_the_capture_is_its_only_clients() {
    let event = |id: u32| {
        let text = format!("event: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\r\n\r\n");
        format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
    };
    for clients in [1, 2] {
        let mut stream = Capture::new(Link::Ethernet, false);
        stream.put(false, ACK, &event(0));
        let (client, server) = (stream.client_seq, stream.server_seq);
        for number in 0..clients {
            stream.client_port += 1;
            stream.open();
            let agent = format!("User-Agent: {number}\r\n");
            stream.put(true, ACK, &post(PING, &agent)).put(
                false,
                ACK,
                b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
            );
        }
        stream.client_port = CLIENT_PORT;
        (stream.client_seq, stream.server_seq) = (client, server);
        stream.put(false, ACK, &event(1));
        let collected = collect(stream.pcap(false, false)).expect("readable");
        let answers = kinds(&collected).iter().filter(|(from, _)| *from == Side::Server).count();
        assert_eq!(answers, if clients == 1 { 1 } else { 0 });
        assert_eq!(collected.sessions.len(), clients);
        // Whose it is cannot be said: then nothing of either may be judged.
        assert_eq!(losses(&collected).len(), 2);
    }
}

#[test]
fn bare_messages_are_read_from_the_next_line_on() {
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.put(true, ACK, &PING[9..]).put(false, ACK, &PONG[5..]).put(true, ACK, PING).put(false, ACK, PONG);
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), EXCHANGE);
    assert_eq!(losses(&collected).len(), 2);
    // One side alone: it is told that the other was not heard.
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.put(true, ACK, PING);
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert!(losses(&collected).iter().any(|(from, _)| *from == Some(Side::Server)));
}
