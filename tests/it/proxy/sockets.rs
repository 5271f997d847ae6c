//! WebSockets through the proxy, with a client and an echo of our own.

use super::*;

/// A text frame; masked as clients must, by a mask that changes every byte.
fn frame(text: &str, masked: bool) -> Vec<u8> {
    let mut bytes = vec![0x81];
    let bit = if masked { 0x80 } else { 0 };
    match text.len() {
        short @ 0..126 => bytes.push(short as u8 | bit),
        long => {
            bytes.push(126 | bit);
            bytes.extend_from_slice(&(long as u16).to_be_bytes());
        }
    }
    let mask = [1u8, 2, 3, 4];
    if masked {
        bytes.extend_from_slice(&mask);
    }
    bytes.extend(text.bytes().enumerate().map(|(at, byte)| if masked { byte ^ mask[at % 4] } else { byte }));
    bytes
}

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn messages_pass_both_ways_and_are_read_from_a_copy() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{}"}}"#, "y".repeat(1000));
    let answer = long.clone();
    let upstream = Upstream::start(move |mut line| {
        let head = line.head();
        assert!(head.contains("Connection: Upgrade") && head.contains("Upgrade: websocket"), "{head}");
        // The first frame comes with the head: no byte may be lost between the two.
        line.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
        line.send(frame(r#"{"jsonrpc":"2.0","method":"hello"}"#, false));
        let call = frame(CALL, true);
        assert_eq!(line.bytes(call.len()), call);
        line.send(frame(&answer, false));
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(UPGRADE);
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101") && head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    let hello = frame(r#"{"jsonrpc":"2.0","method":"hello"}"#, false);
    assert_eq!(client.bytes(hello.len()), hello);
    client.send(frame(CALL, true));
    let answer = frame(&long, false);
    assert_eq!(client.bytes(answer.len()), answer);
    client.close();
    let recorded = proxy.finish();
    assert_eq!(recorded.messages(), ["<- hello", "-> 1 tools/call", "<- 2"]);
    assert_eq!(recorded.ends(), ["client eof"]);
}

#[test]
fn a_refused_upgrade_is_an_answer_like_any_other() {
    let upstream = Upstream::start(|mut line| {
        line.head();
        line.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(UPGRADE);
    let (head, body) = client.message();
    assert!(head.starts_with("HTTP/1.1 403") && body == "no", "{head}");
    client.gone();
    assert_eq!(proxy.finish().ends(), ["server eof"]);
}

#[test]
fn other_upgrades_are_not_passed_on() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        tell.send(line.head()).unwrap();
        line.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n");
    client.message();
    let head = told.recv_timeout(PATIENCE).unwrap();
    assert!(!head.to_lowercase().contains("upgrade") && !head.contains("HTTP2"), "{head}");
}

#[test]
fn what_is_named_beside_a_websocket_is_not_passed_on_either() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |mut line| {
        tell.send(line.head()).unwrap();
        line.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n");
        line.gone();
    });
    let proxy = Tapped::before(upstream.address);
    let mut client = proxy.line();
    client.send(UPGRADE.replace("Upgrade: websocket\r\n", "Upgrade: h2c\r\nUpgrade: websocket\r\n"));
    let (head, _) = client.message();
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    let head = told.recv_timeout(PATIENCE).unwrap();
    assert!(!head.contains("h2c") && head.contains("Upgrade: websocket"), "{head}");
}

#[test]
fn a_client_that_leaves_a_server_that_does_not_mind_is_told() {
    for torn in [false, true] {
        let (leave, stays) = std::sync::mpsc::channel::<()>();
        let stays = std::sync::Mutex::new(stays);
        let upstream = Upstream::start(move |mut line| {
            line.head();
            line.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
            let _ = stays.lock().unwrap().recv();
        });
        let proxy = Tapped::before(upstream.address);
        let mut client = proxy.line();
        client.send(UPGRADE);
        assert!(client.head().starts_with("HTTP/1.1 101"));
        if torn {
            client.tear();
        } else {
            client.close();
        }
        let ends = proxy.finish().ends();
        assert!(ends.len() == 1 && ends[0].starts_with("client"), "{ends:?}");
        drop(leave);
    }
}
