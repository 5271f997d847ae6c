//! What happens on HTTP connections → sessions, events and carriers.
//!
//! Comes in: the heads, body bytes, trailers and ends of many HTTP exchanges (here called *carriers*), in the order
//! they happened, from the live proxy or from a packet capture, a HAR or tshark's JSON. Goes out, through a
//! [`Sink`]: one session per conversation, its messages, and the carriers they travelled on. Secrets in heads and
//! URLs are replaced by a keyed hash on the way. Refuses to know sockets, the store and what a message means,
//! but for `initialize`, which begins a conversation.

#[cfg(test)]
mod body_tests;
mod carrier;
mod closing;
mod content;
mod conversation;
mod events;
mod head;
mod held;
mod reader;
mod refusal;
pub mod secret_names;
pub mod secrets;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use crate::event::{Happening, How, Knows, Micros, Party, SessionKey, Side, Sink, Source};

use carrier::{After, Carrier, Place};
use closing::Listening;
use conversation::Conversations;
use head::RequestHead;
pub use head::says_nothing_new;
use held::{Decision, Held};
use secrets::Secrets;

/// Tells the carriers of one run apart: any number that is never used twice (a running count will do).
pub type CarrierKey = u64;

/// Header fields in the order and spelling they came. Values that are no UTF-8 come lossily converted.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

/// One thing that happened on a carrier.
///
/// For each carrier: `Request` first, once, then request body and end, response head, body and end as they come
/// (a response may begin and even end before the request body has), and `Closed` last, once. Ends may be missing
/// where the carrier was torn. Body bytes are without transfer coding (chunk sizes), but with content coding.
#[derive(Debug, Clone, Copy)]
pub enum HttpHappening<'a> {
    /// The head of a request.
    Request {
        /// Tells clients apart where nothing better does: an IP address or host name, without the port.
        client: &'a str,
        /// Tells the connections of this run apart; 0 where they are not known (HAR).
        connection: u64,
        method: &'a str,
        /// As it stood in the request line: path and query, or an absolute URL.
        target: &'a str,
        fields: Fields<'a>,
    },
    RequestBody(&'a [u8]),
    RequestEnd,
    /// The head of the response. Interim responses (100 to 199) other than 101 are passed over. After 101 the bodies
    /// of both sides are the bytes of the upgraded connection.
    Response {
        status: u16,
        fields: Fields<'a>,
    },
    ResponseBody(&'a [u8]),
    ResponseEnd,
    /// Trailing header fields of the request (`Side::Client`) or the response (`Side::Server`).
    Trailers {
        from: Side,
        fields: Fields<'a>,
    },
    /// Bytes of a body went missing (a gap in a capture, a body cut by a log).
    Lost {
        from: Side,
        bytes: u64,
        why: &'a str,
    },
    /// Worth knowing and tied to this carrier: "upstream refused the connection".
    Note(&'a str),
    /// The carrier is over. A finished response is `Closed { by: Server, how: Eof }`; a client that went away first is
    /// `by: Client`, with how it went.
    Closed {
        by: Party,
        how: How,
    },
}

/// What a run knows about all its sessions.
#[derive(Debug, Clone)]
pub struct HttpSetup {
    /// The name of the first session; later ones get `-2`, `-3` behind it.
    pub name: String,
    pub source: Source,
    /// The upstream address or the imported file; for people.
    pub target: String,
    pub knows: Knows,
    /// Leave out carriers that have nothing to do with JSON-RPC (images, pages, token endpoints). For logs of
    /// everything a browser did; the live proxy keeps them, as carriers without bodies.
    pub only_rpc: bool,
    /// The key of the first session; the others count up from it.
    pub first_session: SessionKey,
    /// The key of the hash that stands for credentials and session ids.
    pub secret: [u8; 32],
}

/// An event stream whose conversation is not known is kept back no longer than this for its first event.
const LONGEST_HOLD_MICROS: Micros = 2_000_000;

/// Turns the happenings of many carriers into sessions and events. See the module.
pub struct HttpScribe {
    setup: HttpSetup,
    secrets: Secrets,
    conversations: Conversations,
    carriers: HashMap<CarrierKey, Carrier>,
    /// Carriers that are kept back, oldest first; some may have been decided since.
    waiting: VecDeque<(Micros, CarrierKey)>,
    passed_over: u64,
    /// What came before is elsewhere, and that something of it goes on here has not been told.
    in_the_middle: bool,
    first_carrier: Option<CarrierKey>,
    /// The last loss that may concern conversations which are not known yet.
    unplaced: Option<(Micros, Happening)>,
    /// Open WebSockets that are sessions of their own, and which side was first to close.
    sockets: HashMap<CarrierKey, Option<Side>>,
}

impl HttpScribe {
    pub fn new(setup: HttpSetup) -> HttpScribe {
        HttpScribe {
            secrets: Secrets::new(&setup.secret),
            conversations: Conversations::new(setup.first_session),
            setup,
            carriers: HashMap::new(),
            waiting: VecDeque::new(),
            passed_over: 0,
            in_the_middle: false,
            first_carrier: None,
            unplaced: None,
            sockets: HashMap::new(),
        }
    }

    /// Says that what is told begins in the middle: carriers may go on whose beginning is elsewhere.
    pub fn begin_in_the_middle(&mut self) {
        self.in_the_middle = true;
    }

    /// A carrier goes on of which nothing is known here.
    #[cold]
    fn goes_on(&mut self, at: Micros, sink: &mut dyn Sink) {
        self.in_the_middle = false;
        let session = self.conversations.open(&self.setup, at, true, sink);
        if let Some(conversation) = self.conversations.get(session) {
            let why = "exchanges of an earlier session went on while the recorder was behind, and the tap died before \
                       they could be joined: what was said on them is missing there and here";
            let lost = Happening::Lost { from: None, events: 1, bytes: 0, why: why.to_string() };
            conversation.scribe.happening(at, None, lost, sink);
        }
    }

    /// Takes one happening. Carriers may interleave freely; those of one carrier come in order.
    pub fn take(&mut self, carrier: CarrierKey, at: Micros, what: HttpHappening<'_>, sink: &mut dyn Sink) {
        self.release_overdue(at, sink);
        if let HttpHappening::Request { client, connection, method, target, fields } = what {
            let head = RequestHead::read(&self.secrets, client, connection, method, target, fields);
            self.begin(carrier, at, head, sink);
            return;
        }
        let Some(known) = self.carriers.get_mut(&carrier) else {
            if self.in_the_middle && carrier < self.first_carrier.unwrap_or(CarrierKey::MAX) {
                self.goes_on(at, sink);
            }
            return;
        };
        match &mut known.place {
            Place::Held(held) => {
                held.keep(at, what);
                let decision = held.decide(&known.head, self.setup.only_rpc);
                self.decide(carrier, decision, sink);
            }
            Place::In { .. } => self.tell(carrier, at, what, sink),
            Place::PassedOver => {}
        }
        if let HttpHappening::Closed { .. } = what
            && let Some(Carrier { place: Place::In { session, .. }, .. }) = self.carriers.remove(&carrier)
        {
            self.conversations.rests(session);
        }
    }

    fn begin(&mut self, key: CarrierKey, at: Micros, head: RequestHead, sink: &mut dyn Sink) {
        self.first_carrier.get_or_insert(key);
        let known = self.conversations.known(&head);
        let decision = match known {
            Some(session) => Decision::Into(session),
            None => Held::at_first_sight(&head, self.setup.only_rpc),
        };
        self.carriers.insert(key, Carrier::new(head, at));
        if let Decision::Wait = decision {
            self.waiting.push_back((at, key));
        }
        self.decide(key, decision, sink);
    }

    fn decide(&mut self, key: CarrierKey, decision: Decision, sink: &mut dyn Sink) {
        let Some(carrier) = self.carriers.get_mut(&key) else { return };
        let (setup, at) = (&self.setup, carrier.opened_at);
        let session = match decision {
            Decision::Wait => return,
            Decision::PassOver => {
                carrier.place = Place::PassedOver;
                self.passed_over += 1;
                return;
            }
            Decision::Into(session) => session,
            Decision::Begin => {
                carrier.begins = true;
                match self.conversations.follows_redirect(&carrier.head, at) {
                    Some(session) => session,
                    None => {
                        let session = self.conversations.open(setup, at, false, sink);
                        self.conversations.lacks(session, &self.unplaced, (at, false), sink);
                        session
                    }
                }
            }
            Decision::Endpoint(endpoint) => {
                let session = self.conversations.open(setup, at, false, sink);
                self.conversations.lacks(session, &self.unplaced, (at, false), sink);
                self.conversations.bind_endpoint(&self.secrets, &endpoint, session);
                session
            }
            Decision::ByClient => match self.conversations.of_client(&carrier.head) {
                Some(session) => session,
                None => {
                    // An id that no response gave was given before we listened.
                    let late = carrier.head.session_id.is_some();
                    let session = self.conversations.open(setup, at, late, sink);
                    self.conversations.lacks(session, &self.unplaced, (at, true), sink);
                    self.conversations.bind_client(&carrier.head, session);
                    if let Some(id) = &carrier.head.session_id {
                        self.conversations.bind_id(id, session);
                    }
                    session
                }
            },
        };
        let Some(conversation) = self.conversations.get(session) else { return };
        let held = carrier.enter(session, conversation, sink);
        for (at, what) in held {
            self.tell(key, at, what.borrow(&mut Vec::new()), sink);
        }
    }

    /// One happening of a carrier whose conversation is known.
    fn tell(&mut self, key: CarrierKey, at: Micros, what: HttpHappening<'_>, sink: &mut dyn Sink) {
        let Some(carrier) = self.carriers.get_mut(&key) else { return };
        let Place::In { session, .. } = carrier.place else { return };
        let Some(conversation) = self.conversations.get(session) else { return };
        // A body that has not ended by then never will.
        conversation.scribe.tear(matches!(what, HttpHappening::Closed { .. }));
        if carrier.begins && carrier.head.upgrades {
            return self.tell_socket(key, session, at, what, sink);
        }
        let after = carrier.take(conversation, &self.secrets, at, what, sink);
        match after {
            After::Nothing => {}
            After::Answered { session_id: Some(id) } => self.conversations.bind_id(&id, session),
            // A server without sessions: what follows from this client belongs here.
            After::Answered { session_id: None } => {
                if carrier.begins {
                    self.conversations.bind_client(&carrier.head, session);
                }
            }
            After::Endpoint(endpoint) => self.conversations.bind_endpoint(&self.secrets, &endpoint, session),
            After::Redirected(location) => {
                self.conversations.redirected(&self.secrets, &carrier.head, &location, at, session);
            }
            After::Ended => self.conversations.ended(session, sink),
        }
    }

    /// One happening of a carrier that asked to become a WebSocket: then it is a session of its own, and ends it.
    fn tell_socket(
        &mut self,
        key: CarrierKey,
        session: SessionKey,
        at: Micros,
        what: HttpHappening<'_>,
        sink: &mut dyn Sink,
    ) {
        if let HttpHappening::Response { status: 101, .. } = what {
            self.sockets.insert(key, None);
        }
        let Some(carrier) = self.carriers.get_mut(&key) else { return };
        let Some(conversation) = self.conversations.get(session) else { return };
        let Some(first) = self.sockets.get_mut(&key) else {
            carrier.take(conversation, &self.secrets, at, what, sink);
            return;
        };
        let HttpHappening::Closed { by, how } = what else {
            carrier.take(conversation, &self.secrets, at, what, &mut Listening { sink, first });
            return;
        };
        let closed = closing::end(*first, (by, how), conversation, at, sink);
        carrier.take(conversation, &self.secrets, at, closed, sink);
        self.sockets.remove(&key);
        if conversation.ended {
            self.conversations.ended(session, sink);
        }
    }

    fn release_overdue(&mut self, at: Micros, sink: &mut dyn Sink) {
        while let Some((since, key)) = self.waiting.front().copied() {
            let held = self.carriers.get(&key).is_some_and(|carrier| matches!(carrier.place, Place::Held(_)));
            if held && at - since < LONGEST_HOLD_MICROS {
                return;
            }
            self.waiting.pop_front();
            if held && !self.setup.only_rpc {
                self.decide(key, Decision::ByClient, sink);
            }
        }
    }

    /// Something was lost that cannot be told to one carrier. Recorded in every open session.
    pub fn lost(&mut self, at: Micros, events: u64, bytes: u64, why: &str, sink: &mut dyn Sink) {
        self.lost_by_all(at, Happening::Lost { from: None, events, bytes, why: why.to_string() }, sink);
    }

    /// Something that this side said is missing, and what it belongs to is not known: it is recorded in every open
    /// session, and in those that show later that they had begun by then.
    pub fn lost_from(&mut self, at: Micros, from: Side, bytes: u64, why: &str, sink: &mut dyn Sink) {
        let lost = Happening::Lost { from: Some(from), events: 0, bytes, why: why.to_string() };
        self.unplaced = Some((at, Happening::Lost { from: None, events: 0, bytes: 0, why: why.to_string() }));
        self.lost_by_all(at, lost, sink);
    }

    fn lost_by_all(&mut self, at: Micros, lost: Happening, sink: &mut dyn Sink) {
        for conversation in self.conversations.open_ones() {
            conversation.scribe.happening(at, None, lost.clone(), sink);
        }
    }

    /// Whether this carrier's conversation is known.
    pub fn is_placed(&self, carrier: CarrierKey) -> bool {
        self.carriers.get(&carrier).is_some_and(|carrier| matches!(carrier.place, Place::In { .. }))
    }

    /// Whether any session is open.
    pub fn has_open_sessions(&mut self) -> bool {
        self.conversations.open_ones().next().is_some()
    }

    /// Something that was lost of the whole run, known only at its end. Recorded in every open session, or where there
    /// is none, if so `ended_too`, in the one that was used last.
    pub fn lost_at_end(
        &mut self,
        at: Micros,
        (events, bytes): (u64, u64),
        why: &str,
        ended_too: bool,
        sink: &mut dyn Sink,
    ) {
        for conversation in self.conversations.open_or_last(ended_too) {
            let what = Happening::Lost { from: None, events, bytes, why: why.to_string() };
            conversation.scribe.happening(at, None, what, sink);
        }
    }

    /// Like [`HttpScribe::lost_at_end`], of what is only worth knowing.
    pub fn note_at_end(&mut self, at: Micros, text: &str, ended_too: bool, sink: &mut dyn Sink) {
        for conversation in self.conversations.open_or_last(ended_too) {
            conversation.scribe.happening(at, None, Happening::Note { text: text.to_string() }, sink);
        }
    }

    /// Worth knowing of the whole run. Recorded in every open session.
    pub fn note(&mut self, at: Micros, text: &str, sink: &mut dyn Sink) {
        self.note_at_end(at, text, false, sink);
    }

    /// The run is over: open carriers and sessions are closed by `Party::Tap`.
    pub fn finish(&mut self, at: Micros, sink: &mut dyn Sink) {
        let mut keys: Vec<CarrierKey> = self.carriers.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.take(key, at, HttpHappening::Closed { by: Party::Tap, how: How::Eof }, sink);
        }
        for conversation in self.conversations.open_ones() {
            for side in [Side::Client, Side::Server] {
                conversation.scribe.end(side, at, Party::Tap, How::Eof, sink);
            }
        }
        self.conversations.clear();
        self.waiting.clear();
    }

    /// The key the next session would get: where another scribe of the same sink may go on.
    pub fn next_session(&self) -> SessionKey {
        self.conversations.next_session()
    }

    /// How many carriers `only_rpc` left out.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }
}
