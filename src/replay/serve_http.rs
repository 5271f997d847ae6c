//! The stage over Streamable HTTP.
//!
//! Each `initialize` opens a session with a stage of its own; versions without sessions share one. A POST with a
//! request is answered by an event stream that lives until the answer was said: what hung keeps its stream open.
//! What belongs to no request goes to the GET stream, or waits for one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;

use super::server::{Cue, Stage};
use super::stdio::{Forward, Rolling, StarterBox};
use crate::error::{Doing, Result};
use crate::event::{Line, Scribe, Session, Side, Stamper};
use crate::rpc::Id;
use crate::wire::Framing;

const LONGEST_REQUEST_BYTES: usize = 64 * 1024 * 1024;
/// Messages that wait for a GET stream; older ones are let go.
const MOST_WAITING: usize = 10_000;
const FORWARD_POLL: Duration = Duration::from_millis(5);

/// What is needed to serve: how to make a stage, and a server to forward to.
pub struct Hall {
    pub make_stage: Box<dyn Fn() -> Stage>,
    pub session: Session,
    pub start: Option<StarterBox>,
    pub stamper: Stamper,
    pub tell: Box<dyn Fn(&str)>,
}

struct Open {
    hall: Hall,
    rooms: std::cell::RefCell<HashMap<String, Rc<Room>>>,
    count: std::cell::Cell<u64>,
}

/// One session.
struct Room {
    stage: std::cell::RefCell<Stage>,
    scribe: std::cell::RefCell<(Scribe, Rolling)>,
    streams: std::cell::RefCell<Streams>,
    forward: std::cell::RefCell<Forward>,
    wake: Notify,
    gone: std::cell::Cell<bool>,
}

#[derive(Default)]
struct Streams {
    by_request: HashMap<Id, mpsc::UnboundedSender<Bytes>>,
    order: Vec<Id>,
    general: Option<mpsc::UnboundedSender<Bytes>>,
    waiting: Vec<Bytes>,
}

/// Serves until the process is ended. `bound` is told the address once.
pub fn serve(address: &str, hall: Hall, bound: &dyn Fn(SocketAddr)) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().doing("starting the HTTP server")?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(address).await.doing(format!("listening on {address}"))?;
        bound(listener.local_addr().doing("listening")?);
        let open = Rc::new(Open { hall, rooms: Default::default(), count: Default::default() });
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let open = Rc::clone(&open);
            tokio::task::spawn_local(async move {
                let service = service_fn(move |request| {
                    let open = Rc::clone(&open);
                    async move { Ok::<_, Infallible>(open.answer(request).await) }
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

type Answer = Response<Out>;

/// A body that is whole, or comes bit by bit.
enum Out {
    Whole(Option<Bytes>),
    Coming(mpsc::UnboundedReceiver<Bytes>),
}

impl Body for Out {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Out::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Out::Coming(coming) => coming.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let body = if text.is_empty() { None } else { Some(Bytes::from(text.to_string())) };
    let mut response = Response::new(Out::Whole(body));
    *response.status_mut() = status;
    response
}

fn stream(coming: mpsc::UnboundedReceiver<Bytes>, session: Option<&str>) -> Answer {
    let mut response =
        Response::builder().header("content-type", "text/event-stream").header("cache-control", "no-cache");
    if let Some(session) = session {
        response = response.header("mcp-session-id", session);
    }
    response.body(Out::Coming(coming)).unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, ""))
}

impl Open {
    async fn answer(self: Rc<Self>, request: Request<Incoming>) -> Answer {
        let named = request.headers().get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_string);
        let is_get = request.method() == Method::GET;
        if request.method() == Method::POST {
            return self.post(request, named).await;
        }
        let room = self.rooms.borrow().get(named.as_deref().unwrap_or("")).cloned().filter(|room| !room.gone.get());
        let Some(room) = room else { return plain(StatusCode::NOT_FOUND, "no such session") };
        if is_get {
            let (sender, coming) = mpsc::unbounded_channel();
            let mut streams = room.streams.borrow_mut();
            for waiting in streams.waiting.drain(..) {
                let _ = sender.send(waiting);
            }
            streams.general = Some(sender);
            return stream(coming, None);
        }
        if request.method() == Method::DELETE {
            room.end();
            return plain(StatusCode::OK, "");
        }
        plain(StatusCode::METHOD_NOT_ALLOWED, "")
    }

    async fn post(self: Rc<Self>, request: Request<Incoming>, named: Option<String>) -> Answer {
        let wants_stream = request
            .headers()
            .get("accept")
            .and_then(|value| value.to_str().ok())
            .is_none_or(|accept| accept.contains("text/event-stream") || accept.contains("*/*"));
        let Ok(body) = Limited::new(request.into_body(), LONGEST_REQUEST_BYTES).collect().await else {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "");
        };
        let body = body.to_bytes();
        let opens = memchr::memmem::find(&body, b"\"initialize\"").is_some();
        let (name, room) = match named {
            Some(name) => match self.rooms.borrow().get(&name).filter(|room| !room.gone.get()) {
                Some(room) => (name, Rc::clone(room)),
                None => return plain(StatusCode::NOT_FOUND, "no such session"),
            },
            None if opens => {
                self.count.set(self.count.get() + 1);
                let name = format!("replay-{}", self.count.get());
                (name.clone(), self.room(&name))
            }
            None => (String::new(), self.room("")),
        };
        let now = self.hall.stamper.now();
        let lines = room.read(&body, now, &self.hall.session);
        let ids: Vec<Id> = lines
            .iter()
            .filter(|line| line.is_request())
            .map(|line| line.message.id.as_ref().map_or(Id::Null, Id::canonical))
            .collect();
        let (sender, mut coming) = mpsc::unbounded_channel();
        {
            let mut streams = room.streams.borrow_mut();
            for id in &ids {
                streams.by_request.insert(id.clone(), sender.clone());
                streams.order.push(id.clone());
            }
        }
        drop(sender);
        for line in &lines {
            room.forward.borrow_mut().overhear(line);
            room.stage.borrow_mut().hear(line, now);
        }
        room.wake.notify_one();
        if ids.is_empty() {
            return plain(StatusCode::ACCEPTED, "");
        }
        let session = opens.then_some(name.as_str());
        if wants_stream {
            return stream(coming, session);
        }
        // A client that takes no stream gets the last thing said: its answer.
        let mut last = Bytes::new();
        while let Some(event) = coming.recv().await {
            last = event;
        }
        let text = String::from_utf8_lossy(&last);
        let json = text.trim().strip_prefix("event: message\ndata: ").unwrap_or("").to_string();
        let mut response = plain(StatusCode::OK, &json);
        response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
        if let Some(session) = session.and_then(|session| session.parse().ok()) {
            response.headers_mut().insert("mcp-session-id", session);
        }
        response
    }

    fn room(self: &Rc<Self>, name: &str) -> Rc<Room> {
        if let Some(room) = self.rooms.borrow().get(name).filter(|room| !room.gone.get()) {
            return Rc::clone(room);
        }
        let mut stage = (self.hall.make_stage)();
        stage.open(self.hall.stamper.now());
        let room = Rc::new(Room {
            stage: stage.into(),
            scribe: (Scribe::new(self.hall.session.key), Rolling::default()).into(),
            streams: Default::default(),
            forward: Default::default(),
            wake: Notify::new(),
            gone: Default::default(),
        });
        self.rooms.borrow_mut().insert(name.to_string(), Rc::clone(&room));
        tokio::task::spawn_local(Rc::clone(self).play(Rc::clone(&room)));
        room
    }

    /// Says what falls due, until the session is gone.
    async fn play(self: Rc<Self>, room: Rc<Room>) {
        let mut forwarded = (Scribe::new(self.hall.session.key), Rolling::default());
        while !room.gone.get() {
            let now = self.hall.stamper.now();
            let cues = room.stage.borrow_mut().due(now);
            for cue in cues {
                match cue {
                    Cue::Say { text, about, is_answer } => room.say(&text, about.as_ref(), is_answer),
                    Cue::Disconnect => return room.end(),
                    Cue::Forward(text) => {
                        let sent = match &self.hall.start {
                            Some(start) => room.forward.borrow_mut().send(&text, &**start, Framing::Lines),
                            None => Ok(()),
                        };
                        if let Err(error) = sent {
                            (self.hall.tell)(&error.to_string());
                        }
                    }
                }
            }
            for note in room.stage.borrow_mut().notes() {
                (self.hall.tell)(&note);
            }
            let due = room.stage.borrow().next_due();
            let mut wait = due.map_or(Duration::from_secs(3600), |due| {
                Duration::from_micros((due - self.hall.stamper.now()).max(0) as u64)
            });
            if room.forward.borrow().is_running() {
                let lines = room.forward.borrow_mut().heard(&mut forwarded.0, &mut forwarded.1, &self.hall.session);
                for line in lines {
                    let id = line.message.id.as_ref().filter(|_| line.is_response());
                    room.say(&line.text(), id, id.is_some());
                }
                wait = wait.min(FORWARD_POLL);
            }
            let _ = tokio::time::timeout(wait, room.wake.notified()).await;
        }
    }
}

impl Room {
    fn read(&self, body: &[u8], now: i64, session: &Session) -> Vec<Line> {
        let mut scribe = self.scribe.borrow_mut();
        let (scribe, kept) = &mut *scribe;
        scribe.body(Side::Client, now, None, body, kept);
        kept.lines(session)
    }

    fn say(&self, text: &str, about: Option<&Id>, is_answer: bool) {
        let event = Bytes::from(format!("event: message\ndata: {}\n\n", text.replace(['\n', '\r'], " ")));
        let mut streams = self.streams.borrow_mut();
        if let Some(id) = about.map(Id::canonical)
            && let Some(sender) = streams.by_request.get(&id)
        {
            let _ = sender.send(event);
            if is_answer {
                streams.by_request.remove(&id);
                streams.order.retain(|other| *other != id);
            }
            return;
        }
        if let Some(general) = &streams.general
            && general.send(event.clone()).is_ok()
        {
            return;
        }
        let latest = streams.order.last().and_then(|id| streams.by_request.get(id));
        if latest.is_some_and(|sender| sender.send(event.clone()).is_ok()) {
            return;
        }
        if streams.waiting.len() < MOST_WAITING {
            streams.waiting.push(event);
        }
    }

    fn end(&self) {
        self.gone.set(true);
        *self.streams.borrow_mut() = Streams::default();
        self.wake.notify_one();
    }
}
