//! What a connection speaks, told from its first bytes.

/// What is kept of each side until it is clear.
pub const MOST_HELD_BYTES: usize = 16 * 1024;

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

/// Looks at the first bytes of one side. `over` when no more will come.
pub fn of(bytes: &[u8], over: bool) -> Speech {
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
            let signs: [&[u8]; 3] = [b"\"jsonrpc\"", b"\"method\"", b"\"id\""];
            if signs.iter().any(|sign| memchr::memmem::find(look, sign).is_some()) {
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

/// Whether the side that sends this first is the client, where the bytes show it.
pub fn client_sends(bytes: &[u8]) -> Option<bool> {
    if bytes.starts_with(b"HTTP/1.") {
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
}
