//! What may pass from one hop to the next, and who may come in.
//!
//! Comes in: the fields of a head. Goes out: which of them concern this connection only, what they say about it, and the
//! reason why a request is refused. Everything else stays as it was: order, spelling, values.

use std::net::IpAddr;

use httparse::Header;

/// The fields that mean something to a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Upgrade,
    Te,
    Expect,
    /// Concerns this hop, and says nothing we need.
    HopByHop,
    Other,
}

impl Name {
    pub(super) fn of(name: &str) -> Name {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            2 if is("te") => Name::Te,
            4 if is("host") => Name::Host,
            6 if is("expect") => Name::Expect,
            7 if is("upgrade") => Name::Upgrade,
            10 if is("connection") => Name::Connection,
            10 if is("keep-alive") => Name::HopByHop,
            14 if is("content-length") => Name::ContentLength,
            16 if is("proxy-connection") => Name::HopByHop,
            17 if is("transfer-encoding") => Name::TransferEncoding,
            _ => Name::Other,
        }
    }
}

/// Fields that a `Connection` field cannot strike out: without them the message means something else.
const KEPT: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "content-type", "authorization", "upgrade", "te"];

/// What the fields of a head say about the connection and the body.
#[derive(Debug, Default)]
pub(super) struct Hop<'a> {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) expects: bool,
    /// Asks for, or agrees to, a WebSocket. The only upgrade that is passed on: any other (h2c) would carry requests
    /// past every check.
    pub(super) websocket: bool,
    pub(super) hosts: u32,
    pub(super) host: Option<&'a [u8]>,
    pub(super) lengths: u32,
    /// `None` where one of the lengths is no number, or two differ.
    pub(super) length: Option<u64>,
    pub(super) codings: u32,
    /// The only coding is `chunked`.
    pub(super) chunked: bool,
    /// Fields that `Connection` names: they concern this hop only.
    named: Vec<&'a str>,
}

impl<'a> Hop<'a> {
    pub(super) fn read(fields: &[Header<'a>]) -> Hop<'a> {
        let mut hop = Hop::default();
        for field in fields {
            let value = field.value;
            match Name::of(field.name) {
                Name::Other | Name::HopByHop | Name::Te => {}
                Name::Host => {
                    hop.hosts += 1;
                    hop.host = Some(value);
                }
                Name::ContentLength => {
                    let length = number(value);
                    hop.length = if hop.lengths == 0 || hop.length == length { length } else { None };
                    hop.lengths += 1;
                }
                Name::TransferEncoding => {
                    hop.codings += 1;
                    hop.chunked = hop.codings == 1 && value.eq_ignore_ascii_case(b"chunked");
                }
                Name::Expect => hop.expects |= value.eq_ignore_ascii_case(b"100-continue"),
                Name::Upgrade => hop.websocket |= is_websocket(value),
                Name::Connection => hop.connection(value),
            }
        }
        hop
    }

    fn connection(&mut self, value: &'a [u8]) {
        for word in std::str::from_utf8(value).unwrap_or_default().split(',').map(str::trim) {
            if word.eq_ignore_ascii_case("keep-alive") {
                self.keep_alive = true;
            } else if word.eq_ignore_ascii_case("close") {
                self.close = true;
            } else if !word.is_empty() && !KEPT.iter().any(|kept| word.eq_ignore_ascii_case(kept)) {
                self.named.push(word);
            }
        }
    }

    /// Whether the other side will take another message behind this one.
    pub(super) fn stays(&self, minor: u8) -> bool {
        !self.close && (minor > 0 || self.keep_alive)
    }

    /// Whether a field goes on to the next hop. How the body is framed, and an upgrade, are the caller's.
    pub(super) fn passes(&self, field: &Header<'_>, name: Name) -> bool {
        let bare = match name {
            Name::Connection | Name::HopByHop | Name::Upgrade => false,
            Name::Te => field.value.eq_ignore_ascii_case(b"trailers"),
            _ => true,
        };
        bare && (self.named.is_empty() || !self.named.iter().any(|named| field.name.eq_ignore_ascii_case(named)))
    }
}

/// What an `Upgrade` field must say to be passed on. One that names others beside it lets the server choose those.
pub(super) fn is_websocket(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"websocket")
}

/// Digits only, as the standard has it.
fn number(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Writes a field as it stood in `head`, but for spaces at its end.
pub(super) fn write(field: &Header<'_>, head: &[u8], out: &mut Vec<u8>) {
    let place = |part: &[u8]| (part.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize);
    let (begin, end) = (place(field.name.as_bytes()), place(field.value).wrapping_add(field.value.len()));
    match head.get(begin..end) {
        Some(line) if !field.value.is_empty() => out.extend_from_slice(line),
        // An empty value stands nowhere.
        _ => {
            out.extend_from_slice(field.name.as_bytes());
            out.push(b':');
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether a field may stand behind a body. Some servers take what stands there for part of the head.
pub(super) fn may_trail(name: &str) -> bool {
    const NEVER: [&str; 9] = [
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "cookie",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
    ];
    !NEVER.iter().any(|never| name.eq_ignore_ascii_case(never))
}

/// The names under which the proxy may be reached.
///
/// A page in a browser can make its own name resolve to 127.0.0.1 and then read what a local server answers (DNS
/// rebinding); its requests carry that name as `Host`. An address written out, or `localhost`, cannot be rebound.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    names: Vec<String>,
}

impl Hosts {
    pub(super) fn new(listen: IpAddr, upstream: &str, more: &[String]) -> Hosts {
        let mut names = vec![listen.to_string(), "localhost".to_string(), name_of(upstream).to_ascii_lowercase()];
        names.extend(more.iter().map(|name| name_of(name).to_ascii_lowercase()));
        Hosts { names }
    }

    /// Says why the request is not for us, if it is not: status and sentence. `named` stands in an absolute target.
    pub(super) fn refuse(&self, named: Option<&str>, hop: &Hop<'_>) -> Option<(u16, String)> {
        if hop.hosts > 1 {
            return Some((400, "the request has two Host fields".to_string()));
        }
        let host = match (named, hop.host.map(std::str::from_utf8)) {
            (Some(named), _) => named,
            (None, Some(Ok(text))) => text,
            (None, Some(Err(_))) => return Some((400, "the Host field is no text".to_string())),
            (None, None) => return Some((400, "the request has no Host field".to_string())),
        };
        let name = name_of(host);
        let known = self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
            || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let why = "not a name this proxy serves; allow it with --allow-host";
        // What stands before an `@` can be a password, and this sentence is recorded.
        let shown = name_of(host.rsplit('@').next().unwrap_or(host));
        (!known).then(|| (421, format!("Host {} is {why}", shown.escape_default())))
    }
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(list: &[(&'a str, &'a str)]) -> Vec<Header<'a>> {
        list.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect()
    }

    fn passing<'a>(list: &[(&'a str, &'a str)]) -> Vec<&'a str> {
        let all = fields(list);
        let hop = Hop::read(&all);
        all.iter().filter(|field| hop.passes(field, Name::of(field.name))).map(|field| field.name).collect()
    }

    #[test]
    fn hop_by_hop_fields_go_and_the_others_stay() {
        let passed = passing(&[
            ("Connection", "keep-alive, X-Mine, Content-Length"),
            ("x-mine", "1"),
            ("Keep-Alive", "timeout=5"),
            ("content-length", "3"),
            ("te", "trailers, deflate"),
            ("upgrade", "h2c"),
            ("MCP-Session-Id", "s"),
            ("origin", "http://x"),
        ]);
        assert_eq!(passed, ["content-length", "MCP-Session-Id", "origin"]);
        assert_eq!(passing(&[("TE", "trailers"), ("Connection", "TE, close")]), ["TE"]);
    }

    #[test]
    fn lengths_are_numbers_and_agree() {
        let length = |list: &[&str]| {
            let all: Vec<_> = list.iter().map(|value| ("Content-Length", *value)).collect();
            Hop::read(&fields(&all)).length
        };
        assert_eq!(length(&["3"]), Some(3));
        assert_eq!(length(&["3", "3"]), Some(3));
        for wrong in [&["3", "4"][..], &["+3"], &["3, 3"], &[""], &["0x3"], &["99999999999999999999"], &["3", "x", "3"]]
        {
            assert_eq!(length(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_names_that_cannot_be_rebound_come_in() {
        let hosts = Hosts::new("127.0.0.1".parse().unwrap(), "api.example.org:8443", &["proxy.test".to_string()]);
        let refuse = |named: Option<&str>, list: &[(&str, &str)]| {
            hosts.refuse(named, &Hop::read(&fields(list))).map(|(code, _)| code)
        };
        for fine in
            ["127.0.0.1:9", "localhost", "LOCALHOST:80", "[::1]:9", "10.0.0.1", "proxy.test:1", "api.example.org"]
        {
            assert_eq!(refuse(None, &[("host", fine)]), None, "{fine}");
        }
        for foreign in ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil", ""] {
            assert_eq!(refuse(None, &[("Host", foreign)]), Some(421), "{foreign}");
        }
        assert_eq!(refuse(None, &[]), Some(400));
        assert_eq!(refuse(Some("evil.example"), &[("host", "localhost")]), Some(421));
        let (_, why) = hosts.refuse(Some("me:pa:ss@localhost:80"), &Hop::default()).unwrap();
        assert!(why.starts_with("Host localhost is "), "{why}");
        assert_eq!(refuse(None, &[("host", "localhost"), ("Host", "localhost")]), Some(400));
    }
}
