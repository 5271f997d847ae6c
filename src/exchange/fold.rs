//! The single pass: each event once, in order, and what it settles.
//!
//! Comes in: events. Goes out: facts, pushed to the caller's list as they become certain; what is still open is
//! told by [`Fold::finish`]. The parts of the pass live in files of their own (`asking`, `answering`, `cancelling`,
//! `progress`, `tasks`, `carriers`, `ending`); here is what they share, and which protocol is spoken.

use std::collections::VecDeque;

use crate::event::{Event, Happening, How, Knows, Micros, Party, Side, What};
use crate::protocol::{self, Dialect, Heard, Protocol, Role, Strength, software::Named};
use crate::rpc::{Id, Kind, Mark as Place, Message, Name, Oddity, Unreadable};

pub use super::ending::End;
use super::fact::{Fact, Mark, Slip, SlipKind};
use super::hash::Map;
use super::ids::{Recent, UsedIds};
use super::names::Names;
use super::open::Open;
use super::pending::Pending;
use super::progress::{Tokens, Work};
use super::tasks::Tasks;
use super::{Latency, Limits, Series, Track};

/// What the fold knows of a session so far. Memory grows with what is open.
pub struct Fold {
    pub(super) limits: Limits,
    pub(super) knows: Knows,
    pub spoken: Spoken,
    pub(super) protocol: &'static dyn Protocol,
    pub names: Names,
    /// By who asked.
    pub(super) pending: [Pending; 2],
    pub(super) let_go: super::let_go::LetGo,
    pub(super) used: [UsedIds; 2],
    pub(super) recent: [Recent; 2],
    pub(super) round_trips: Latency,
    pub(super) ends: Ends,
    pub(super) handshake: Handshake,
    /// Where something of this side is missing, last.
    pub(super) gap: [Option<u64>; 2],
    /// The last message of each side that could not be read, or not as a request: what an error without an id
    /// may be about.
    pub(super) unreadable: [Option<Mark>; 2],
    /// With the carrier it came on.
    pub(super) last_notification: [Option<(Mark, Name, Option<u64>)>; 2],
    pub(super) last_message: [Option<Mark>; 2],
    /// The last response each side sent, and the newest request it was for.
    pub(super) last_response: [Option<Mark>; 2],
    pub(super) newest_answered: [u64; 2],
    /// Requests answered before (or after) their asker sent another one: does it wait for each answer?
    pub(super) waited: [u64; 2],
    pub(super) overlapped: [u64; 2],
    pub(super) carriers: Map<u64, super::carriers::Carrier>,
    /// An id holds the HTTP exchanges of this session together.
    pub(super) has_session_id: bool,
    /// Answers come on a stream of their own, as in the older HTTP transport of MCP.
    pub(super) answers_elsewhere: bool,
    pub(super) hang_ups: super::hang_ups::HangUps,
    pub(super) twice: super::twice::Twice,
    pub(super) lease: super::sessions::Lease,
    /// Told by [`Fold::finish`].
    pub session: Option<super::HttpSession>,
    pub(super) tokens: [Tokens; 2],
    pub(super) works: Map<Box<str>, Work>,
    pub(super) let_go_works: super::let_go_work::LetGoOf<Work>,
    pub(super) tasks: Tasks,
    pub(super) turns: Map<Box<str>, (Side, u32, u64)>,
    pub(super) most_turns: usize,
    pub chains: Chains,
    pub(super) early: Vec<super::strays::Early>,
    /// Answers to nothing that a loss told a little later may explain, oldest first.
    pub(super) unsure: VecDeque<super::fact::Slip>,
    pub series: Series,
    pub clients: Option<Named>,
    pub servers: Option<Named>,
    pub(super) first: Option<Mark>,
    pub(super) now: Mark,
}

/// Which protocol is spoken, and how we know.
#[derive(Debug, Clone)]
pub struct Spoken {
    pub dialect: Dialect,
    pub version: Option<String>,
    pub strength: Strength,
    pub by: String,
    /// Versions that single messages named beside it.
    pub also: Vec<Dialect>,
    /// A handshake was seen, so that older rules hold on this pipe too.
    pub shook_hands: bool,
}

/// How far the session has come to an end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    pub opened: Option<Mark>,
    pub client: Option<Mark>,
    pub server: Option<Mark>,
    /// The server's end was torn, or it exited with an error or by a signal.
    pub server_fell: bool,
    /// Somebody told the server to go, by a signal made for that.
    pub stopped_by_signal: bool,
    /// A request to be told by its own means that the session is over: DELETE, 404, `exit`.
    pub said: Option<Mark>,
    /// It was the server that said so; another answer of its takes that back.
    pub missing: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Handshake {
    pub asked: Option<Mark>,
    pub answered: Option<Mark>,
    pub initialized: bool,
    pub shutdown: Option<Mark>,
}

/// Requests answered with "input required", and those that went on from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainCounts {
    pub asked_for_input: u64,
    pub went_on: u64,
}

#[derive(Debug, Default)]
pub struct Chains {
    pub counts: ChainCounts,
    pub(super) open: std::collections::VecDeque<u64>,
}

impl Fold {
    pub fn new(knows: Knows, limits: Limits, told: Option<Dialect>) -> Fold {
        let dialect = told.unwrap_or(Dialect::Plain);
        Fold {
            limits,
            knows,
            spoken: Spoken {
                dialect,
                version: dialect.version().map(str::to_string),
                strength: if told.is_some() { Strength::Told } else { Strength::Nothing },
                by: if told.is_some() { "--protocol".to_string() } else { String::new() },
                also: Vec::new(),
                shook_hands: false,
            },
            protocol: protocol::protocol(dialect),
            names: Names::default(),
            pending: Default::default(),
            let_go: Default::default(),
            used: Default::default(),
            recent: Default::default(),
            round_trips: Latency::default(),
            ends: Ends::default(),
            handshake: Handshake::default(),
            gap: [None; 2],
            unreadable: [None; 2],
            last_notification: [None, None],
            last_message: [None; 2],
            last_response: [None; 2],
            newest_answered: [0; 2],
            waited: [0; 2],
            overlapped: [0; 2],
            carriers: Map::default(),
            has_session_id: false,
            answers_elsewhere: false,
            hang_ups: Default::default(),
            twice: Default::default(),
            lease: Default::default(),
            session: None,
            tokens: Default::default(),
            works: Map::default(),
            let_go_works: Default::default(),
            tasks: Tasks::default(),
            turns: Map::default(),
            most_turns: super::asking::MOST_TURNS,
            chains: Chains::default(),
            early: Vec::new(),
            unsure: VecDeque::new(),
            series: Series::default(),
            clients: None,
            servers: None,
            first: None,
            now: Mark { seq: 0, at: 0 },
        }
    }

    /// The next event. What it settles is pushed to `facts`.
    pub fn event(&mut self, event: &Event, facts: &mut Vec<Fact>) {
        // A clock that steps back must not make a duration negative.
        let at = if self.first.is_some() { event.at.max(self.now.at) } else { event.at };
        self.now = Mark { seq: event.seq, at };
        self.first.get_or_insert(self.now);
        if !self.early.is_empty() {
            self.give_up_on_early(at, facts);
        }
        if !self.unsure.is_empty() {
            self.give_up_on_unsure(at, facts);
        }
        match &event.what {
            What::Message { from, message, .. } => self.message(*from, message, event.carrier, facts),
            What::Fault { from, fault, .. } => {
                self.slip(facts, SlipKind::Fault, *from, None, fault.name().to_string());
            }
            What::Stderr { .. } => {}
            What::Happening(happening) => {
                if event.carrier.is_some() {
                    self.take_lease(happening);
                }
                self.happening(happening, event.carrier, facts);
            }
        }
    }

    fn message(&mut self, from: Side, message: &Message, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        if message.marks.has(Place::MetaVersion) || message.marks.has(Place::ResultVersion) {
            self.hear(protocol::hear(message));
        }
        if message.batch_index == Some(0) {
            self.slip(facts, SlipKind::BatchNotAllowed, from, None, String::new());
        }
        if message.oddities.has(Oddity::DuplicateKey) {
            let subject = message.id.as_ref().map(Id::to_string).unwrap_or_default();
            self.slip(facts, SlipKind::DuplicateKey, from, message.method.clone(), subject);
        }
        if self.comes_again(from, message, carrier) {
            return;
        }
        match message.kind {
            Kind::Request => self.ask(from, message, carrier, facts),
            Kind::Notification => self.notify(from, message, carrier, facts),
            Kind::Result | Kind::Error => self.answer(from, message, carrier, facts),
            Kind::Unreadable(why) => {
                self.unreadable[from as usize] = Some(self.now);
                if matches!(why, Unreadable::Truncated | Unreadable::BatchTooLong) {
                    self.gap[from as usize] = Some(self.now.seq);
                } else if from == Side::Client || !self.refused(carrier) {
                    // The body of an HTTP refusal need be no message.
                    self.slip(facts, SlipKind::Unreadable, from, None, why.name().to_string());
                }
            }
        }
        self.last_message[from as usize] = Some(self.now);
        if from == Side::Client {
            self.hang_ups.client_acts(self.now);
        }
    }

    /// The number and the meaning of a method; new names may tell the protocol.
    pub(super) fn meaning(&mut self, message: &Message) -> (u32, Role) {
        let (number, new) = match &message.method {
            Some(name) => self.names.method(name, self.protocol),
            None => self.names.method(&"".into(), self.protocol),
        };
        if new || self.names.methods[number as usize].role == Role::Initialize || message.method() == "initialize" {
            self.hear(protocol::hear(message));
        }
        (number, self.names.methods[number as usize].role)
    }

    fn hear(&mut self, heard: Option<Heard>) {
        let Some(heard) = heard else { return };
        if self.spoken.strength == Strength::Told {
            return;
        }
        // A request that names its own version does not overrule a handshake: eras can share a pipe.
        let replaces = heard.strength > self.spoken.strength
            || (heard.strength == Strength::Version && self.spoken.dialect == Dialect::Mcp);
        if replaces && !(self.spoken.shook_hands && heard.dialect.is_modern_mcp()) {
            let other_family = self.spoken.dialect.name() != heard.dialect.name();
            self.spoken.also.retain(|also| *also != heard.dialect);
            self.spoken.dialect = heard.dialect;
            self.spoken.version = heard.version;
            self.spoken.strength = heard.strength;
            self.spoken.by = heard.by;
            if other_family {
                self.protocol = protocol::protocol(heard.dialect);
                self.names.translate(self.protocol);
            }
        } else if heard.strength >= Strength::Version
            && heard.dialect != self.spoken.dialect
            && heard.dialect.is_mcp()
            && self.spoken.dialect.is_mcp()
            && (heard.dialect.is_modern_mcp() || self.spoken.dialect.is_modern_mcp())
            && !self.spoken.also.contains(&heard.dialect)
        {
            self.spoken.also.push(heard.dialect);
        }
    }

    fn notify(&mut self, from: Side, message: &Message, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        let (method, role) = self.meaning(message);
        self.check_turn_to_speak(from, message, role, carrier, facts);
        match role {
            Role::CancelRequest(place) => self.cancel_request(from, message, place, carrier, facts),
            Role::CancelSession => self.cancel_session(from, message, facts),
            Role::CancelToken => self.cancel_token(from, message, facts),
            Role::Progress => self.progress(from, message, carrier, facts),
            Role::TokenProgress => self.token_progress(from, message, carrier, facts),
            Role::TaskStatus(place) => self.task_status(from, message, place, facts),
            Role::SessionUpdate => self.session_update(from, message, facts),
            Role::ListenAcknowledged => self.listen_acknowledged(from, message, facts),
            Role::Initialized => self.handshake.initialized = true,
            Role::Exit => {
                self.ends.said.get_or_insert(self.now);
                self.ends.client.get_or_insert(self.now);
            }
            _ => {}
        }
        if role != Role::ListenAcknowledged && message.marks.has(Place::ParamSubscription) {
            self.subscription_notice(from, message, facts);
        }
        let name = std::sync::Arc::clone(&self.names.methods[method as usize].name);
        self.last_notification[from as usize] = Some((self.now, name, carrier));
    }

    fn happening(&mut self, happening: &Happening, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        match happening {
            Happening::Opened { .. } => {
                self.ends.opened.get_or_insert(self.now);
            }
            Happening::Closed { from, by, how } => {
                match from {
                    // The tap let go: that says nothing about the two ends.
                    _ if *by == Party::Tap => {}
                    // A client whose end closed because the server was gone has not ended the session.
                    Side::Client if *by == Party::Server => {
                        self.ends.server.get_or_insert(self.now);
                    }
                    Side::Client => {
                        self.ends.client.get_or_insert(self.now);
                    }
                    Side::Server => {
                        self.ends.server_fell |= *how == How::Reset;
                        self.ends.server.get_or_insert(self.now);
                    }
                }
            }
            Happening::Exited { code, signal } => {
                self.ends.server_fell |= signal.is_some() || code.is_some_and(|code| code != 0);
                // SIGHUP, SIGINT, SIGTERM: the way in which clients end servers.
                let asked_to_go = |signal: i32| matches!(signal, 1 | 2 | 15);
                self.ends.stopped_by_signal |= self.ends.server.is_none() && signal.is_some_and(asked_to_go);
                self.ends.server.get_or_insert(self.now);
            }
            Happening::Lost { from, .. } => {
                if *from != Some(Side::Client) {
                    self.carrier_lost(carrier);
                }
                for side in [Side::Client, Side::Server] {
                    if from.is_none_or(|from| from == side) {
                        self.gap[side as usize] = Some(self.now.seq);
                        self.doubt_strays(side);
                    }
                }
            }
            Happening::SessionEnded { by, .. } => {
                self.ends.missing = *by == Side::Server && self.ends.said.is_none() && self.ends.server.is_none();
                self.ends.said.get_or_insert(self.now);
                match by {
                    Side::Client => self.ends.client.get_or_insert(self.now),
                    Side::Server => self.ends.server.get_or_insert(self.now),
                };
            }
            Happening::CarrierOpened { method, target, headers } => {
                self.take_session_id(target, headers);
                for (name, value) in headers {
                    self.hear(protocol::hear_header(name, value));
                }
                // DELETE is a leave, not a sign that the client goes on.
                if method != "DELETE" {
                    self.hang_ups.client_acts(self.now);
                }
                self.carrier_opened(carrier, method);
            }
            Happening::CarrierHead { status, headers } => {
                self.take_session_id("", headers);
                self.carrier_head(carrier, *status);
            }
            Happening::CarrierStreaming { resumes } => self.carrier_streaming(carrier, resumes.is_some()),
            Happening::CarrierClosed { by, how, .. } => self.carrier_closed(carrier, *by, *how, facts),
            Happening::StreamEvent { id } => self.stream_event(carrier, id),
            Happening::CarrierTrailers { .. } | Happening::Sample(_) | Happening::Note { .. } => {}
        }
    }

    /// The rule set a request stands under.
    pub(super) fn dialect_of(&self, open: &Open) -> Dialect {
        open.era.unwrap_or(self.spoken.dialect)
    }

    /// How long after a cancel an answer may have crossed it on the way.
    pub(super) fn race_window(&self) -> Micros {
        match self.limits.race_window_ms {
            Some(millis) => millis as Micros * 1000,
            None => (self.round_trips.median().unwrap_or(0) * 2).max(1_000_000),
        }
    }

    pub fn race_window_now(&self) -> Micros {
        self.race_window()
    }

    pub(super) fn deadline(&self) -> Micros {
        self.limits.deadline_ms as Micros * 1000
    }

    /// The recording may have begun in the middle of the conversation.
    pub fn may_have_begun_late(&self) -> bool {
        self.ends.opened.is_none() && self.handshake.asked.is_none()
    }

    /// Something this side sent may be missing: a gap, or what was before a late start.
    pub(super) fn may_have_missed(&self, side: Side) -> bool {
        self.gap[side as usize].is_some() || self.may_have_begun_late()
    }

    pub(super) fn slip(&self, facts: &mut Vec<Fact>, kind: SlipKind, by: Side, method: Option<Name>, subject: String) {
        facts.push(Fact::Slip(Slip {
            kind,
            by,
            seq: self.now.seq,
            at: self.now.at,
            dialect: self.spoken.dialect,
            method,
            tool: None,
            subject,
            also: Vec::new(),
            on_http: false,
            doubtful: false,
        }));
    }

    pub(super) fn track(asker: Side) -> Track {
        Track::requests_of(asker)
    }

    /// How many requests are open now, of both sides.
    pub fn open_requests(&self) -> usize {
        self.pending.iter().map(Pending::len).sum()
    }

    /// The most tasks that were open at one time.
    pub fn most_tasks(&self) -> u64 {
        self.tasks.peak
    }

    /// The client said that it was going.
    pub fn took_leave(&self) -> bool {
        self.handshake.shutdown.is_some() || self.ends.said.is_some()
    }

    pub fn latest(&self) -> Mark {
        self.now
    }

    pub fn session_ends(&self) -> Ends {
        self.ends
    }
}
