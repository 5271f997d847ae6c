//! One request on its way to the upstream server, and the response on its way back.
//!
//! Comes in: a request as hyper read it. Goes out: the response, or our own refusal. Whatever happens, the carrier's
//! end is told once: by the body that ended, or by what was dropped with the client's connection.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use tokio::sync::{mpsc, oneshot};

use crate::event::{How, Party, Side};
use crate::peer::http::{Kept, Trouble, Upstream, told};

use super::body::{Gate, RequestBody, ResponseBody};
use super::guard::Ground;
use super::heads::{Hosts, asks_websocket, strip_hop_by_hop};
use super::notes::{Carrier, Notes};
use super::tunnel;

/// What one worker needs to forward.
pub(super) struct Forwarder {
    pub(super) upstream: Upstream<RequestBody>,
    pub(super) hosts: Hosts,
    /// Send the upstream's own name as `Host`, instead of what the client sent.
    pub(super) own_host: Option<HeaderValue>,
    pub(super) upload_idle_limit: Duration,
    pub(super) notes: Arc<Notes>,
    pub(super) carriers: Arc<AtomicU64>,
    pub(super) cut: Arc<AtomicBool>,
}

/// One client connection.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) client: String,
    pub(super) ground: Arc<Ground>,
    pub(super) requests: AtomicU64,
    pub(super) kept: Arc<Kept<RequestBody>>,
    /// Held by everything that must end before the worker may.
    pub(super) open: mpsc::Sender<()>,
}

/// Tells that the client left, if it is dropped while the response is awaited.
struct Waiting(Option<Arc<Carrier>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(carrier) = &self.0 {
            carrier.left();
        }
    }
}

pub(super) async fn forward(
    forwarder: Arc<Forwarder>,
    line: Arc<Line>,
    mut request: Request<Incoming>,
) -> Response<ResponseBody> {
    line.ground.pulse.awaits_answer();
    let place = line.requests.fetch_add(1, Ordering::Relaxed);
    let number = forwarder.carriers.fetch_add(1, Ordering::Relaxed);
    let carrier = Carrier::new(number, forwarder.notes.clone(), line.ground.clone(), forwarder.cut.clone());
    let carrier = Arc::new(carrier);
    carrier.request(&line.client, line.number, request.method().as_str(), target_of(request.uri()), request.headers());
    if let Some(why) = line.ground.refuses(place) {
        return refuse(&carrier, 400, why);
    }
    if let Some((status, why)) = forwarder.hosts.refuse(request.uri(), request.headers()) {
        return refuse(&carrier, status, &why);
    }
    if request.method() == Method::CONNECT {
        return refuse(&carrier, 405, "this is a reverse proxy: it makes no tunnels");
    }
    let upgrading = asks_websocket(&request);
    let client_side = upgrading.then(|| hyper::upgrade::on(&mut request));
    let eager = line.ground.is_eager(place);
    let request = match for_upstream(&forwarder, &carrier, request, upgrading, eager) {
        Ok(request) => request,
        Err(why) => return refuse(&carrier, 400, &why),
    };
    let mut waiting = Waiting(Some(carrier.clone()));
    let sent = forwarder.upstream.send(&line.kept, request).await;
    let (mut response, lease) = match sent {
        Ok(answered) => answered,
        Err(trouble) => {
            let (words, how) = match trouble {
                Trouble::Unreachable { why, unsent } => {
                    take_in(unsent.into_body()).await;
                    (format!("cannot be reached: {why}"), How::Error)
                }
                Trouble::Broken(why) => (format!("ended before it answered: {why}"), How::Reset),
            };
            waiting.0 = None;
            return unanswered(&forwarder, &carrier, &words, how);
        }
    };
    waiting.0 = None;
    // Of two lengths the chunks' own counts; both at once must not be passed on.
    if response.headers().contains_key(header::TRANSFER_ENCODING) {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    carrier.response(response.status().as_u16(), response.headers());
    // The version belongs to the hop: an upstream of 1.0 need not cost the client its connection.
    *response.version_mut() = Version::HTTP_11;
    if let Some(client_side) = client_side {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let server_side = hyper::upgrade::on(&mut response);
            lease.let_go();
            tokio::spawn(tunnel::run(client_side, server_side, carrier, line.open.clone()));
            strip_hop_by_hop(response.headers_mut(), true);
            return response.map(|_| ResponseBody::Own(None));
        }
        // The guard stopped following this connection when the upgrade was asked for.
        let mut response = response.map(|incoming| ResponseBody::new(incoming, carrier, lease));
        strip_hop_by_hop(response.headers_mut(), false);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    strip_hop_by_hop(response.headers_mut(), false);
    response.map(|incoming| ResponseBody::new(incoming, carrier, lease))
}

/// Path and query as they came; an absolute URL loses its host, which was checked.
fn target_of(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}

fn for_upstream(
    forwarder: &Forwarder,
    carrier: &Arc<Carrier>,
    request: Request<Incoming>,
    upgrading: bool,
    eager: bool,
) -> Result<Request<RequestBody>, String> {
    let (mut parts, incoming) = request.into_parts();
    strip_hop_by_hop(&mut parts.headers, upgrading);
    if let Some(host) = &forwarder.own_host {
        parts.headers.insert(header::HOST, host.clone());
    }
    let prefix = &forwarder.upstream.address().prefix;
    if !prefix.is_empty() || parts.uri.authority().is_some() {
        let target = format!("{prefix}{}", target_of(&parts.uri));
        parts.uri = target.parse().map_err(|cause| format!("the target cannot be passed on: {cause}"))?;
    }
    parts.version = Version::HTTP_11;
    // Who has not waited need not be kept waiting.
    let expects = !eager
        && parts
            .headers
            .get(header::EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let (gate, teller) = if expects {
        let (teller, told) = oneshot::channel();
        (Some(Gate::new(told)), Some(teller))
    } else {
        (None, None)
    };
    let body = RequestBody::new(incoming, carrier.clone(), gate, forwarder.upload_idle_limit);
    let mut request = Request::from_parts(parts, body);
    if let Some(teller) = teller {
        let teller = Mutex::new(Some(teller));
        hyper::ext::on_informational(&mut request, move |interim| {
            if interim.status() == StatusCode::CONTINUE
                && let Some(teller) = teller.lock().ok().and_then(|mut teller| teller.take())
            {
                let _ = teller.send(());
            }
        });
    }
    Ok(request)
}

/// Notes a request whose head nobody could read. hyper has answered it, without a word, and closed the connection.
pub(super) fn unread(forwarder: &Forwarder, line: &Line, cause: &hyper::Error) {
    let number = forwarder.carriers.fetch_add(1, Ordering::Relaxed);
    let carrier = Carrier::new(number, forwarder.notes.clone(), line.ground.clone(), forwarder.cut.clone());
    carrier.request(&line.client, line.number, "?", "?", &HeaderMap::new());
    let why = match line.ground.refuses(line.requests.load(Ordering::Relaxed)) {
        Some(why) => why.to_string(),
        None => format!("the head of the request cannot be read ({})", told(cause)),
    };
    carrier.note(&format!("refused by rpctap: {why}"));
    // Whoever speaks HTTP/2 would not understand an answer, and gets none.
    if !cause.is_parse_version_h2() {
        let status = if cause.is_parse_too_large() { 431 } else { 400 };
        carrier.response(status, &HeaderMap::new());
        carrier.response_end();
    }
    carrier.closed(Party::Tap, How::Eof);
}

/// Our own answer to a request that goes no further.
fn refuse(carrier: &Carrier, status: u16, why: &str) -> Response<ResponseBody> {
    carrier.note(&format!("refused by rpctap: {why}"));
    let response = own_words(carrier, status, &format!("rpctap: {why}\n"), true);
    carrier.response_end();
    carrier.closed(Party::Tap, How::Eof);
    response
}

/// What a client sends is recorded even if there is nobody to pass it on to, as far as one may wait for it.
async fn take_in(mut body: RequestBody) {
    let all = async {
        let mut left = MOST_TAKEN_IN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(TAKEN_IN_WITHIN, all).await;
}

const MOST_TAKEN_IN_BYTES: usize = 1024 * 1024;
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(2);

fn unanswered(forwarder: &Forwarder, carrier: &Carrier, words: &str, how: How) -> Response<ResponseBody> {
    let words = format!("upstream {} {words}", forwarder.upstream.address().url());
    carrier.note(&words);
    let response = own_words(carrier, 502, &format!("rpctap: {words}\n"), false);
    carrier.response_end();
    carrier.closed(Party::Server, how);
    response
}

fn own_words(carrier: &Carrier, status: u16, words: &str, close: bool) -> Response<ResponseBody> {
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if close {
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    carrier.response(status, &fields);
    carrier.body(Side::Server, words.as_bytes());
    let mut response = Response::new(ResponseBody::Own(Some(Bytes::copy_from_slice(words.as_bytes()))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = fields;
    response
}
