//! A request arrives.

use crate::event::Side;
use crate::protocol::{Dialect, Role, Strength, software::Named};
use crate::rpc::{Id, Mark as Place, Message};

use super::fact::{Fact, Slip, SlipKind};
use super::fold::Fold;
use super::hash::print_of;
use super::let_go::MOST_OPEN_BYTES;
use super::open::Open;
use super::pending::ActiveToken;

/// ACP sessions whose last prompt is remembered; past this many, only those whose prompt is open.
pub(super) const MOST_TURNS: usize = 1 << 12;
/// Operations that wait for input, of which the state is remembered.
const MOST_CHAINS: usize = 1 << 12;

impl Fold {
    pub(super) fn ask(&mut self, from: Side, message: &Message, carrier: Option<u64>, facts: &mut Vec<Fact>) {
        let (method, role) = self.meaning(message);
        let asker = from as usize;
        let written = message.id.clone().unwrap_or(Id::Null);
        let id = written.canonical();
        let mut open = Open::new(id, from, self.now.seq, self.now.at);
        open.method = method;
        open.role = role;
        open.print = message.params_print;
        open.carrier = carrier;
        if self.spoken.strength != Strength::Told {
            open.era = message.marks.text(Place::MetaVersion).map(Dialect::mcp_of);
        }
        let tool = self.names.tool_mark(method).and_then(|place| message.marks.text(place));
        open.row = self.names.row(from, method, tool);
        self.names.rows[open.row as usize].count += 1;
        self.check_id(&open, &written, facts);
        self.check_turn_to_speak(from, message, role, carrier, facts);

        let dialect = self.dialect_of(&open);
        let many_clients = self.many_clients(carrier);
        let followed = self.follows_redirect(&open);
        let known_open = self.pending[asker].newest(&open.id);
        if let Some(slot) = known_open
            && let Some(earlier) = self.pending[asker].get(slot)
        {
            open.generation = earlier.generation + 1;
            // Without sessions, different clients may use one id on different connections.
            let sessionless = many_clients || dialect.is_modern_mcp() || dialect.is_a2a();
            let apart = carrier.is_some() && earlier.carrier != carrier && sessionless;
            // HTTP is about to refuse the earlier one: no server took it.
            let refused = self.status_of(earlier.carrier).is_some_and(|status| status >= 300);
            if !apart && !refused && open.id != Id::Null {
                let kind = match earlier.rare().cancel {
                    Some(_) => SlipKind::IdReuseAfterCancel,
                    None => SlipKind::IdReuseInFlight,
                };
                let also = vec![earlier.seq];
                self.request_slip(facts, kind, &open, also);
            }
        }
        let new = self.used[asker].insert(&open.id);
        if !new && known_open.is_none() {
            let before = self.recent[asker].find(&open.id);
            open.generation = followed.unwrap_or_else(|| before.map_or(2, |closed| closed.generation + 1));
            let refused = followed.is_some() || before.is_some_and(|closed| closed.refused);
            if dialect.ids_are_used_up() && !many_clients && !refused {
                let also = before.map(|closed| vec![closed.seq, closed.closed_seq]).unwrap_or_default();
                self.request_slip(facts, SlipKind::IdReuseAfterClose, &open, also);
            }
        }

        match role {
            Role::Initialize => {
                self.handshake.asked.get_or_insert(self.now);
                self.spoken.shook_hands = true;
                self.remember_client(message, Place::ClientName, Place::ClientVersion);
            }
            Role::Shutdown => {
                self.handshake.shutdown.get_or_insert(self.now);
            }
            Role::TokenCreate => self.token_created(from, message, facts),
            Role::TaskGet(place) | Role::TaskResult(place) | Role::TaskUpdate(place) => {
                open.rare_mut().task = message.marks.raw(place).map(Into::into);
                self.task_looked_at(from, message, place, role);
            }
            Role::CancelTask(place) => {
                open.rare_mut().task = message.marks.raw(place).map(Into::into);
                self.cancel_task(from, message, place, facts);
            }
            _ => {}
        }
        if message.marks.has(Place::MetaClientName) && self.clients.is_none() {
            self.remember_client(message, Place::MetaClientName, Place::MetaClientVersion);
        }
        open.asked_task = message.marks.has(Place::TaskAsked) || message.marks.has(Place::MetaTasks);
        if let Some(state) = message.marks.raw(Place::ParamState) {
            self.chain_goes_on(state);
        }

        let places = [
            [Place::RequestProgressToken, Place::RequestProgressToken],
            [Place::WorkDoneToken, Place::PartialResultToken],
        ];
        let lsp = self.spoken.dialect.is_lsp_like();
        let mut reused = false;
        if message.marks.has(Place::RequestProgressToken) && !lsp {
            open.rare_mut().tokens[0] =
                message.marks.raw(places[0][0]).map(|token| self.token_key(token, carrier).into());
        } else if lsp {
            for (at, place) in places[1].into_iter().enumerate() {
                if let Some(token) = message.marks.raw(place) {
                    open.rare_mut().tokens[at] = Some(self.token_key(token, carrier).into());
                }
            }
        }
        for token in open.rare().tokens.iter().flatten() {
            reused |= self.pending[asker]
                .by_token
                .get(token)
                .and_then(|active| self.pending[asker].get(active.slot))
                .is_some_and(|other| other.rare().cancel.is_none());
        }
        if reused {
            self.request_slip(facts, SlipKind::ProgressTokenReuse, &open, Vec::new());
        }
        let tokens = open.rare().tokens.clone();
        let seq = open.seq;
        if let Some(carrier) = carrier {
            self.carrier_carries(carrier, from);
        }
        let slot = self.pending[asker].insert(open);
        for token in tokens.into_iter().flatten() {
            self.pending[asker].by_token.insert(token, ActiveToken { slot, seq, last: f64::NEG_INFINITY });
        }
        if let Some(carrier) = carrier {
            self.carrier_owes(carrier, from, slot, seq);
        }
        if role == Role::Turn
            && let Some(session) = message.marks.raw(Place::ParamSession)
        {
            if self.turns.len() >= self.most_turns {
                let pending = &self.pending;
                self.turns.retain(|_, (side, slot, seq)| {
                    pending[*side as usize].get(*slot).is_some_and(|open| open.seq == *seq)
                });
                // Where all are open, a look at each new one would take longer and longer.
                self.most_turns = MOST_TURNS.max(2 * self.turns.len());
            }
            self.turns.insert(session.into(), (from, slot, seq));
        }
        self.series.opened(Fold::track(from), self.now.at);
        self.keep_within(MOST_OPEN_BYTES);
        if !self.early.is_empty() {
            self.answer_from_before(from, slot, facts);
        }
    }

    fn remember_client(&mut self, message: &Message, name: Place, version: Place) {
        if let Some(name) = message.marks.text(name) {
            let version = message.marks.text(version).unwrap_or_default();
            self.clients = Some(Named { name: name.to_string(), version: version.to_string() });
        }
    }

    fn chain_goes_on(&mut self, state: &str) {
        let print = print_of(state);
        if let Some(at) = self.chains.open.iter().position(|known| *known == print) {
            self.chains.open.remove(at);
            self.chains.counts.went_on += 1;
        }
    }

    pub(super) fn chain_waits(&mut self, state: Option<&str>) {
        self.chains.counts.asked_for_input += 1;
        if let Some(state) = state {
            self.chains.open.push_back(print_of(state));
            if self.chains.open.len() > MOST_CHAINS {
                self.chains.open.pop_front();
            }
        }
    }

    fn check_id(&mut self, open: &Open, written: &Id, facts: &mut Vec<Fact>) {
        let kind = match written {
            Id::Int(_) | Id::Text(_) => return,
            Id::Null => SlipKind::NullId,
            Id::Invalid(_) => SlipKind::InvalidId,
            Id::Number(_) => match &open.id {
                Id::Number(raw) if raw.parse::<f64>().is_ok_and(|value| value.fract() != 0.0) => SlipKind::FractionalId,
                _ => return,
            },
        };
        if matches!(written, Id::Invalid(_) | Id::Null) {
            self.unreadable[open.asker as usize] = Some(self.now);
        }
        self.request_slip(facts, kind, open, Vec::new());
    }

    /// Who may say what when: before the handshake is done, after the shutdown, against the direction.
    pub(super) fn check_turn_to_speak(
        &mut self,
        from: Side,
        message: &Message,
        role: Role,
        carrier: Option<u64>,
        facts: &mut Vec<Fact>,
    ) {
        let asks = message.is_request();
        let dialect = message.marks.text(Place::MetaVersion).map_or(self.spoken.dialect, Dialect::mcp_of);
        if asks && from == Side::Server && !dialect.server_may_ask() && !self.spoken.shook_hands && self.knows.direction
        {
            self.slip(facts, SlipKind::WrongDirection, from, message.method.clone(), id_text(message));
        }
        if !dialect.has_handshake() || message.marks.has(Place::MetaVersion) {
            return;
        }
        if let Some(asked) = self.handshake.asked
            && self.handshake.answered.is_none()
            && asked.seq != self.now.seq
            && self.gap[Side::Server as usize].is_none()
            && self.knows.direction
        {
            let fine = match (from, role) {
                (_, Role::Initialize | Role::Ping | Role::EarlyNotice | Role::Exit | Role::Discover) => true,
                // A cancel of `initialize` is judged as such.
                (_, Role::CancelRequest(_)) => true,
                (Side::Server, Role::LongPoll) => true,
                // Only requests are spoken of in MCP.
                _ => dialect.is_mcp() && !asks,
            };
            let sure = dialect.is_lsp_like() || asks;
            if !fine && sure && !dialect.is_acp() && !self.many_clients(carrier) {
                self.slip(facts, SlipKind::BeforeInitialize, from, message.method.clone(), id_text(message));
            }
        }
        if asks
            && from == Side::Client
            && self.handshake.shutdown.is_some_and(|shutdown| shutdown.seq < self.now.seq)
            && role != Role::Shutdown
        {
            self.slip(facts, SlipKind::AfterShutdown, from, message.method.clone(), id_text(message));
        }
    }

    pub(super) fn request_slip(&self, facts: &mut Vec<Fact>, kind: SlipKind, open: &Open, also: Vec<u64>) {
        let row = &self.names.rows[open.row as usize];
        facts.push(Fact::Slip(Slip {
            kind,
            by: open.asker,
            seq: self.now.seq,
            at: self.now.at,
            dialect: self.dialect_of(open),
            method: Some(row.method.clone()),
            tool: row.tool.clone(),
            subject: open.id.to_string(),
            also,
            on_http: open.carrier.is_some(),
            doubtful: false,
        }));
    }
}

pub(super) fn id_text(message: &Message) -> String {
    message.id.as_ref().map(Id::to_string).unwrap_or_default()
}
