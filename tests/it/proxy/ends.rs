//! Who left, when, and that the other side hears of it at once.

use super::*;

/// An upstream that says when it was asked and when its client was gone.
fn watched(answer: &'static str) -> (Upstream, std::sync::mpsc::Receiver<&'static str>) {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        line.message();
        line.send(answer);
        tell.send("asked").unwrap();
        line.gone();
        tell.send("gone").unwrap();
    });
    (upstream, told)
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_client_that_leaves_before_the_answer_takes_upstream_with_it() {
    for torn in [false, true] {
        let (upstream, told) = watched("");
        let proxy = Tapped::before(upstream.address);
        let client = proxy.post("", CALL);
        assert_eq!(told.recv_timeout(PATIENCE), Ok("asked"));
        if torn {
            client.tear()
        } else {
            client.close()
        }
        assert_eq!(told.recv_timeout(PATIENCE), Ok("gone"));
        let recorded = proxy.finish();
        assert_eq!(recorded.ends(), [if torn { "client reset" } else { "client eof" }]);
        assert_eq!(recorded.messages(), ["-> 1 tools/call"]);
    }
}

#[test]
fn a_client_that_leaves_within_a_stream_takes_upstream_with_it() {
    for torn in [false, true] {
        let (upstream, told) = watched(STREAM);
        let proxy = Tapped::before(upstream.address);
        let mut client = proxy.post("", CALL);
        assert_eq!(told.recv_timeout(PATIENCE), Ok("asked"));
        client.head();
        if torn {
            client.tear()
        } else {
            client.close()
        }
        assert_eq!(told.recv_timeout(PATIENCE), Ok("gone"));
        assert_eq!(proxy.finish().ends(), [if torn { "client reset" } else { "client eof" }]);
    }
}

#[test]
fn a_client_that_leaves_within_its_upload_is_told() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        line.head();
        line.bytes(3);
        tell.send(()).unwrap();
        line.gone();
        tell.send(()).unwrap();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
    told.recv_timeout(PATIENCE).unwrap();
    client.close();
    told.recv_timeout(PATIENCE).unwrap();
    let recorded = proxy.finish();
    assert_eq!(recorded.ends().len(), 1);
    assert!(recorded.ends()[0].starts_with("client"), "{:?}", recorded.ends());
}

#[test]
fn a_client_torn_from_a_server_that_takes_nothing_is_told() {
    let (tell, told) = std::sync::mpsc::channel();
    let (leave, stays) = std::sync::mpsc::channel::<()>();
    let stays = std::sync::Mutex::new(stays);
    let upstream = Upstream::start(move |mut line| {
        line.head();
        tell.send(()).unwrap();
        let _ = stays.lock().unwrap().recv();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n");
    told.recv_timeout(PATIENCE).unwrap();
    // Until nobody takes any more.
    client.stream().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    while client.stream().write(&[b' '; 100_000]).is_ok() {}
    client.tear();
    assert_eq!(proxy.finish().ends(), ["client reset"]);
    drop(leave);
}

#[test]
fn what_a_client_sent_before_it_left_arrives_also_when_it_is_taken_late() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |mut line| {
        let length = field(&line.head(), "content-length").unwrap().parse().unwrap();
        tell.send(0).unwrap();
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        tell.send(line.bytes(length).len()).unwrap();
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    // One size among these fills what lies between the two, and leaves less than is held.
    for size in (1..60).map(|number| number * 150_000) {
        let client = proxy.line();
        let mut writer = client.stream().try_clone().unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n");
        let sent = thread::spawn(move || {
            writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&vec![b' '; size])).unwrap();
            writer.shutdown(Shutdown::Both).unwrap();
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(0));
        // Whoever has much to send is not done before upstream takes it.
        thread::sleep(Duration::from_millis(5));
        go.send(()).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(size));
        sent.join().unwrap();
    }
    assert!(proxy.finish().ends().iter().all(|end| end == "client eof"));
}

#[test]
fn a_client_torn_behind_more_requests_than_are_held_is_told() {
    let (upstream, told) = watched("");
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(10_000));
    assert_eq!(told.recv_timeout(PATIENCE), Ok("asked"));
    client.tear();
    assert_eq!(told.recv_timeout(PATIENCE), Ok("gone"));
    assert_eq!(proxy.finish().ends(), ["client reset"]);
}

#[test]
fn a_client_that_leaves_within_its_head_leaves_no_trace() {
    let (upstream, _told) = watched("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("POST / HTTP/1.1\r\nHost: loc");
    client.close();
    // Connections are taken in order: when this one was served the other has been seen.
    assert!(proxy.post("", CALL).message().0.starts_with("HTTP/1.1 202"));
    let recorded = proxy.finish();
    assert_eq!((recorded.tally.connections, recorded.tally.carriers), (2, 1));
    assert_eq!(recorded.ends(), ["server eof"]);
}

#[test]
fn a_stream_that_upstream_ends_ends_for_the_client() {
    let upstream = Upstream::start(|mut line| {
        line.message();
        line.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n\n");
        line.close();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    client.head();
    assert!(client.chunk().contains("result"));
    assert_eq!(client.chunk(), "");
    client.close();
    let recorded = proxy.finish();
    assert_eq!(recorded.ends(), ["server eof"]);
    assert_eq!(recorded.messages(), ["-> 1 tools/call", "<- 1"]);
}

#[test]
fn what_is_open_when_the_proxy_ends_is_ended_by_it() {
    let (upstream, told) = watched(STREAM);
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    client.head();
    assert_eq!(told.recv_timeout(PATIENCE), Ok("asked"));
    let recorded = proxy.stop();
    assert_eq!(recorded.ends(), ["tap eof"]);
    assert_eq!(told.recv_timeout(PATIENCE), Ok("gone"));
    client.gone_or_torn();
}

#[test]
fn a_proxy_asked_to_stop_lets_open_exchanges_end() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |mut line| {
        line.message();
        line.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n");
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        line.send(RESULT);
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.post("", CALL);
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    proxy.switch.drain();
    go.send(()).unwrap();
    assert_eq!(client.bytes(36), RESULT.as_bytes());
    client.gone();
    let recorded = proxy.finish();
    assert_eq!((recorded.ends(), recorded.messages().len()), (vec!["server eof".to_string()], 2));
}

impl Line {
    /// The proxy's end may reach a client as either.
    fn gone_or_torn(&mut self) {
        let _ = self.rest();
    }
}
