//! The stage over stdio: a client's pipe in, a client's pipe out.
//!
//! One thread reads; this one speaks when something falls due. It ends when the client has closed its end and
//! nothing more is due soon, when the recorded server closed, or when nobody reads any more.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::server::{Cue, Stage};
use super::{HeardWhat, Peer};
use crate::error::{Error, Result};
use crate::event::{
    Bodies, Event, Line, Micros, Recording, Scribe, Session, SessionKey, Side, Sink, Span, Stamper, StreamId,
};
use crate::rpc::{Id, Kind};
use crate::wire::Framing;

/// What is due within this time after the client closed its end is still said.
const DRAIN_MICROS: Micros = 2_000_000;
const CHUNK_BYTES: usize = 64 * 1024;
/// How often a forwarded server is listened to.
const FORWARD_POLL: Duration = Duration::from_millis(5);

/// Starts the server that unmatched requests go to.
pub type Starter<'a> = &'a dyn Fn(Framing) -> Result<Box<dyn Peer>>;
pub type StarterBox = Box<dyn Fn(Framing) -> Result<Box<dyn Peer>>>;

/// Serves one client. Gives what the user should know, once it is over; notes are told as they come.
pub fn serve(
    stage: &mut Stage,
    session: &Session,
    input: impl Read + Send + 'static,
    output: &mut dyn Write,
    stamper: Stamper,
    start: Option<Starter<'_>>,
    tell: &mut dyn FnMut(&str),
) -> Result<()> {
    let chunks = read_chunks(input);
    let mut client = Client::new(session);
    let mut forward = Forward::default();
    stage.open(stamper.now());
    let mut ended_at = None;
    loop {
        let now = stamper.now();
        for cue in stage.due(now) {
            match cue {
                Cue::Disconnect => return Ok(()),
                Cue::Forward(text) => match start {
                    Some(start) => forward.send(&text, start, client.framing())?,
                    None => return Err(Error::new("forwarding: no server was given; put it after --")),
                },
                Cue::Say { text, .. } => {
                    let framed = client.framing().wrap(text.as_bytes());
                    if output.write_all(&framed).and_then(|()| output.flush()).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        for note in stage.notes() {
            tell(&note);
        }
        let mut wait = stage
            .next_due()
            .map_or(Duration::from_secs(3600), |due| Duration::from_micros((due - stamper.now()).max(0) as u64));
        if forward.is_running() {
            for line in forward.heard(&mut client.forward_scribe, &mut client.forward_kept, session) {
                let framed = client.framing().wrap(line.text().as_bytes());
                if output.write_all(&framed).and_then(|()| output.flush()).is_err() {
                    return Ok(());
                }
            }
            wait = wait.min(FORWARD_POLL);
        }
        if let Some(ended) = ended_at {
            let due_soon = stage.next_due().is_some_and(|due| due <= ended + DRAIN_MICROS);
            if !due_soon && (!forward.is_running() || stamper.now() > ended + DRAIN_MICROS) {
                return Ok(());
            }
            thread::sleep(wait.min(Duration::from_millis(50)));
            continue;
        }
        match chunks.recv_timeout(wait) {
            Ok(bytes) => {
                let now = stamper.now();
                for line in client.heard(now, &bytes) {
                    forward.overhear(&line);
                    stage.hear(&line, now);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let now = stamper.now();
                for line in client.end(now) {
                    stage.hear(&line, now);
                }
                ended_at = Some(now);
            }
        }
    }
}

fn read_chunks(mut input: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, chunks) = sync_channel(64);
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(len @ 1..) = input.read(&mut chunk) {
            if sender.send(chunk[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}

/// Cuts what both say into lines; of what has passed nothing is kept.
struct Client {
    session: Session,
    scribe: Scribe,
    kept: Rolling,
    forward_scribe: Scribe,
    forward_kept: Rolling,
}

impl Client {
    fn new(session: &Session) -> Client {
        Client {
            session: session.clone(),
            scribe: Scribe::new(session.key),
            kept: Rolling::default(),
            forward_scribe: Scribe::new(session.key),
            forward_kept: Rolling::default(),
        }
    }

    /// We speak as the client does.
    fn framing(&self) -> Framing {
        self.scribe.framing(Side::Client).unwrap_or(Framing::Lines)
    }

    fn heard(&mut self, at: Micros, bytes: &[u8]) -> Vec<Line> {
        self.scribe.bytes(Side::Client, at, bytes, &mut self.kept);
        self.kept.lines(&self.session)
    }

    fn end(&mut self, at: Micros) -> Vec<Line> {
        self.scribe.flush(Side::Client, at, &mut self.kept);
        self.kept.lines(&self.session)
    }
}

/// Keeps events until they are taken, and the bytes of the message still coming.
#[derive(Default)]
pub(super) struct Rolling {
    events: Vec<Event>,
    start: u64,
    bytes: Vec<u8>,
}

impl Rolling {
    pub(super) fn lines(&mut self, session: &Session) -> Vec<Line> {
        let mut recording = Recording::new(session);
        let mut end = self.start;
        for event in std::mem::take(&mut self.events) {
            recording.take(&event, self);
            end = event.span().map_or(end, |span| end.max(span.start + span.len));
        }
        let passed = ((end - self.start) as usize).min(self.bytes.len());
        self.bytes.drain(..passed);
        self.start += passed as u64;
        recording.lines
    }
}

impl Sink for Rolling {
    fn session(&mut self, _: &Session) {}

    fn bytes(&mut self, _: SessionKey, _: StreamId, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

impl Bodies for Rolling {
    fn read(&mut self, _: SessionKey, span: Span, limit: usize) -> Option<Cow<'_, [u8]>> {
        let from = usize::try_from(span.start.checked_sub(self.start)?).ok()?;
        let end = from.checked_add(usize::try_from(span.len).ok()?.min(limit))?;
        self.bytes.get(from..end).map(Cow::Borrowed)
    }
}

/// The real server behind: started when it is first needed, and shown the client's handshake.
#[derive(Default)]
pub(super) struct Forward {
    peer: Option<Box<dyn Peer>>,
    handshake: Vec<(String, Option<Id>)>,
    /// Answers of its that the client has had from us.
    swallow: Vec<Id>,
}

impl Forward {
    pub(super) fn is_running(&self) -> bool {
        self.peer.is_some()
    }

    /// A message of the client that is answered from the recording: the server behind must know of some.
    pub(super) fn overhear(&mut self, line: &Line) {
        if matches!(line.message.method(), "initialize" | "initialized" | "notifications/initialized") {
            self.handshake.push((line.text(), line.message.id.clone().filter(|_| line.is_request())));
        } else if line.message.kind == Kind::Notification {
            self.pass_on(&line.text());
        }
    }

    pub(super) fn send(
        &mut self,
        text: &str,
        start: &dyn Fn(Framing) -> Result<Box<dyn Peer>>,
        framing: Framing,
    ) -> Result<()> {
        if self.peer.is_none() {
            let mut peer = start(framing)?;
            for (text, id) in &self.handshake {
                peer.send(text.as_bytes());
                self.swallow.extend(id.as_ref().map(Id::canonical));
            }
            self.peer = Some(peer);
        }
        self.pass_on(text);
        Ok(())
    }

    fn pass_on(&mut self, text: &str) {
        if let Some(peer) = &mut self.peer {
            peer.send(text.as_bytes());
        }
    }

    /// What it has said by now, without what the client has already had.
    pub(super) fn heard(&mut self, scribe: &mut Scribe, kept: &mut Rolling, session: &Session) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(heard) = self.peer.as_mut().and_then(|peer| peer.hear(Duration::ZERO)) {
            let HeardWhat::Bytes(bytes) = heard.what else { continue };
            scribe.bytes(Side::Server, heard.at, &bytes, kept);
            for line in kept.lines(session) {
                let id = line.message.id.as_ref().map(Id::canonical);
                let place = self.swallow.iter().position(|swallowed| Some(swallowed) == id.as_ref());
                match place {
                    Some(place) if line.is_response() => {
                        self.swallow.swap_remove(place);
                    }
                    _ => lines.push(line),
                }
            }
        }
        lines
    }
}
