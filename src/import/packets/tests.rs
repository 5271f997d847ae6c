//! Every link type, byte order and resolution, and what connections can go through.

use super::by_hand::*;
use crate::event::{Event, Happening, How, Party, Side};
use crate::rpc::{Kind, Oddity, Unreadable};

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
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open().put_cut(true, ACK, &post(PING, ""), 50).put_cut(false, ACK, &ok(PONG), 20).close();
    let error = collect(capture.pcap(false, false)).expect_err("no head is whole");
    assert!(error.contains("2 of 8 packets are cut by the snap length"), "{error}");
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
            let breaks = |what: &&Happening| matches!(what, Happening::Note { text } if text.contains("breaks off"));
            assert!(happened(&collected).iter().any(breaks), "cut {cut}");
        }
    }
}

#[test]
fn a_break_is_told_in_a_session_that_had_ended() {
    let with_id = |text: &[u8], more: &str| post(text, &format!("Mcp-Session-Id: a\r\n{more}"));
    let gone = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let mut capture = Capture::new(Link::Ethernet, false);
    capture.open().put(true, ACK, &with_id(PING, "")).put(false, ACK, &ok(PONG));
    let delete = b"DELETE /rpc HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: a\r\n\r\n";
    capture.put(true, ACK, delete).put(false, ACK, gone).close();
    let file = capture.pcap(false, false);
    let collected = collect(file[..file.len() - 5].to_vec()).expect("readable");
    assert!(happened(&collected).iter().any(|what| matches!(what, Happening::SessionEnded { .. })));
    let breaks = |what: &&Happening| matches!(what, Happening::Note { text } if text.contains("breaks off"));
    assert_eq!(happened(&collected).iter().filter(|what| breaks(what)).count(), 1);
    // What stands for the session's id is the same whenever the file is read.
    assert_eq!(collect(file.clone()).expect("readable").events, collect(file).expect("readable").events);
}

#[test]
fn of_many_connections_the_quiet_ones_are_let_go() {
    let mut capture = Capture::new(Link::Raw, false);
    let many = super::flows::MOST_FLOWS + 100;
    for number in 0..many {
        capture.client_port = 10_000 + number as u16;
        capture.open().put(true, ACK, PING);
    }
    // The last of them goes on.
    capture.put(false, ACK, PONG).close();
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(collected.sessions.len(), many);
    assert_eq!(kinds(&collected).len(), many + 1);
    let let_go = losses(&collected).iter().filter(|(_, why)| why.contains("was let go")).count();
    assert!(let_go >= 100 && let_go < many * 2, "{let_go}");
}

#[test]
fn exchanges_of_connections_that_are_let_go_are_over_and_nobody_ended_them() {
    let mut capture = Capture::new(Link::Raw, false);
    let many = super::flows::MOST_FLOWS + 100;
    for number in 0..many {
        capture.client_port = 10_000 + number as u16;
        let head = "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n";
        capture.open().put(true, ACK, &[head.as_bytes(), PING].concat());
    }
    let collected = collect(capture.pcap(false, false)).expect("readable");
    let closed = |wanted: Party| {
        let by = |what: &&&Happening| matches!(what, Happening::CarrierClosed { by, .. } if *by == wanted);
        happened(&collected).iter().filter(by).count()
    };
    // The others are open until the capture ends.
    assert_eq!((closed(Party::Unknown), closed(Party::Tap)), (super::flows::MOST_FLOWS / 2, many - 1024));
    assert_eq!(kinds(&collected).len(), many);
}

#[test]
fn a_web_socket_is_read_from_its_upgrade_on() {
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
        .put(true, ACK, &masked(0x81, PING.trim_ascii()))
        .put(false, ACK, &plain(PONG.trim_ascii()))
        // The client closes, the server answers and lets go of the connection first.
        .put(true, ACK, &masked(0x88, &[0x03, 0xe8]))
        .put(false, ACK, &[0x88, 2, 0x03, 0xe8])
        .put(false, FIN | ACK, b"")
        .put(true, FIN | ACK, b"");
    let collected = collect(capture.pcap(false, false)).expect("readable");
    assert_eq!(kinds(&collected), EXCHANGE);
    let ends: Vec<_> = happened(&collected)
        .into_iter()
        .filter_map(|what| match what {
            Happening::Closed { by, how, .. } | Happening::CarrierClosed { by, how, .. } => Some((*by, *how)),
            _ => None,
        })
        .collect();
    let eof = |by: Party| (by, How::Eof);
    assert_eq!(ends, [eof(Party::Client), eof(Party::Server), eof(Party::Client)]);
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

#[test]
fn one_client_of_two_servers_has_two_conversations() {
    for (servers, sessions) in [([SERVER_PORT; 2], 1), ([SERVER_PORT, SERVER_PORT + 1], 2)] {
        let mut capture = Capture::new(Link::Ethernet, false);
        for server in servers {
            capture.client_port += 1;
            capture.server_port = server;
            capture.open().put(true, ACK, &post(PING, "")).put(false, ACK, &ok(PONG)).close();
        }
        let collected = collect(capture.pcap(false, false)).expect("readable");
        assert_eq!(collected.sessions.len(), sessions);
        assert_eq!(kinds(&collected), [EXCHANGE, EXCHANGE].concat());
    }
}
