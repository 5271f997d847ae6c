//! Upstream's connection is moved along by the client's task: neither side may wait for the other without need, and
//! nobody for somebody else.

use super::*;

const LARGE: usize = 8 * 1024 * 1024;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 % 251) as u8).collect()
}

/// Reads a chunked body to its end.
fn chunks(line: &mut Line) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let size = line.line();
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("no chunk size: {size:?}"));
        let bytes = line.bytes(size + 2);
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&bytes[..size]);
    }
}

#[test]
fn a_large_body_is_echoed_while_it_is_uploaded_to_a_client_that_reads_late() {
    let upstream = Upstream::start(|mut line| {
        let head = line.head();
        let mut left: usize = field(&head, "content-length").unwrap().parse().unwrap();
        line.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while left > 0 {
            let piece = line.bytes(left.min(10_000));
            left -= piece.len();
            line.send(format!("{:x}\r\n", piece.len())).send(&piece).send("\r\n");
        }
        line.send("0\r\n\r\n");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(format!("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LARGE}\r\n\r\n"));
    let mut writer = client.stream().try_clone().unwrap();
    let (sent, sending) = std::sync::mpsc::channel();
    let uploading = thread::spawn(move || {
        for piece in pattern(LARGE).chunks(64 * 1024) {
            writer.write_all(piece).unwrap();
            let _ = sent.send(());
        }
    });
    // Until nothing gets on any more: everybody waits for this client to read.
    while sending.recv_timeout(Duration::from_millis(300)).is_ok() {}
    assert!(client.head().starts_with("HTTP/1.1 200 OK"));
    assert!(chunks(&mut client) == pattern(LARGE), "what came back is not what was sent");
    uploading.join().unwrap();
}

#[test]
fn a_response_nobody_reads_holds_up_nobody_else_and_ends_with_its_client() {
    let (gone, seen) = std::sync::mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let upstream = Upstream::start(move |mut line| {
        while !{
            let head = line.head();
            head.starts_with("GET /flood") || head.is_empty()
        } {
            line.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        let stream = line.stream();
        let mut flood = stream;
        let piece = pattern(64 * 1024);
        if flood.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok() {
            while flood.write_all(&piece).is_ok() {}
            let _ = gone.lock().unwrap().send(());
        }
    });
    let proxy = Tapped::before(upstream.address);
    let mut idle = proxy.line();
    idle.send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(idle.head().starts_with("HTTP/1.1 200 OK"));
    // Another reads as fast as it can, and a third only wants a short answer now and then.
    let mut greedy = proxy.line();
    greedy.send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let reading = thread::spawn(move || {
        greedy.head();
        for _ in 0..64 {
            greedy.bytes(1024 * 1024);
        }
        greedy.tear();
    });
    let mut third = proxy.line();
    for _ in 0..50 {
        third.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(third.message().1, "ok");
    }
    reading.join().unwrap();
    idle.tear();
    for _ in 0..2 {
        seen.recv_timeout(PATIENCE).expect("upstream hears that its client is gone");
    }
}

#[test]
fn an_answer_that_comes_before_the_upload_has_ended_is_passed_on_whole() {
    let upstream = Upstream::start(|mut line| {
        line.head();
        line.bytes(10);
        line.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 100000\r\n\r\n").send(pattern(100_000));
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n0123456789");
    assert!(client.head().starts_with("HTTP/1.1 413"));
    assert!(client.bytes(100_000) == pattern(100_000));
    client.close();
    assert_eq!(proxy.finish().statuses(), [413]);
}

#[test]
fn what_comes_right_behind_an_upgrade_is_passed_on() {
    let upstream = Upstream::start(|mut line| {
        line.head();
        line.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x01first");
        assert_eq!(line.bytes(6), b"second");
        line.send("third");
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 101"));
    assert_eq!(client.bytes(6), b"\x01first");
    client.send("second");
    assert_eq!(client.bytes(5), b"third");
    client.gone();
}

/// Upstream may read the last of an upload after it has answered; nobody else will ask for that connection soon.
#[test]
fn an_upload_that_is_answered_early_comes_whole_or_ends() {
    let (told, ends) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let answered = Arc::new(std::sync::Barrier::new(2));
    let answer_seen = answered.clone();
    let upstream = Upstream::start(move |mut line| {
        let mut left: usize = field(&line.head(), "content-length").unwrap().parse().unwrap();
        line.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        answered.wait();
        line.stream().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut piece = vec![0; 100_000];
        let end = loop {
            let most = left.min(piece.len());
            match line.reader.read(&mut piece[..most]) {
                Ok(0) => break "ended",
                Ok(read) if read == left => break "whole",
                Ok(read) => left -= read,
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => break "stuck",
                Err(_) => break "ended",
            }
        };
        let _ = told.lock().unwrap().send(end);
    });
    let proxy = Tapped::before(upstream.address);
    let mut clients = Vec::new();
    for size in (1..40).map(|number| number * 200_000) {
        let mut client = proxy.line();
        let mut writer = client.stream().try_clone().unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n");
        thread::spawn(move || writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&vec![b' '; size])));
        assert_eq!(client.message().1, "ok");
        clients.push(client);
        answer_seen.wait();
        let end = ends.recv_timeout(PATIENCE).unwrap();
        assert_ne!(end, "stuck", "{size}");
    }
}
