//! What a connection speaks, told from its first bytes; where those were not seen, from those that were.

use crate::event::{Micros, Side};
use crate::wire::Framing;

/// What is kept of each side until it is clear.
const MOST_HELD_BYTES: usize = 16 * 1024;

/// How far the first message is looked at for signs of JSON-RPC.
const LOOK_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    Http,
    JsonRpc,
    Tls,
    Http2,
    Other,
    /// More bytes are needed.
    NotYet,
}

const METHODS: &[&[u8]] =
    &[b"GET ", b"POST ", b"DELETE ", b"PUT ", b"HEAD ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE "];
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";
const FRAMED: &[u8] = b"content-";
const LENGTH: &[u8] = b"content-length:";

/// What each side said so far, the client first.
pub type Pieces = [Vec<(Micros, Vec<u8>)>; 2];

/// When the first of it was said.
pub fn held_since(held: &Pieces) -> Option<Micros> {
    held.iter().filter_map(|pieces| pieces.first()).map(|(at, _)| *at).min()
}

/// What both sides said, in the order they said it.
pub fn in_time(held: Pieces) -> Vec<(Side, Micros, Vec<u8>)> {
    let [client, server] = held;
    let client = client.into_iter().map(|(at, bytes)| (Side::Client, at, bytes));
    let server = server.into_iter().map(|(at, bytes)| (Side::Server, at, bytes));
    let mut all: Vec<_> = client.chain(server).collect();
    all.sort_by_key(|(_, at, _)| *at);
    all
}

fn said(pieces: &[(Micros, Vec<u8>)]) -> Vec<u8> {
    pieces.iter().flat_map(|(_, bytes)| bytes.iter().copied()).take(MOST_HELD_BYTES).collect()
}

/// Looks at what both sides said from the beginning. `over` when no more will come.
pub fn of_both(held: &Pieces, over: bool) -> Speech {
    let [client, server] = [said(&held[0]), said(&held[1])];
    let over = over || client.len().max(server.len()) >= MOST_HELD_BYTES;
    if client.is_empty() && server.is_empty() {
        return Speech::NotYet;
    }
    // Either side may speak first; the client's words count more.
    match of(&client, over) {
        by_client @ (Speech::NotYet | Speech::Other)
            if !server.is_empty() && (client.is_empty() || by_client == Speech::NotYet) =>
        {
            match of(&server, over) {
                Speech::Other if !client.is_empty() && !over => Speech::NotYet,
                speech => speech,
            }
        }
        speech => speech,
    }
}

/// Looks at what both sides said since some moment within the connection.
pub fn of_both_midway(held: &Pieces, over: bool) -> Speech {
    let pieces = || held.iter().flatten().map(|(_, bytes)| bytes.as_slice());
    let firsts = || held.iter().filter_map(|pieces| pieces.first()).map(|(_, bytes)| bytes.as_slice());
    let long =
        |pieces: &Vec<(Micros, Vec<u8>)>| pieces.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() >= MOST_HELD_BYTES;
    let over = over || held.iter().any(long);
    if pieces().any(|piece| begins_http(piece) || begins_events(piece).is_some()) {
        return Speech::Http;
    }
    if firsts().any(|piece| matches!(piece, [0x14..=0x17, 3, 0..=4, ..])) {
        return Speech::Tls;
    }
    // The body of a request looks like a message: only the answer shows whether it is one.
    if !over && held.iter().any(Vec::is_empty) || pieces().next().is_none() {
        return Speech::NotYet;
    }
    // One long body comes in many pieces of which few begin a line.
    let alone = held.iter().any(Vec::is_empty) && pieces().count() > 2;
    let lines = pieces().filter(|piece| frame_start(piece) == Some(0)).count();
    if pieces().any(|piece| has_signs(piece) && frame_start(piece).is_some())
        && (!alone || lines * 2 > pieces().count())
    {
        return Speech::JsonRpc;
    }
    if over { Speech::Other } else { Speech::NotYet }
}

/// Whether an HTTP message begins here.
pub fn begins_http(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.") || METHODS.iter().any(|method| bytes.starts_with(method))
}

/// Where in these bytes the next HTTP response begins, if one does.
pub fn next_response(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"HTTP/1.") {
        return Some(0);
    }
    memchr::memmem::find(bytes, b"\nHTTP/1.").map(|at| at + 1)
}

/// Whether a part of an event stream begins here: with chunk sizes (`Some(true)`) or without them.
pub fn begins_events(bytes: &[u8]) -> Option<bool> {
    let is_event =
        |text: &[u8]| [&b"data:"[..], b"event:", b"id:", b"retry:", b": "].iter().any(|field| text.starts_with(field));
    if is_event(bytes) {
        return Some(false);
    }
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let chunk = (1..=8).contains(&digits) && bytes[digits..].starts_with(b"\r\n") && is_event(&bytes[digits + 2..]);
    chunk.then_some(true)
}

/// Where in these bytes the next bare message begins: at a header of LSP, or behind a line's end.
pub fn frame_start(bytes: &[u8]) -> Option<usize> {
    let begins = |text: &[u8]| {
        matches!(text.first(), Some(b'{' | b'['))
            || text.get(..FRAMED.len()).is_some_and(|head| head.eq_ignore_ascii_case(FRAMED))
    };
    if begins(bytes.trim_ascii_start()) {
        return Some(0);
    }
    let framed = memchr::memmem::find(bytes, b"Content-Length:");
    let line =
        memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).find(|at| *at == bytes.len() || begins(&bytes[*at..]));
    framed.into_iter().chain(line).min()
}

/// The same behind a gap, where the framing of this side is known or can be: what looks like a message may be an object
/// within one, so only the header of a frame counts, or a line that says it is JSON-RPC.
pub fn frame_start_again(bytes: &[u8], framing: Option<Framing>) -> Option<usize> {
    if framing == Some(Framing::ContentLength) {
        return header_start(bytes);
    }
    let says_so = |at: usize| {
        let line = &bytes[at..bytes.len().min(at + LOOK_BYTES)];
        let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
        matches!(line.first(), Some(b'{' | b'[')) && memchr::memmem::find(line, b"\"jsonrpc\"").is_some()
    };
    let mut starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', bytes).map(|at| at + 1));
    let line = starts.find(|at| *at == bytes.len() || says_so(*at));
    let header = header_start(bytes).filter(|_| framing.is_none());
    line.into_iter().chain(header).min()
}

fn header_start(bytes: &[u8]) -> Option<usize> {
    let begins = |at: &usize| bytes[*at..].get(..LENGTH.len()).is_some_and(|head| head.eq_ignore_ascii_case(LENGTH));
    memchr::memchr2_iter(b'C', b'c', bytes).find(begins)
}

fn has_signs(text: &[u8]) -> bool {
    let look = &text[..text.len().min(LOOK_BYTES)];
    let signs: [&[u8]; 3] = [b"\"jsonrpc\"", b"\"method\"", b"\"id\""];
    signs.iter().any(|sign| memchr::memmem::find(look, sign).is_some())
}

/// Looks at the first bytes of one side. `over` when no more will come.
fn of(bytes: &[u8], over: bool) -> Speech {
    let wait = |otherwise: Speech| if over { otherwise } else { Speech::NotYet };
    let Some(first) = bytes.first() else { return wait(Speech::Other) };
    if *first == 0x16 || *first == 0x80 && bytes.len() > 2 && bytes[2] == 1 {
        return match bytes.get(1) {
            Some(3) => Speech::Tls,
            None => wait(Speech::Other),
            Some(_) => Speech::Other,
        };
    }
    let begins = |wanted: &[u8]| {
        let len = wanted.len().min(bytes.len());
        bytes[..len].eq_ignore_ascii_case(&wanted[..len])
    };
    if begins(HTTP2) {
        return if bytes.len() >= HTTP2.len() { Speech::Http2 } else { wait(Speech::Other) };
    }
    if let Some(settings) = begins_with_settings(bytes) {
        return if settings { Speech::Http2 } else { wait(Speech::Other) };
    }
    for method in METHODS.iter().copied().chain([&b"HTTP/1."[..]]) {
        let len = method.len().min(bytes.len());
        if bytes[..len] == method[..len] {
            return if bytes.len() >= method.len() { Speech::Http } else { wait(Speech::Other) };
        }
    }
    if begins(FRAMED) {
        return if bytes.len() >= FRAMED.len() { Speech::JsonRpc } else { wait(Speech::Other) };
    }
    let text = bytes.trim_ascii_start();
    match text.first() {
        None => wait(Speech::Other),
        Some(b'{' | b'[') => {
            let look = &text[..text.len().min(LOOK_BYTES)];
            if has_signs(text) {
                Speech::JsonRpc
            } else if text.len() >= LOOK_BYTES || memchr::memchr(b'\n', look).is_some() {
                Speech::Other
            } else {
                wait(Speech::Other)
            }
        }
        Some(_) => Speech::Other,
    }
}

/// Whether this is the SETTINGS frame with which a server of HTTP/2 begins; some do before the client has spoken.
/// `Some(false)` when it is too short to say.
fn begins_with_settings(bytes: &[u8]) -> Option<bool> {
    // A length below 256 that holds pairs of 6 bytes, the kind, no flags, stream 0.
    let wanted = [Some(0), Some(0), None, Some(4), Some(0), Some(0), Some(0), Some(0), Some(0)];
    let fits = wanted.iter().zip(bytes).all(|(wanted, byte)| wanted.is_none_or(|wanted| wanted == *byte));
    let whole = bytes.len() >= wanted.len();
    (fits && bytes.get(2).is_none_or(|len| len % 6 == 0)).then_some(whole)
}

/// Whether the side that sends this first is the client, where the bytes show it.
pub fn client_sends(bytes: &[u8]) -> Option<bool> {
    if bytes.starts_with(b"HTTP/1.") || begins_events(bytes).is_some() {
        return Some(false);
    }
    if METHODS.iter().any(|method| bytes.starts_with(method)) || bytes.starts_with(HTTP2) {
        return Some(true);
    }
    if bytes.len() > 5 && bytes[0] == 0x16 && bytes[1] == 3 {
        return match bytes[5] {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        };
    }
    let look = &bytes[..bytes.len().min(LOOK_BYTES)];
    if memchr::memmem::find(look, b"\"initialize\"").is_some() {
        return Some(true);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell() {
        for (bytes, speech) in [
            (&b"POST /mcp HTTP/1.1\r\n"[..], Speech::Http),
            (b"PO", Speech::NotYet),
            (b"P", Speech::NotYet),
            (b"PRI * HTTP/2.0\r\n\r\nSM", Speech::Http2),
            (b"\0\0\x0c\x04\0\0\0\0\0\0\x03", Speech::Http2),
            (b"\0\0\0\x04", Speech::NotYet),
            (b"\0\0\0\x05", Speech::Other),
            (b"HTTP/1.1 200 OK", Speech::Http),
            (b"\x16\x03\x01\x02\x00\x01", Speech::Tls),
            (b"\x16", Speech::NotYet),
            (b"Content-Length: 3\r\n", Speech::JsonRpc),
            (b" {\"jsonrpc\":\"2.0\"", Speech::JsonRpc),
            (b"{\"a\":", Speech::NotYet),
            (b"{\"a\":1}\n", Speech::Other),
            (b"SSH-2.0-x", Speech::Other),
            (b"", Speech::NotYet),
        ] {
            assert_eq!(of(bytes, false), speech, "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(of(b"PO", true), Speech::Other);
    }

    #[test]
    fn the_next_message_is_found_behind_the_rest_of_one() {
        for (bytes, start) in [
            (&b"{\"id\":1}\n"[..], Some(0)),
            (b"onrpc\":\"2.0\"}\n{\"id\":2}\n", Some(14)),
            (b"onrpc\":\"2.0\"}\n", Some(14)),
            (b"\"x\":\n1}Content-Length: 3\r\n\r\n{}\n", Some(7)),
            (b"within a message", None),
        ] {
            assert_eq!(frame_start(bytes), start, "{}", String::from_utf8_lossy(bytes));
        }
        let (lines, framed) = (Some(Framing::Lines), Some(Framing::ContentLength));
        for (bytes, framing, start) in [
            (&b"{\"a\":1}}\n{\"jsonrpc\":\"2.0\"}\n"[..], lines, Some(9)),
            (b"{\"jsonrpc\":\"2.0\"}\n", lines, Some(0)),
            (b"{\"a\":1}}", lines, None),
            (b"{\"jsonrpc\":\"2.0\"}", framed, None),
            (b"{\"a\":1}}Content-Length: 2\r\n\r\n{}", framed, Some(8)),
            (b"Content-Length: 2\r\n\r\n{}", None, Some(0)),
        ] {
            assert_eq!(frame_start_again(bytes, framing), start, "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(begins_events(b"b7\r\nevent: message\r\n"), Some(true));
        assert_eq!(begins_events(b"data: {}\n\n"), Some(false));
        assert_eq!(begins_events(b"{\"data\":1}"), None);
    }
}
