//! What may pass from one hop to the next, and who may come in.
//!
//! Comes in: the head of a request or response. Goes out: the same without the fields that concern one connection
//! only, or the reason why it is refused. Everything else stays as it was: order, spelling, values.

use std::net::IpAddr;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Uri};

/// Fields that a `Connection` field cannot strike out: without them the message means something else.
const KEPT: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONTENT_TYPE, header::AUTHORIZATION];

/// Removes the hop-by-hop fields. `Transfer-Encoding: chunked` stays (hyper frames the body by it, and so the field
/// keeps its place), so does `TE: trailers`, and both parts of an upgrade to WebSocket where `upgrading`.
pub(super) fn strip_hop_by_hop(fields: &mut HeaderMap, upgrading: bool) {
    let named: Vec<HeaderName> = fields
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        // Most say only this.
        .filter(|name| !name.eq_ignore_ascii_case("keep-alive") && !name.eq_ignore_ascii_case("close"))
        .filter_map(|name| name.parse().ok())
        .filter(|name| !KEPT.contains(name) && *name != header::UPGRADE && *name != header::TE)
        .collect();
    let stays = |name: &HeaderName, value: &HeaderValue| {
        let bare = match *name {
            header::CONNECTION | header::UPGRADE => upgrading,
            header::TE => value.as_bytes().eq_ignore_ascii_case(b"trailers"),
            _ => name != "keep-alive" && name != "proxy-connection",
        };
        bare && !named.contains(name)
    };
    if !fields.iter().all(|(name, value)| stays(name, value)) {
        // Taking fields out of a `HeaderMap` moves its last one into the gap; building it anew keeps their order.
        let kept = fields.iter().filter(|(name, value)| stays(name, value));
        *fields = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    if upgrading {
        fields.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

/// Does this request ask for a WebSocket? The only upgrade that is passed on: any other (h2c) would carry requests
/// past every check.
pub(super) fn asks_websocket<B>(request: &Request<B>) -> bool {
    request.headers().get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
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
        let mut names = vec!["localhost".to_string(), name_of(upstream).to_ascii_lowercase()];
        names.push(listen.to_string());
        names.extend(more.iter().map(|name| name_of(name).to_ascii_lowercase()));
        Hosts { names }
    }

    /// Says why the request is not for us, if it is not: status and sentence.
    pub(super) fn refuse(&self, uri: &Uri, fields: &HeaderMap) -> Option<(u16, String)> {
        let mut hosts = fields.get_all(header::HOST).iter();
        let first = hosts.next();
        if hosts.next().is_some() {
            return Some((400, "the request has two Host fields".to_string()));
        }
        let host = match (uri.authority(), first) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(value)) => match value.to_str() {
                Ok(text) => text,
                Err(_) => return Some((400, "the Host field is no text".to_string())),
            },
            (None, None) => return Some((400, "the request has no Host field".to_string())),
        };
        let name = name_of(host);
        let known = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let why = "not a name this proxy serves; allow it with --allow-host";
        (!known).then(|| (421, format!("Host {} is {why}", name.escape_default())))
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

    fn fields(list: &[(&str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn hop_by_hop_fields_go_and_the_others_stay() {
        let mut head = fields(&[
            ("connection", "keep-alive, X-Mine, Content-Length"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("content-length", "3"),
            ("te", "trailers, deflate"),
            ("upgrade", "h2c"),
            ("mcp-session-id", "s"),
            ("origin", "http://x"),
        ]);
        strip_hop_by_hop(&mut head, false);
        let names: Vec<&str> = head.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-length", "mcp-session-id", "origin"]);
        let mut socket = fields(&[("connection", "Upgrade"), ("upgrade", "websocket"), ("te", "trailers")]);
        strip_hop_by_hop(&mut socket, true);
        assert_eq!(socket.len(), 3);
    }

    #[test]
    fn only_names_that_cannot_be_rebound_come_in() {
        let hosts = Hosts::new("127.0.0.1".parse().unwrap(), "api.example.org:8443", &["proxy.test".to_string()]);
        let ask = |host: &str| hosts.refuse(&Uri::from_static("/"), &fields(&[("host", host)])).map(|(code, _)| code);
        for fine in
            ["127.0.0.1:9", "localhost", "LOCALHOST:80", "[::1]:9", "10.0.0.1", "proxy.test:1", "api.example.org"]
        {
            assert_eq!(ask(fine), None, "{fine}");
        }
        for foreign in ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil", ""] {
            assert_eq!(ask(foreign), Some(421), "{foreign}");
        }
        assert_eq!(hosts.refuse(&Uri::from_static("/"), &HeaderMap::new()).map(|(code, _)| code), Some(400));
        let absolute = Uri::from_static("http://evil.example/x");
        assert_eq!(hosts.refuse(&absolute, &fields(&[("host", "localhost")])).map(|(code, _)| code), Some(421));
        let mut twice = fields(&[("host", "localhost")]);
        twice.append("host", HeaderValue::from_static("localhost"));
        assert_eq!(hosts.refuse(&Uri::from_static("/"), &twice).map(|(code, _)| code), Some(400));
    }
}
