//! A server spoken to over Streamable HTTP.
//!
//! A thread of its own holds the connections: each message is a POST, answered by JSON or by an event stream; a GET
//! stream is held where the recorded client held one. Session id and protocol version are taken from the answer to
//! `initialize` and sent along. Messages go out in order: the next waits for the head of the last, but not for long,
//! so that a cancel can still pass a call that hangs.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet};

use super::{Heard, HeardWhat, Peer};
use crate::error::{Doing, Error, Result};
use crate::event::{Happening, How, Party, Stamper};
use crate::peer::dial::Address;
use crate::peer::http::{Kept, Trouble, Upstream};
use crate::rpc::Mark;
use crate::wire::sse::{Said, Sse};

/// How long a message waits for the head of the response to the one before.
const HEAD_PATIENCE: Duration = Duration::from_millis(100);
/// Time to end the session in order.
const END_PATIENCE: Duration = Duration::from_millis(500);
const QUEUE_MESSAGES: usize = 1024;
/// One message of the server; longer ones are cut off and told as unreadable.
const LONGEST_BODY_BYTES: usize = 64 * 1024 * 1024;

enum Order {
    Send { carrier: u64, body: Vec<u8> },
    HangUp { carrier: u64 },
    End,
}

pub struct HttpPeer {
    orders: mpsc::UnboundedSender<Order>,
    heard: Receiver<Heard>,
    carriers: u64,
}

/// What is known of the session, shared by all its requests.
struct Talk {
    upstream: Upstream<Full<Bytes>>,
    kept: Arc<Kept<Full<Bytes>>>,
    path: String,
    headers: Vec<(String, String)>,
    session: std::cell::RefCell<Option<String>>,
    version: std::cell::RefCell<Option<String>>,
    heard: SyncSender<Heard>,
    stamper: Stamper,
    listens: bool,
    listening: std::cell::Cell<bool>,
}

impl HttpPeer {
    /// `listens`: whether to hold a GET stream, as the recorded client did.
    pub fn start(url: &str, headers: &[String], listens: bool, stamper: Stamper) -> Result<HttpPeer> {
        let (address, path) = split(url)?;
        let headers = headers
            .iter()
            .map(|header| {
                let (name, value) = header
                    .split_once(':')
                    .ok_or_else(|| Error::new(format!("{header} is no header: write Name: value")))?;
                Ok((name.trim().to_string(), value.trim().to_string()))
            })
            .collect::<Result<Vec<_>>>()?;
        let upstream = Upstream::new(address)?;
        let (orders, taken) = mpsc::unbounded_channel();
        let (sender, heard) = sync_channel(QUEUE_MESSAGES);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().doing("starting the HTTP client")?;
        thread::spawn(move || {
            let talk = Rc::new(Talk {
                upstream,
                kept: Arc::default(),
                path,
                headers,
                session: Default::default(),
                version: Default::default(),
                heard: sender,
                stamper,
                listens,
                listening: Default::default(),
            });
            LocalSet::new().block_on(&runtime, obey(talk, taken));
        });
        Ok(HttpPeer { orders, heard, carriers: 0 })
    }
}

/// The origin and the path: an address with a path would be taken as a prefix.
fn split(url: &str) -> Result<(Address, String)> {
    let mut address = Address::parse(url)?;
    let path = if address.prefix.is_empty() { "/".to_string() } else { address.prefix.clone() };
    address.prefix = String::new();
    Ok((address, path))
}

impl Peer for HttpPeer {
    fn send(&mut self, body: &[u8]) -> Option<u64> {
        self.carriers += 1;
        let _ = self.orders.send(Order::Send { carrier: self.carriers, body: body.to_vec() });
        Some(self.carriers)
    }

    fn hang_up(&mut self, carrier: u64) -> bool {
        self.orders.send(Order::HangUp { carrier }).is_ok()
    }

    fn hear(&mut self, wait: Duration) -> Option<Heard> {
        self.heard.recv_timeout(wait).ok()
    }

    fn close(&mut self) {
        let _ = self.orders.send(Order::End);
    }

    fn end(&mut self) {
        let _ = self.orders.send(Order::End);
    }
}

async fn obey(talk: Rc<Talk>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut open: HashMap<u64, AbortHandle> = HashMap::new();
    loop {
        match orders.recv().await {
            Some(Order::Send { carrier, body }) => {
                let (head, came) = oneshot::channel();
                let posting = Rc::clone(&talk);
                let task = tokio::task::spawn_local(async move { posting.post(carrier, body, head).await });
                open.retain(|_, task| !task.is_finished());
                open.insert(carrier, task.abort_handle());
                let _ = tokio::time::timeout(HEAD_PATIENCE, came).await;
            }
            // The connection goes with the task that held it.
            Some(Order::HangUp { carrier }) => {
                if let Some(task) = open.remove(&carrier) {
                    task.abort();
                }
            }
            Some(Order::End) | None => break,
        }
    }
    if talk.session.borrow().is_some() {
        let request = talk.request("DELETE", Vec::new());
        let _ = tokio::time::timeout(END_PATIENCE, talk.upstream.send(&talk.kept, request)).await;
    }
    talk.tell(HeardWhat::Closed);
}

impl Talk {
    fn tell(&self, what: HeardWhat) -> bool {
        self.heard.send(Heard { at: self.stamper.now(), what }).is_ok()
    }

    fn happened(&self, carrier: u64, happening: Happening) {
        self.tell(HeardWhat::Happening { carrier: Some(carrier), happening });
    }

    fn request(&self, method: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.path)
            .header("host", &self.upstream.address().authority)
            .header(
                "accept",
                if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" },
            );
        if method == "POST" {
            request = request.header("content-type", "application/json");
        }
        if let Some(session) = &*self.session.borrow() {
            request = request.header("mcp-session-id", session);
        }
        if let Some(version) = &*self.version.borrow() {
            request = request.header("mcp-protocol-version", version);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(body))).unwrap_or_default()
    }

    async fn post(self: Rc<Self>, carrier: u64, body: Vec<u8>, head: oneshot::Sender<()>) {
        let opens = memchr::memmem::find(&body, b"\"initialize\"").is_some();
        let opened = memchr::memmem::find(&body, b"notifications/initialized").is_some();
        // Versions without a handshake are named in each request, and the header must say the same.
        if let Some(version) = version_named(&body) {
            *self.version.borrow_mut() = Some(version);
        }
        let sent = body.len() as u64;
        let (response, lease) = match self.upstream.send(&self.kept, self.request("POST", body)).await {
            Ok(answered) => answered,
            Err(Trouble::Unreachable(why)) => {
                self.tell(HeardWhat::Unreachable(why));
                return;
            }
            Err(Trouble::Broken(_)) => {
                let closed = Happening::CarrierClosed {
                    by: Party::Server,
                    how: How::Reset,
                    request_bytes: sent,
                    response_bytes: 0,
                };
                return self.happened(carrier, closed);
            }
        };
        let _ = head.send(());
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_string);
        if opens && let Some(session) = text("mcp-session-id") {
            *self.session.borrow_mut() = Some(session);
        }
        let streams = text("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let status = response.status().as_u16();
        self.happened(carrier, Happening::CarrierHead { status, headers: Vec::new() });
        if opened && self.listens && !self.listening.replace(true) {
            tokio::task::spawn_local(Rc::clone(&self).listen(u64::MAX));
        }
        let (bytes, how) = self.body(carrier, response.into_body(), streams, opens).await;
        if how == How::Eof {
            lease.give_back();
        }
        let closed = Happening::CarrierClosed { by: Party::Server, how, request_bytes: sent, response_bytes: bytes };
        self.happened(carrier, closed);
    }

    async fn listen(self: Rc<Self>, carrier: u64) {
        let opened =
            Happening::CarrierOpened { method: "GET".to_string(), target: self.path.clone(), headers: Vec::new() };
        self.happened(carrier, opened);
        let Ok((response, _lease)) = self.upstream.send(&self.kept, self.request("GET", Vec::new())).await else {
            return;
        };
        let status = response.status().as_u16();
        self.happened(carrier, Happening::CarrierHead { status, headers: Vec::new() });
        if status == 200 {
            let (bytes, how) = self.body(carrier, response.into_body(), true, false).await;
            let closed = Happening::CarrierClosed { by: Party::Server, how, request_bytes: 0, response_bytes: bytes };
            self.happened(carrier, closed);
        }
    }

    /// Reads the messages of a response; gives how long it was and how it ended.
    async fn body(&self, carrier: u64, mut body: Incoming, streams: bool, opens: bool) -> (u64, How) {
        if streams {
            self.happened(carrier, Happening::CarrierStreaming { resumes: None });
        }
        let mut sse = Sse::new();
        let mut data: Vec<u8> = Vec::new();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return (bytes, How::Reset) };
            let Ok(chunk) = frame.into_data() else { continue };
            bytes += chunk.len() as u64;
            if !streams {
                let room = LONGEST_BODY_BYTES.saturating_sub(data.len());
                data.extend_from_slice(&chunk[..chunk.len().min(room)]);
                continue;
            }
            let mut messages = Vec::new();
            sse.feed(&chunk, &mut |said: Said<'_>| match said {
                Said::Data(part) => {
                    let room = LONGEST_BODY_BYTES.saturating_sub(data.len());
                    data.extend_from_slice(&part[..part.len().min(room)]);
                }
                Said::Event { .. } => messages.push(std::mem::take(&mut data)),
                _ => {}
            });
            for message in messages.into_iter().filter(|message| !message.is_empty()) {
                self.message(carrier, message, opens);
            }
        }
        if !streams && !data.trim_ascii().is_empty() {
            self.message(carrier, data, opens);
        }
        (bytes, How::Eof)
    }

    fn message(&self, carrier: u64, body: Vec<u8>, opens: bool) {
        if opens {
            let mut scanner = crate::rpc::Scanner::new();
            let mut messages = Vec::new();
            scanner.push(&body);
            scanner.finish(&mut messages);
            let agreed = messages.iter().find_map(|message| message.marks.text(Mark::ResultVersion));
            if let Some(version) = agreed {
                *self.version.borrow_mut() = Some(version.to_string());
            }
        }
        self.tell(HeardWhat::Body { carrier, body });
    }
}

fn version_named(body: &[u8]) -> Option<String> {
    let key: &[u8] = b"\"io.modelcontextprotocol/protocolVersion\"";
    let at = memchr::memmem::find(body, key)?;
    let rest = body[at + key.len()..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', rest)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}
