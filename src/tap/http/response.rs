//! The head of a response: read, and written for the client.

use httparse::{Header, Status};

use super::fields::{self, Hop, Name};
use super::framing::{Body, Form};
use super::request::Room;

pub(super) struct Response<'a, 'r> {
    /// All of it, with the empty line.
    pub(super) head: &'a [u8],
    pub(super) status: u16,
    pub(super) minor: u8,
    pub(super) fields: &'r [Header<'a>],
    pub(super) hop: Hop<'a>,
}

/// What becomes of the client's connection behind a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing need be said.
    Stays,
    /// It stays, which a client of HTTP/1.0 must be told.
    StaysOpenly,
    Closes,
    /// It is a WebSocket's.
    Upgrades,
}

impl<'a, 'r> Response<'a, 'r> {
    /// Reads the head that `bytes` begin with; `None` while more of it must come.
    pub(super) fn read(bytes: &'a [u8], room: &'r mut Room<'a>) -> Result<Option<Response<'a, 'r>>, String> {
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, room);
        let len = match parsed {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) => return Ok(None),
            Err(cause) => return Err(format!("what it sent is not the head of a response ({cause})")),
        };
        let (Some(status), Some(minor)) = (response.code, response.version) else { return Ok(None) };
        let hop = Hop::read(response.headers);
        Ok(Some(Response { head: &bytes[..len], status, minor, fields: response.headers, hop }))
    }

    /// One that the response proper follows.
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    pub(super) fn body(&self, asked_head: bool) -> Result<Body, &'static str> {
        let hop = &self.hop;
        if asked_head || matches!(self.status, 100..200 | 204 | 304) {
            return Ok(Body::Whole);
        }
        // Of two lengths the chunks' own counts.
        match (hop.codings, hop.lengths, hop.length) {
            (0, 0, _) => Ok(Body::UntilClose),
            (0, _, Some(0)) => Ok(Body::Whole),
            (0, _, Some(length)) => Ok(Body::Known(length)),
            (0, _, None) => Err("its Content-Length is no number, or there are two"),
            _ if hop.chunked => Ok(Body::chunked()),
            _ => Err("it has a transfer coding that this proxy does not pass on"),
        }
    }

    /// Writes the head for the client: the same, but for what concerns upstream's connection only.
    pub(super) fn write(&self, form: Form, then: Then, out: &mut Vec<u8>) {
        // The version belongs to the hop: an upstream of 1.0 need not cost the client its connection.
        out.extend_from_slice(b"HTTP/1.1");
        let begin = memchr::memchr(b'H', self.head).unwrap_or(0);
        let line = &self.head[begin..];
        let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line).get(8..).unwrap_or_default());
        out.extend_from_slice(b"\r\n");
        let mut lengths = 0;
        for field in self.fields {
            let name = Name::of(field.name);
            let passes = match name {
                Name::ContentLength => {
                    lengths += 1;
                    self.hop.codings == 0 && lengths == 1
                }
                Name::TransferEncoding => form == Form::AsItCame,
                Name::Upgrade => then == Then::Upgrades,
                _ => self.hop.passes(field, name),
            };
            if passes {
                fields::write(field, self.head, out);
            }
        }
        if form == Form::Chunks {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        out.extend_from_slice(match then {
            Then::Stays => b"\r\n",
            Then::StaysOpenly => b"Connection: keep-alive\r\n\r\n",
            Then::Closes => b"Connection: close\r\n\r\n",
            Then::Upgrades => b"Connection: Upgrade\r\n\r\n",
        });
    }
}

/// Our own words, as a whole response.
pub(super) fn own_words(status: u16, words: &str, closes: bool, asked_head: bool) -> String {
    let reason = match status {
        400 => "Bad Request",
        405 => "Method Not Allowed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Error",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {OWN_TYPE}\r\nContent-Length: {}\r\n{}\r\n{}",
        words.len(),
        if closes { "Connection: close\r\n" } else { "" },
        if asked_head { "" } else { words }
    )
}

/// Of what we say ourselves.
pub(super) const OWN_TYPE: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::tap::http::request::MOST_FIELDS;

    fn with<T>(text: &str, look: impl FnOnce(Response<'_, '_>) -> T) -> T {
        let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        look(Response::read(text.as_bytes(), &mut room).unwrap().expect("a whole head"))
    }

    fn written(text: &str, form: Form, then: Then) -> String {
        let mut out = Vec::new();
        with(text, |response| response.write(form, then, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_goes_on_as_it_came() {
        let head =
            "HTTP/1.1 299 Möst  Odd\r\nX-a:1\r\nSet-Cookie: b\r\nX-A: 2\r\nset-cookie: c\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(written(head, Form::AsItCame, Then::Stays), head);
        let old = "HTTP/1.0 200\r\nConnection: close\r\nServer: s\r\n\r\n";
        assert_eq!(
            written(old, Form::Chunks, Then::Closes),
            "HTTP/1.1 200\r\nServer: s\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n";
        assert_eq!(written(chunked, Form::Bare, Then::Closes), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        assert_eq!(
            written(chunked, Form::AsItCame, Then::Stays),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
    }

    #[test]
    fn where_the_body_ends_is_told_by_status_and_fields() {
        let body = |text: &str, head: bool| with(text, |response| response.body(head));
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\n", false), Ok(Body::UntilClose));
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", false), Ok(Body::Known(7)));
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true), Ok(Body::Whole));
        assert_eq!(body("HTTP/1.1 304 Same\r\nContent-Length: 7\r\n\r\n", false), Ok(Body::Whole));
        assert_eq!(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false), Ok(Body::chunked()));
        assert!(body("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n", false).is_err());
        assert!(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", false).is_err());
    }
}
