//! Upstreams, clients and recorders that fail, and traffic that goes on.

use super::*;
use rpctap::event::tape::{Spill, TAPE_BYTES};

#[test]
fn an_upstream_that_is_down_is_told_to_client_and_recorder() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Tapped::before(free);
    let (head, body) = proxy.post("", CALL).message();
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    assert!(body.starts_with("rpctap: upstream http://127.0.0.1") && body.contains("refused"), "{body}");
    let recorded = proxy.finish();
    assert_eq!((recorded.statuses(), recorded.ends()), (vec![502], vec!["server error".to_string()]));
    assert!(recorded.notes().iter().any(|note| note.contains("cannot be reached")), "{:?}", recorded.notes());
    assert_eq!(recorded.messages(), ["-> 1 tools/call"], "what was asked is known all the same");
}

#[test]
fn a_client_that_asks_before_it_sends_hears_sooner_that_upstream_is_down() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Tapped::before(free);
    let hears_after = |expect: &str| {
        let begin = std::time::Instant::now();
        let mut client = proxy.line();
        client.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\n{expect}Content-Length: 5\r\n\r\n"));
        assert!(client.message().0.starts_with("HTTP/1.1 502 "));
        client.gone();
        begin.elapsed()
    };
    // For the body of one that does not ask it waits a moment.
    assert!(hears_after("Expect: 100-continue\r\n") < hears_after(""));
}

#[test]
fn a_server_that_takes_one_connection_at_a_time_is_not_held_up_by_clients_long_gone() {
    let one_at_a_time = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = one_at_a_time.local_addr().unwrap();
    thread::spawn(move || {
        for stream in one_at_a_time.incoming() {
            let mut line = Line::new(stream.unwrap());
            while !line.message().0.is_empty() {
                line.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n{RESULT}"
                ));
            }
        }
    });
    // Two workers: each would have its own idea of which connection to keep.
    let limits = ProxyLimits { workers: 2, ..ProxyLimits::default() };
    let proxy = Tapped::with(address, limits, None);
    for _ in 0..4 {
        let mut client = proxy.post("", CALL);
        assert_eq!(client.message().1, RESULT);
        client.close();
    }
    assert_eq!(proxy.finish().statuses(), [200; 4]);
}

#[test]
fn a_connection_that_nobody_will_use_again_is_not_kept_while_its_client_takes_leave() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        line.message();
        line.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        line.gone();
        tell.send(()).unwrap();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("Connection: close\r\n", CALL);
    client.message();
    client.gone();
    // Less than the proxy waits for the client to close, too.
    told.recv_timeout(Duration::from_millis(800)).unwrap();
}

#[test]
fn a_response_with_two_lengths_is_passed_on_with_the_one_that_counts() {
    let upstream = Upstream::start(|mut line| {
        line.message();
        line.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n24\r\n{RESULT}\r\n0\r\n\r\n"
        ));
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200") && field(&head, "content-length").is_none(), "{head}");
    assert_eq!(client.chunk(), RESULT);
    client.close();
    assert_eq!(proxy.finish().messages(), ["-> 1 tools/call", "<- 1"]);
}

#[test]
fn an_upstream_that_resets_within_a_chunk_tears_the_client_too() {
    let upstream = Upstream::start(|mut line| {
        line.message();
        line.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n100\r\ndata: {",
        );
        line.tear();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    client.head();
    let rest = client.rest().unwrap_or_default();
    assert!(!rest.ends_with("0\r\n\r\n"), "the torn body must not look whole: {rest:?}");
    assert_eq!(proxy.finish().ends(), ["server reset"]);
}

#[test]
fn what_came_before_a_response_broke_off_reaches_a_client_that_sends_on() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        line.head();
        line.send("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n").send(vec![b'x'; 1_000_000]);
        line.close();
        tell.send(()).unwrap();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").send(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n".to_string() + &"y".repeat(300_000),
    );
    told.recv_timeout(PATIENCE).unwrap();
    assert!(client.head().starts_with("HTTP/1.1 200"));
    assert!(client.bytes(1_000_000).iter().all(|byte| *byte == b'x'));
    client.gone();
    assert_eq!(proxy.finish().ends(), ["server reset"]);
}

#[test]
fn half_a_head_or_nothing_at_all_is_a_bad_gateway() {
    for half in ["HTTP/1.1 200 OK\r\nContent-Le", "", "no http at all\r\n\r\n"] {
        let upstream = Upstream::start(move |mut line| {
            line.message();
            line.send(half);
            line.close();
        });
        let proxy = Tapped::before(upstream.address);
        let (head, body) = proxy.post("", CALL).message();
        assert!(head.starts_with("HTTP/1.1 502 "), "{half:?}: {head}");
        assert!(body.contains("ended before it answered"), "{body}");
        assert_eq!(proxy.finish().ends(), ["server reset"]);
    }
}

#[test]
fn two_hundred_slow_clients_hold_up_nobody() {
    let upstream = Upstream::start(|mut line| {
        while !line.message().0.is_empty() {
            line.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n{RESULT}"
            ));
        }
    });
    let proxy = Tapped::before(upstream.address);
    let request = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{CALL}",
        CALL.len()
    );
    let mut slow: Vec<Line> = (0..200).map(|_| proxy.line()).collect();
    for byte in request.as_bytes() {
        for client in &mut slow {
            client.send([*byte]);
        }
        if *byte == b'\n' {
            // A quick one in between is served at once.
            assert!(proxy.post("", CALL).message().0.starts_with("HTTP/1.1 200"));
        }
    }
    for client in &mut slow {
        assert_eq!(client.message().1, RESULT);
    }
    drop(slow);
    let recorded = proxy.finish();
    assert_eq!(recorded.messages().iter().filter(|message| *message == "<- 1").count(), 205);
}

#[test]
fn a_bomb_passes_unopened_and_is_told() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(br#"{"jsonrpc":"2.0","id":1,"result":""#).unwrap();
    let megabyte = vec![b'a'; 1 << 20];
    for _ in 0..100 {
        gzip.write_all(&megabyte).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    let copy = bomb.clone();
    let upstream = Upstream::start(move |mut line| {
        line.message();
        line.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            copy.len()
        ));
        line.send(&copy);
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    client.head();
    assert!(client.bytes(bomb.len()) == bomb);
    client.close();
    let recorded = proxy.finish();
    assert!(recorded.notes().iter().any(|note| note.contains("inflates beyond")), "{:?}", recorded.notes());
    let kept: usize = recorded.kept.streams.values().map(Vec::len).sum();
    assert!(kept < 16 << 20, "{kept} bytes were kept of the bomb");
}

/// A stream far longer than the tape, with a recorder that never comes.
fn stream_past(tape: Arc<Tape>) {
    let long = TAPE_BYTES * 3;
    let upstream = Upstream::start(move |mut line| {
        line.message();
        line.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {long}\r\n\r\n"
        ));
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..long / piece.len() {
            line.send(&piece);
        }
        line.gone();
    });
    let proxy = Tapped::with(upstream.address, ProxyLimits { workers: 1, ..ProxyLimits::default() }, Some(tape));
    let mut client = proxy.post("", CALL);
    client.head();
    for _ in 0..long / (1 << 16) {
        client.bytes(1 << 16);
    }
    client.close();
}

#[test]
fn a_recorder_that_is_behind_does_not_hold_up_traffic_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let spill = Spill { path: folder.path().join("spool"), ..Spill::default() };
    let tape = Tape::new(Some(spill));
    stream_past(tape.clone());
    assert_eq!(tape.lost().records, 0);
    let mut raw = Vec::new();
    let mut bytes = 0;
    while tape.next(&mut raw).unwrap().is_some() {
        bytes += raw.len();
    }
    assert!(bytes > TAPE_BYTES * 3);
}

#[test]
fn a_disk_that_takes_nothing_does_not_hold_up_traffic_and_the_loss_is_counted() {
    let spill = Spill { path: "/nowhere/at/all/spool".into(), ..Spill::default() };
    let tape = Tape::new(Some(spill));
    stream_past(tape.clone());
    assert!(tape.lost().records > 0 && tape.lost().why.contains("/nowhere"), "{:?}", tape.lost());
}
