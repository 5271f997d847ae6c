//! What belongs to one hop stays there; what does not passes byte for byte.

use super::*;

/// An upstream that answers each request with the same bytes and tells the heads it got.
fn answering(answer: &'static str) -> (Upstream, std::sync::mpsc::Receiver<String>) {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        loop {
            let (head, _) = line.message();
            if head.is_empty() {
                return;
            }
            let _ = tell.send(head);
            line.send(answer);
        }
    });
    (upstream, told)
}

#[test]
fn interim_responses_reach_those_who_know_them() {
    let (upstream, _) = answering(
        "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n");
    assert_eq!(client.message().1, "ok");
    client.send("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200"));
    assert_eq!(client.rest().unwrap(), "ok");
    assert_eq!(proxy.finish().statuses(), [200, 200]);
}

#[test]
fn chunks_and_trailers_pass_as_they_were_written() {
    let body = "5;a=\"b\"\r\nhello\r\n00003\r\n, x\r\n0\r\nX-Sum: 7\r\nX-sUM:8\r\n\r\n";
    let upstream = Upstream::start(move |mut line| {
        let head = line.head();
        assert!(head.contains("tRANSFER-eNCODING: Chunked\r\n"), "{head}");
        assert_eq!(String::from_utf8(line.bytes(body.len())).unwrap(), body);
        line.send(format!("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\ntRANSFER-eNCODING: Chunked\r\n\r\n{body}"));
    assert_eq!(client.head(), "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(String::from_utf8(client.bytes(body.len())).unwrap(), body);
    client.close();
    assert_eq!(proxy.finish().ends(), ["server eof"]);
}

#[test]
fn fields_keep_their_order_also_where_names_come_twice() {
    let answer = "HTTP/1.1 304 Not Modified\r\nSet-Cookie: a\r\nX-One:1\r\nSet-cookie:  b\r\nX-Two: \r\nContent-Length: 77\r\n\r\n";
    let (upstream, told) = answering(answer);
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    let head = "GET / HTTP/1.1\r\nX-B: 1\r\nHost: localhost\r\nx-a:2\r\nX-B: 3\r\n\r\n";
    for _ in 0..2 {
        client.send(head);
        assert_eq!(client.head(), answer.replace("X-Two: ", "X-Two:"));
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), head);
    }
}

#[test]
fn a_client_of_http_1_0_gets_a_body_without_chunks_that_ends_with_the_connection() {
    let (upstream, told) = answering(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n2\r\nXY\r\n0\r\n\r\n",
    );
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    assert_eq!(client.rest().unwrap(), "wikiXY");
    assert!(told.recv_timeout(PATIENCE).unwrap().starts_with("GET / HTTP/1.1\r\n"));
    // One that asks for it keeps its connection, where the length is known.
    let (upstream, _) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nHost: localhost\r\nConnection: Keep-Alive\r\n\r\n");
        let (head, body) = client.message();
        assert!(head.contains("Connection: keep-alive\r\n") && body == "ok", "{head}");
    }
}

#[test]
fn requests_sent_in_one_go_are_answered_in_order() {
    let upstream = Upstream::start(|mut line| {
        loop {
            let (head, body) = line.message();
            if head.is_empty() {
                return;
            }
            let target = head.split(' ').nth(1).unwrap();
            let answer = format!("{target}{body}");
            line.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()));
        }
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    let posts: String = (0..50)
        .map(|number| format!("POST /{number} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc\r\n"))
        .collect();
    client.send(posts);
    for number in 0..50 {
        assert_eq!(client.message().1, format!("/{number}abc"));
    }
    client.send("GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (head, body) = client.message();
    assert!(head.contains("Connection: close\r\n") && body == "/last", "{head}");
    client.gone();
    assert_eq!(proxy.finish().ends(), vec!["server eof"; 51]);
}

#[test]
fn an_upload_that_is_not_framed_as_it_says_is_refused_and_goes_no_further() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        line.head();
        assert_eq!(line.chunk(), "wiki");
        tell.send(()).unwrap();
        line.gone();
        tell.send(()).unwrap();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n");
    told.recv_timeout(PATIENCE).unwrap();
    client.send("4\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = client.message();
    assert!(head.starts_with("HTTP/1.1 400") && body.contains("size of a chunk"), "{head}{body}");
    client.gone();
    told.recv_timeout(PATIENCE).unwrap();
    let recorded = proxy.finish();
    assert_eq!(recorded.ends(), ["tap eof"]);
    assert!(recorded.notes().iter().any(|note| note.starts_with("refused by rpctap: ")), "{:?}", recorded.notes());
}

#[test]
fn a_response_whose_chunks_break_their_rules_is_torn() {
    let (upstream, _) =
        answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\nno size\r\n0\r\n\r\n");
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head();
    assert_eq!(client.chunk(), "wiki");
    assert_eq!(client.rest().unwrap_or_default(), "");
    let recorded = proxy.finish();
    assert_eq!(recorded.ends(), ["server reset"]);
    assert!(recorded.notes().iter().any(|note| note.contains("broke off")), "{:?}", recorded.notes());
}

#[test]
fn what_was_said_before_an_answer_that_cannot_be_read_does_not_wait_for_the_next() {
    let (upstream, _) = answering("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nnothing\r\n\r\n");
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.head(), "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
        assert!(client.message().0.starts_with("HTTP/1.1 502"));
    }
    // Of the old kind, it must not get what was meant for others.
    client.send("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(client.message().0.starts_with("HTTP/1.1 502"));
}

/// Upstream says more than its answer, just as much behind it as is read at once, and the next request is there already.
#[test]
fn what_stands_behind_an_answer_is_not_taken_for_the_next_one() {
    let upstream = Upstream::start(|mut line| {
        if line.head().contains("/second") {
            line.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond");
        } else {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 65494\r\n\r\n";
            let first = format!("{head}{}", "x".repeat(65_494));
            assert_eq!(first.len(), 64 * 1024);
            line.send(format!("{first}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"));
        }
        let _ = line.rest();
    });
    let proxy = Tapped::before(upstream.address);
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for _ in 0..10 {
        let mut client = proxy.line();
        client.send(get("/first") + &get("/second"));
        assert_eq!(client.message().1.len(), 65_494);
        assert_eq!(client.message().1, "second");
    }
}

#[test]
fn a_protocol_nobody_asked_for_is_no_answer() {
    let (upstream, _) = answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n");
    let proxy = Tapped::before(upstream.address);
    let (head, _) = proxy.post("", CALL).message();
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
}
