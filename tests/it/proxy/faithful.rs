//! What leaves is what entered.

use super::*;

#[test]
fn heads_and_bodies_pass_as_they_came() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        tell.send(line.message()).unwrap();
        line.send(
            "HTTP/1.1 299 Most Odd\r\nX-uPPer: One\r\nServer: mine\r\nX-Two: a\r\nKeep-Alive: timeout=5\r\nMcp-Session-Id: s1\r\nContent-Length: 4\r\nX-Last: z\r\n\r\nabcd",
        );
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(
        "POST /a%20b//c?x=%7e&&y HTTP/1.1\r\nhOst: localhost:1\r\nX-First: 1\r\nConnection: keep-alive\r\nORIGIN: http://evil.example\r\naccept: */*\r\ncontent-length: 5\r\nX-Last: ü\r\n\r\nhello",
    );
    let (head, body) = client.message();
    assert_eq!(
        head,
        "HTTP/1.1 299 Most Odd\r\nX-uPPer: One\r\nServer: mine\r\nX-Two: a\r\nMcp-Session-Id: s1\r\nContent-Length: 4\r\nX-Last: z\r\n\r\n"
    );
    assert_eq!(body, "abcd");
    let (head, body) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(
        head,
        "POST /a%20b//c?x=%7e&&y HTTP/1.1\r\nhOst: localhost:1\r\nX-First: 1\r\nORIGIN: http://evil.example\r\naccept: */*\r\ncontent-length: 5\r\nX-Last: ü\r\n\r\n"
    );
    assert_eq!(body, "hello");
    client.close();
    assert_eq!(proxy.finish().statuses(), [299]);
}

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |mut line| {
        line.message();
        line.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for number in 0..20 {
            wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            let event = format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"n{number}\"}}\n\n");
            line.send(format!("{:x}\r\n{event}\r\n", event.len()));
        }
        line.send("0\r\n\r\n");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    assert!(client.head().contains("Transfer-Encoding: chunked\r\n"), "the head waits for no body");
    for number in 0..20 {
        go.send(()).unwrap();
        assert!(client.chunk().contains(&format!("\"n{number}\"")));
    }
    assert_eq!(client.chunk(), "");
    client.close();
    let recorded = proxy.finish();
    assert_eq!(recorded.messages().len(), 21);
    assert_eq!(recorded.ends(), ["server eof"]);
}

#[test]
fn uploads_stream_with_their_trailers_and_both_ways_at_once() {
    let upstream = Upstream::start(|mut line| {
        let head = line.head();
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        line.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
        loop {
            // Echoes before the upload has ended.
            let chunk = line.chunk();
            if chunk.is_empty() {
                break;
            }
            line.send(format!("{:x}\r\n{chunk}\r\n", chunk.len()));
        }
        line.send("0\r\nX-Sum: 7\r\n\r\n");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("4\r\nwiki\r\n");
    client.head();
    assert_eq!(client.chunk(), "wiki");
    client.send("2\r\nXY\r\n0\r\n\r\n");
    assert_eq!(client.chunk(), "XY");
    assert_eq!([client.line(), client.line(), client.line()].concat().to_lowercase(), "0\r\nx-sum: 7\r\n\r\n");
    client.close();
    let recorded = proxy.finish();
    assert!(recorded.happenings().any(|what| matches!(what, Happening::CarrierTrailers { .. })));
}

#[test]
fn a_large_upload_needs_no_memory_and_arrives_whole() {
    const MEGABYTES: usize = 64;
    let upstream = Upstream::start(|mut line| {
        line.head();
        let mut sum = 0u64;
        for _ in 0..MEGABYTES {
            sum += line.bytes(1 << 20).iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
        let sum = sum.to_string();
        line.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{sum}", sum.len()));
        line.gone();
    });
    let tape = Tape::new(None);
    tape.switch_off();
    let proxy = Tapped::with(upstream.address, ProxyLimits { workers: 1, ..ProxyLimits::default() }, Some(tape));
    let mut client = proxy.line();
    client.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", MEGABYTES << 20));
    let megabyte: Vec<u8> = (0..1u32 << 20).map(|number| number as u8).collect();
    for _ in 0..MEGABYTES {
        client.send(&megabyte);
    }
    let sum: u64 = megabyte.iter().map(|byte| u64::from(*byte)).sum::<u64>() * MEGABYTES as u64;
    assert_eq!(client.message().1, sum.to_string());
}

#[test]
fn a_client_that_expects_100_sends_its_body_when_upstream_says_so() {
    let upstream = Upstream::start(|mut line| {
        loop {
            let head = line.head();
            match head.split(' ').nth(1) {
                Some("/no") => {
                    line.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
                }
                Some(_) => {
                    assert!(head.contains("Expect: 100-continue"), "{head}");
                    line.send("HTTP/1.1 100 Continue\r\n\r\n");
                    assert_eq!(line.bytes(5), b"hello");
                    line.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
                None => return,
            }
        }
    });
    let proxy = Tapped::before(upstream.address);
    let ask = |path: &str| {
        let mut client = proxy.line();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        ));
        let head = client.head();
        (client, head)
    };
    let (mut client, head) = ask("/yes");
    assert!(head.starts_with("HTTP/1.1 100"), "{head}");
    client.send("hello");
    assert_eq!(client.message().1, "ok");
    let (_, head) = ask("/no");
    assert!(head.starts_with("HTTP/1.1 417"), "{head}");
}

#[test]
fn a_body_that_came_although_it_was_to_be_asked_for_is_passed_on_at_once() {
    let upstream = Upstream::start(|mut line| {
        while !line.message().0.is_empty() {
            line.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    let begin = std::time::Instant::now();
    for _ in 0..30 {
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi");
        let mut head = client.head();
        if head.starts_with("HTTP/1.1 100") {
            head = client.head();
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(client.bytes(2), b"ok");
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "each was held back for a second");
}

#[test]
fn responses_without_bodies_keep_their_lengths_and_the_connection() {
    let upstream = Upstream::start(|mut line| {
        loop {
            let head = line.head();
            match head.split(' ').nth(1) {
                Some("/head") => line.send("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
                Some("/none") => line.send("HTTP/1.1 204 No Content\r\n\r\n"),
                Some("/same") => line.send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
                Some("/taken") => line.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
                _ => return,
            };
        }
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    for (ask, answer) in [
        ("HEAD /head", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
        ("GET /none", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET /same", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
        ("POST /taken", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
    ] {
        client.send(format!("{ask} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.head(), answer, "{ask}");
    }
    client.close();
    assert_eq!(proxy.finish().ends(), ["server eof"; 4]);
}

#[test]
fn connections_are_kept_on_both_sides_and_stale_ones_replaced() {
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = connections.clone();
    let upstream = Upstream::start(move |mut line| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        // Ends the connection after three answers, without saying so in the last.
        for _ in 0..3 {
            if line.message().0.is_empty() {
                return;
            }
            line.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    for number in 0..9 {
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
        let (head, body) = client.message();
        // The end of a kept connection may cross a request: that is told, and not hidden by sending it twice.
        assert!(body == "ok" || head.starts_with("HTTP/1.1 502"), "{number}: {head}");
    }
    assert!(connections.load(std::sync::atomic::Ordering::SeqCst) <= 6);
}
