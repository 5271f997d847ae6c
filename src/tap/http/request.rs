//! The head of a request: read, judged, and written for upstream.

use std::mem::MaybeUninit;

use httparse::{Header, Status};

use super::fields::{self, Hop, Hosts, Name};
use super::framing::Body;

/// More fields than a head may ever have.
pub(super) const MOST_FIELDS: usize = 256;

/// Room for the fields of one head, without the cost of clearing it.
pub(super) type Room<'a> = [MaybeUninit<Header<'a>>; MOST_FIELDS];

pub(super) struct Request<'a, 'r> {
    /// All of it, with the empty line.
    pub(super) head: &'a [u8],
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) minor: u8,
    pub(super) fields: &'r [Header<'a>],
    pub(super) hop: Hop<'a>,
}

/// A request that goes no further.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// `None`: whoever sent it would not understand an answer.
    pub(super) status: Option<u16>,
    pub(super) why: String,
}

impl Refusal {
    fn new(status: u16, why: impl Into<String>) -> Refusal {
        Refusal { status: Some(status), why: why.into() }
    }

    pub(super) fn unread(status: u16, why: &str) -> Refusal {
        Refusal::new(status, format!("the head of the request cannot be read ({why})"))
    }
}

/// Behind the empty line that ends a head, looked for from `from` on.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memchr::memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

impl<'a, 'r> Request<'a, 'r> {
    /// Reads the head that `bytes` begin with; `None` while more of it must come.
    pub(super) fn read(
        bytes: &'a [u8],
        room: &'r mut Room<'a>,
        most_fields: usize,
    ) -> Result<Option<Request<'a, 'r>>, Refusal> {
        let mut request = httparse::Request::new(&mut []);
        let most_fields = most_fields.min(MOST_FIELDS);
        let len = match request.parse_with_uninit_headers(bytes, &mut room[..most_fields]) {
            Ok(Status::Complete(len)) => len,
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::unread(431, &format!("more than {most_fields} fields")));
            }
            Err(httparse::Error::Version) if bytes.starts_with(b"PRI * HTTP/2.0") => {
                let why =
                    "the head of the request cannot be read (HTTP/2, which this proxy does not speak)".to_string();
                return Err(Refusal { status: None, why });
            }
            Err(cause) => return Err(Refusal::unread(400, &cause.to_string())),
        };
        let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
            return Ok(None);
        };
        let hop = Hop::read(request.headers);
        Ok(Some(Request { head: &bytes[..len], method, target, minor, fields: request.headers, hop }))
    }

    /// Why it must go no further, if it must not.
    pub(super) fn refusal(&self, hosts: &Hosts) -> Option<Refusal> {
        let hop = &self.hop;
        if hop.lengths + hop.codings > 1 {
            return Some(Refusal::new(400, "the request says in two ways how long it is"));
        }
        if hop.codings > 0 && (!hop.chunked || self.minor == 0) {
            return Some(Refusal::new(400, "the request has a transfer coding that this proxy does not pass on"));
        }
        if hop.lengths > 0 && hop.length.is_none() {
            return Some(Refusal::unread(400, "its Content-Length is no number"));
        }
        let (named, _) = self.place();
        if let Some((status, why)) = hosts.refuse(named, hop) {
            return Some(Refusal::new(status, why));
        }
        if self.method == "CONNECT" {
            return Some(Refusal::new(405, "this is a reverse proxy: it makes no tunnels"));
        }
        if !self.target.starts_with('/') && named.is_none() && self.target != "*" {
            return Some(Refusal::unread(400, "its target is neither a path nor a URL"));
        }
        None
    }

    /// The host of an absolute target, and what stands behind it.
    fn place(&self) -> (Option<&'a str>, &'a str) {
        let without_scheme = |scheme: &str| {
            let begins = self.target.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
            begins.then(|| &self.target[scheme.len()..])
        };
        match without_scheme("http://").or_else(|| without_scheme("https://")) {
            Some(rest) => {
                let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                (Some(host), path)
            }
            None => (None, self.target),
        }
    }

    /// Path and query as they came; an absolute URL loses its host, which was checked.
    pub(super) fn path(&self) -> &'a str {
        match self.place() {
            (Some(_), "") => "/",
            (_, path) => path,
        }
    }

    pub(super) fn body(&self) -> Body {
        match (self.hop.codings, self.hop.length) {
            (0, None | Some(0)) => Body::Whole,
            (0, Some(length)) => Body::Known(length),
            _ => Body::chunked(),
        }
    }

    /// Writes the head for upstream: the same, but for what concerns the client's connection only.
    pub(super) fn write(&self, prefix: &str, own_host: Option<&str>, out: &mut Vec<u8>) {
        let path = self.path();
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        match path {
            "*" => {}
            _ => out.extend_from_slice(prefix.as_bytes()),
        }
        if path.starts_with('?') {
            out.push(b'/');
        }
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let mut upgrades = !self.hop.websocket;
        for field in self.fields {
            let name = Name::of(field.name);
            match (name, own_host) {
                (Name::Connection, _) if !upgrades => {
                    out.extend_from_slice(b"Connection: Upgrade\r\n");
                    upgrades = true;
                }
                (Name::Upgrade, _) if fields::is_websocket(field.value) => fields::write(field, self.head, out),
                (Name::Host, Some(host)) => {
                    out.extend_from_slice(field.name.as_bytes());
                    out.extend_from_slice(b": ");
                    out.extend_from_slice(host.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                _ if self.hop.passes(field, name) => fields::write(field, self.head, out),
                _ => {}
            }
        }
        if !upgrades {
            out.extend_from_slice(b"Connection: Upgrade\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts::new("127.0.0.1".parse().unwrap(), "up.test:8000", &[])
    }

    fn with<T>(text: &str, look: impl FnOnce(&Request<'_, '_>) -> T) -> T {
        let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let read = Request::read(text.as_bytes(), &mut room, 100);
        look(read.unwrap_or_else(|refusal| panic!("{text:?}: {refusal:?}")).as_ref().expect("a whole head"))
    }

    fn written(text: &str, prefix: &str, own_host: Option<&str>) -> String {
        let mut out = Vec::new();
        with(text, |request| request.write(prefix, own_host, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_goes_on_as_it_came() {
        let head = "POST /a?b HTTP/1.1\r\nhOST:up.test\r\nX-A:   b c\r\nx-a: d\r\nEmpty:\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(written(&format!("{head}abc"), "", None), head);
        assert_eq!(
            written("GET http://up.test HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n", "/base", Some("own:1")),
            "GET /base/ HTTP/1.1\r\nHost: own:1\r\n\r\n"
        );
        assert_eq!(written("GET http://up.test?q HTTP/1.1\r\n\r\n", "", None), "GET /?q HTTP/1.1\r\n\r\n");
        assert_eq!(written("OPTIONS * HTTP/1.1\n\n", "/base", None), "OPTIONS * HTTP/1.1\r\n\r\n");
        assert_eq!(
            written("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n", "", None),
            "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        );
        assert_eq!(
            written("GET / HTTP/1.1\r\nUpgrade: h2c\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "", None),
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        );
    }

    #[test]
    fn what_cannot_be_read_in_one_way_only_is_refused() {
        let refused = |fields: &str| {
            let text = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
            with(&text, |request| request.refusal(&hosts()).and_then(|refusal| refusal.status))
        };
        assert_eq!(refused("Content-Length: 3\r\n"), None);
        assert_eq!(refused("Transfer-Encoding: Chunked\r\n"), None);
        for fields in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 3\r\ncontent-length: 3\r\n",
            "Content-Length: -3\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(refused(fields), Some(400), "{fields:?}");
        }
        let old = "POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(with(old, |request| request.refusal(&hosts())).is_some());
        for (target, status) in [("http://evil.test/", Some(421)), ("HTTPS://up.test/x", None), ("x", Some(400))] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let refusal = with(&text, |request| request.refusal(&hosts()));
            assert_eq!(refusal.and_then(|refusal| refusal.status), status, "{target}");
        }
    }

    #[test]
    fn the_end_of_a_head_is_found_from_where_one_looked() {
        let head = b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest";
        assert_eq!(end_of_head(head, 0), Some(head.len() - 4));
        assert_eq!(end_of_head(head, head.len() - 8), Some(head.len() - 4));
        assert_eq!(end_of_head(b"GET / HTTP/1.1\n\nx", 0), Some(16));
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\nA: b\r\n\r", 0), None);
    }
}
