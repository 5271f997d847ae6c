//! One client's connection: its requests one after the other, each with an exchange of its own.
//!
//! Comes in: a connection. Goes out: its requests to upstream, or our own refusals. A connection to upstream is kept for
//! the client whose request made it, and goes when he goes: a server that serves one connection at a time would else
//! wait for a client who is long gone.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use httparse::Header;
use tokio::net::TcpStream;

use crate::event::{How, Party, Side};
use crate::peer::dial::{Dialer, Stream};
use crate::peer::http::IDLE_LIMIT;

use super::client::Client;
use super::ends::{Outbox, PIECE_BYTES, poll_read, with_gathered};
use super::exchange::{Asked, Ended, Exchange};
use super::fields::Hosts;
use super::notes::{Carrier, Notes};
use super::pulse::Pulse;
use super::request::{MOST_FIELDS, Refusal, Request, end_of_head};
use super::response::{OWN_TYPE, own_words};
use super::tunnel;

/// What one worker needs to forward.
pub(super) struct Forwarder {
    pub(super) dialer: Dialer,
    pub(super) hosts: Hosts,
    /// Send the upstream's own name as `Host`, instead of what the client sent.
    pub(super) own_host: bool,
    pub(super) head_bytes: usize,
    pub(super) fields: usize,
    pub(super) upload_idle_limit: Duration,
    pub(super) notes: Arc<Notes>,
    pub(super) carriers: Arc<AtomicU64>,
    pub(super) cut: Arc<AtomicBool>,
}

impl Forwarder {
    fn carrier(&self) -> Carrier {
        let number = self.carriers.fetch_add(1, Ordering::Relaxed);
        Carrier::new(number, self.notes.clone(), self.cut.clone())
    }
}

/// A connection to upstream that waits for the next request.
struct Kept {
    stream: Stream,
    /// In seconds of the worker's watch.
    since: u32,
}

impl Kept {
    /// Nothing has come: neither its end, nor something nobody asked for, which would be taken for the next answer.
    fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        poll_read(&mut self.stream, context, |_, _| ()).is_pending()
    }
}

pub(super) struct Line {
    forwarder: Arc<Forwarder>,
    client: Client,
    /// Up to where the held bytes were looked at for the end of a head.
    looked: usize,
    number: u64,
    /// The client's address, without the port.
    ip: String,
    kept: Option<Kept>,
    /// What memory the last request took, for the next one.
    to_server: Outbox,
}

/// What the client's next bytes are.
enum Next {
    Exchange(Box<Exchange>),
    Refused(Carrier, Refusal, bool),
    Over,
}

impl Line {
    pub(super) fn new(
        forwarder: Arc<Forwarder>,
        stream: TcpStream,
        pulse: Arc<Pulse>,
        number: u64,
        ip: String,
    ) -> Line {
        let client = Client { stream, held: Vec::new(), outbox: Outbox::default(), pulse };
        Line { forwarder, client, looked: 0, number, ip, kept: None, to_server: Outbox::default() }
    }

    pub(super) async fn serve(mut self) {
        loop {
            self.client.pulse.awaits_head();
            let exchange = match poll_fn(|context| self.poll_next(context)).await {
                Next::Exchange(exchange) => exchange,
                Next::Refused(carrier, refusal, head_only) => return self.refuse(carrier, refusal, head_only).await,
                Next::Over => return,
            };
            self.client.pulse.awaits_answer();
            match self.carry(exchange).await {
                Some(true) => self.client.outbox.shrink(),
                Some(false) => return self.client.linger().await,
                None => return,
            }
        }
    }

    /// Waits for the head of the next request.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            if !self.client.held.is_empty()
                && let Some(next) = self.next()
            {
                return Poll::Ready(next);
            }
            let ending = self.client.pulse.is_ending(context.waker());
            if let Some(kept) = &mut self.kept
                && !kept.is_silent(context)
            {
                self.kept = None;
            }
            let held = &mut self.client.held;
            match poll_read(&mut self.client.stream, context, |bytes, _| held.extend_from_slice(bytes)) {
                Poll::Ready(Ok(())) if held.len() > self.looked => {}
                Poll::Ready(_) => return Poll::Ready(Next::Over),
                // Only now: a request that has come already is still answered.
                Poll::Pending if ending && held.is_empty() => return Poll::Ready(Next::Over),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads the head of a request out of what is held, if it is whole.
    fn next(&mut self) -> Option<Next> {
        if self.looked == 0 {
            self.client.drop_blank_lines();
        }
        let held = &self.client.held;
        if held.is_empty() {
            return None;
        }
        // A first look finds what is no request at all; from then on only a whole head is worth another.
        let first = self.looked == 0;
        let whole = first || end_of_head(held, self.looked.saturating_sub(3)).is_some();
        self.looked = held.len();
        let forwarder = &*self.forwarder;
        let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let read = if whole { Request::read(held, &mut room, forwarder.fields) } else { Ok(None) };
        let too_long = match &read {
            Ok(Some(request)) => request.head.len() > forwarder.head_bytes,
            _ => held.len() > forwarder.head_bytes,
        };
        let request = match read {
            Ok(_) if too_long => {
                let limit = format!("longer than {} bytes", forwarder.head_bytes);
                return Some(self.unread(Refusal::unread(431, &limit)));
            }
            Ok(None) => return None,
            Ok(Some(request)) => request,
            Err(refusal) => return Some(self.unread(refusal)),
        };
        let carrier = forwarder.carrier();
        carrier.request(&self.ip, self.number, request.method, request.path(), request.fields);
        let head_only = request.method == "HEAD";
        if let Some(refusal) = request.refusal(&forwarder.hosts) {
            return Some(Next::Refused(carrier, refusal, head_only));
        }
        let asked = Asked {
            head_only,
            minor: request.minor,
            stays: request.hop.stays(request.minor),
            websocket: request.hop.websocket,
            expects: request.hop.expects,
        };
        let mut exchange = Box::new(Exchange::new(carrier, asked, request.body()));
        exchange.to_server = std::mem::take(&mut self.to_server);
        let address = forwarder.dialer.address();
        let own_host = forwarder.own_host.then_some(address.authority.as_str());
        request.write(&address.prefix, own_host, &mut exchange.to_server.bytes);
        let mut used = request.head.len();
        match with_gathered(|gathered| exchange.begin(&held[used..], gathered)) {
            Ok(taken) => used += taken,
            Err(why) => {
                let refusal = Refusal { status: Some(400), why: why.to_string() };
                return Some(Next::Refused(exchange.carrier, refusal, head_only));
            }
        }
        self.client.held.drain(..used);
        if self.client.held.is_empty() && self.client.held.capacity() > PIECE_BYTES {
            self.client.held = Vec::new();
        }
        self.looked = 0;
        Some(Next::Exchange(exchange))
    }

    /// A request whose head nobody could read.
    fn unread(&self, refusal: Refusal) -> Next {
        let carrier = self.forwarder.carrier();
        carrier.request(&self.ip, self.number, "?", "?", &[]);
        Next::Refused(carrier, refusal, false)
    }

    /// Carries one exchange to its end. `Some`: whether the connection may go on; `None`: it is over at once.
    async fn carry(&mut self, mut exchange: Box<Exchange>) -> Option<bool> {
        loop {
            match self.server(&mut exchange).await {
                Ok(()) => {}
                Err(Ended::Unanswered(why)) => {
                    self.take_in(&mut exchange).await;
                    let words = format!("cannot be reached: {why}");
                    return self.unanswered(exchange, &words, How::Error).await;
                }
                Err(ended) => return self.end(exchange, ended).await,
            }
            let (client, forwarder) = (&mut self.client, &*self.forwarder);
            match poll_fn(|context| exchange.poll(client, forwarder, context)).await {
                Ended::Stale => exchange.server = None,
                ended => return self.end(exchange, ended).await,
            }
        }
    }

    async fn end(&mut self, mut exchange: Box<Exchange>, ended: Ended) -> Option<bool> {
        match ended {
            Ended::Done => {
                let stays = exchange.upload.is_whole() && !exchange.closes;
                exchange.server_stays &= exchange.to_server.is_empty() && !exchange.deaf;
                exchange.to_server.clear();
                self.to_server = std::mem::take(&mut exchange.to_server);
                if exchange.server_stays
                    && stays
                    && let Some(stream) = exchange.server.take()
                {
                    self.kept = Some(Kept { stream, since: self.client.pulse.now() });
                }
                Some(stays)
            }
            Ended::Left(how) => {
                exchange.carrier.closed(Party::Client, how);
                None
            }
            Ended::Torn(why) => {
                if !why.is_empty() {
                    exchange.carrier.note(&format!("the response broke off: {why}"));
                }
                exchange.carrier.closed(Party::Server, How::Reset);
                // What came before that is the client's.
                self.client.say(&[]).await;
                if exchange.shows_its_end() {
                    return Some(false);
                }
                let _ = self.client.stream.set_zero_linger();
                None
            }
            Ended::UploadStoodStill => {
                exchange.carrier.note("the upload stood still for too long");
                exchange.carrier.closed(Party::Tap, How::Timeout);
                None
            }
            Ended::Unsound(why) if exchange.is_answered() => {
                exchange.carrier.note(&format!("refused by rpctap: {why}"));
                exchange.carrier.closed(Party::Tap, How::Eof);
                None
            }
            Ended::Unsound(why) => {
                exchange.server = None;
                let refusal = Refusal { status: Some(400), why: why.to_string() };
                self.refuse(exchange.carrier, refusal, exchange.asked.head_only).await;
                None
            }
            Ended::Unanswered(why) => {
                exchange.server = None;
                let words = format!("ended before it answered: {why}");
                self.unanswered(exchange, &words, How::Reset).await
            }
            Ended::Upgraded(said) => {
                if let Some(server) = exchange.server.take() {
                    tunnel::run(&mut self.client, server, said, exchange.carrier).await;
                }
                None
            }
            Ended::Stale => None,
        }
    }

    /// Finds a connection to upstream: the one that was kept, or a new one. The client may leave meanwhile.
    async fn server(&mut self, exchange: &mut Exchange) -> Result<(), Ended> {
        let idle = IDLE_LIMIT.as_secs() as u32;
        if let Some(mut kept) = self.kept.take()
            && self.client.pulse.now().wrapping_sub(kept.since) < idle
            && poll_fn(|context| Poll::Ready(kept.is_silent(context))).await
        {
            exchange.server = Some(kept.stream);
            exchange.kept = true;
            return Ok(());
        }
        exchange.kept = false;
        let mut connecting = pin!(self.forwarder.dialer.connect());
        let client = &mut self.client;
        let connected = poll_fn(|context| {
            if let Poll::Ready(connected) = connecting.as_mut().poll(context) {
                return Poll::Ready(connected.map_err(Ended::Unanswered));
            }
            client.poll_watch(context).map(|how| Err(Ended::Left(how)))
        });
        exchange.server = Some(connected.await?);
        Ok(())
    }

    /// What a client sends is recorded even if there is nobody to pass it on to, as far as one may wait for it.
    async fn take_in(&mut self, exchange: &mut Exchange) {
        if exchange.asked.expects && exchange.uploaded == 0 {
            return;
        }
        exchange.deaf = true;
        exchange.to_server.clear();
        let (client, forwarder) = (&mut self.client, &*self.forwarder);
        let all = poll_fn(|context| {
            if exchange.upload.is_whole() || exchange.uploaded > MOST_TAKEN_IN_BYTES {
                return Poll::Ready(());
            }
            let ended = exchange.poll_up(client, forwarder, context).map(drop);
            if exchange.upload.is_whole() { Poll::Ready(()) } else { ended }
        });
        let _ = tokio::time::timeout(TAKEN_IN_WITHIN, all).await;
    }

    /// Our own answer to a request that goes no further.
    async fn refuse(&mut self, mut carrier: Carrier, refusal: Refusal, head_only: bool) {
        let Refusal { status, why } = refusal;
        carrier.note(&format!("refused by rpctap: {why}"));
        if let Some(status) = status {
            let words = format!("rpctap: {why}\n");
            tell_own(&carrier, status, &words, true);
            carrier.closed(Party::Tap, How::Eof);
            self.client.say(own_words(status, &words, true, head_only).as_bytes()).await;
            self.client.linger().await;
        }
        carrier.closed(Party::Tap, How::Eof);
    }

    async fn unanswered(&mut self, mut exchange: Box<Exchange>, words: &str, how: How) -> Option<bool> {
        let words = format!("upstream {} {words}", self.forwarder.dialer.address().url());
        exchange.carrier.note(&words);
        let words = format!("rpctap: {words}\n");
        let closes = !exchange.asked.stays || exchange.asked.websocket || !exchange.upload.is_whole();
        tell_own(&exchange.carrier, 502, &words, closes);
        exchange.carrier.closed(Party::Server, how);
        let said = self.client.say(own_words(502, &words, closes, exchange.asked.head_only).as_bytes()).await;
        said.then_some(!closes)
    }
}

/// Notes what we say ourselves.
fn tell_own(carrier: &Carrier, status: u16, words: &str, closes: bool) {
    let fields =
        [Header { name: "Content-Type", value: OWN_TYPE.as_bytes() }, Header { name: "Connection", value: b"close" }];
    carrier.response(status, if closes { &fields } else { &fields[..1] });
    carrier.body(Side::Server, words.as_bytes());
    carrier.response_end();
}

const MOST_TAKEN_IN_BYTES: u64 = 1024 * 1024;
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(2);
