//! What the proxy refuses, and what it never keeps.

use super::*;

fn upstream_that_answers() -> Upstream {
    Upstream::start(|mut line| {
        while !line.message().0.is_empty() {
            line.send("HTTP/1.1 200 OK\r\nSet-Cookie: sid=hush-cookie\r\nMcp-Session-Id: hush-session\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

/// Sends one request and gives the status, and whether the connection was ended after it.
fn status(proxy: &Tapped, request: &str) -> String {
    let mut client = proxy.line();
    client.send(request);
    let (head, _) = client.message();
    head.split(' ').nth(1).unwrap_or_default().to_string()
}

#[test]
fn ambiguous_framing_is_refused() {
    let upstream = upstream_that_answers();
    let proxy = Tapped::before(upstream.address);
    for fields in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: 3\r\n Content-Length: 4\r\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n0\r\n\r\n");
        assert_eq!(status(&proxy, &request), "400", "{fields:?}");
    }
    // Also behind a sound request on the same connection.
    let mut client = proxy.line();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
    assert!(client.message().0.starts_with("HTTP/1.1 200"));
    client
        .send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert!(client.message().0.starts_with("HTTP/1.1 400"));
    client.gone();
    let recorded = proxy.finish();
    assert_eq!(recorded.statuses().iter().filter(|status| **status == 200).count(), 1);
    // Also those that never came as far as to us.
    assert_eq!(recorded.statuses().iter().filter(|status| **status == 400).count(), 12);
    for why in ["in two ways", "a transfer coding that", "cannot be read"] {
        assert!(
            recorded.notes().iter().any(|note| note.starts_with("refused by rpctap: ") && note.contains(why)),
            "{why}"
        );
    }
}

#[test]
fn names_that_could_be_rebound_are_refused_and_origin_is_upstreams_to_judge() {
    let upstream = upstream_that_answers();
    let proxy = Tapped::before(upstream.address);
    let ask = |host: &str| status(&proxy, &format!("GET / HTTP/1.1\r\n{host}\r\n"));
    assert_eq!(ask("Host: evil.example\r\n"), "421");
    assert_eq!(ask("Host: localhost\r\nHost: localhost\r\n"), "400");
    assert_eq!(ask(""), "400");
    assert_eq!(ask("Host: localhost\r\nOrigin: http://evil.example\r\n"), "200");
    assert_eq!(ask(&format!("Host: {}\r\n", proxy.address)), "200");
    assert_eq!(status(&proxy, "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"), "421");
    assert_eq!(status(&proxy, "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n"), "405");
}

#[test]
fn heads_beyond_the_limits_are_refused() {
    let upstream = upstream_that_answers();
    let proxy = Tapped::before(upstream.address);
    let many: String = (0..10_000).map(|number| format!("X-{number}: 1\r\n")).collect();
    let mut client = proxy.line();
    // The refusal may come, and the connection end, before all of it was sent.
    let _ = client.stream().write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").as_bytes());
    assert!(client.line().starts_with("HTTP/1.1 431"));
    let mut client = proxy.line();
    let _ = client
        .stream()
        .write_all(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20)).as_bytes());
    let line = client.line();
    assert!(line.starts_with("HTTP/1.1 4"), "{line:?}");
    assert_eq!(status(&proxy, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
    let mut client = proxy.line();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.gone();
    let recorded = proxy.stop();
    assert_eq!(recorded.statuses(), [431, 431, 200]);
    assert_eq!(recorded.notes().iter().filter(|note| note.contains("cannot be read")).count(), 3);
    assert_eq!(recorded.ends(), ["tap eof", "tap eof", "server eof", "tap eof"]);
}

#[test]
fn too_many_connections_and_idle_ones_are_turned_away() {
    let upstream = upstream_that_answers();
    let limits = ProxyLimits { connections: 2, idle: Duration::from_millis(300), workers: 1, ..ProxyLimits::default() };
    let proxy = Tapped::with(upstream.address, limits, None);
    let mut first = proxy.line();
    first.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    first.message();
    let mut half = proxy.line();
    half.send("GET / HTTP/1.1\r\nHost:");
    let mut third = proxy.line();
    assert!(third.head().starts_with("HTTP/1.1 503"));
    // Neither an idle connection nor half a head is kept for ever.
    let _ = (first.rest(), half.rest());
    assert_eq!(status(&proxy, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
    assert_eq!(proxy.finish().tally.turned_away, 1);
}

#[test]
fn credentials_reach_upstream_and_never_the_record() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        tell.send(line.message().0).unwrap();
        line.send("HTTP/1.1 200 OK\r\nSet-Cookie: sid=hush-cookie\r\nMcp-Session-Id: hush-session\r\nContent-Length: 0\r\n\r\n");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(
        "POST /mcp?api_key=hush-key&session_id=hush-id HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer hush-token\r\nCookie: a=hush-crumb\r\nX-Api-Key: hush-own\r\nMcp-Session-Id: hush-session\r\nContent-Length: 0\r\n\r\n",
    );
    client.message();
    client.close();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap().matches("hush").count(), 6);
    let recorded = proxy.finish();
    let kept = format!("{:?}", recorded.kept);
    assert!(!kept.contains("hush") && kept.matches("hash:").count() >= 7, "{kept}");
}
