//! Judges one session: its events go in, in order and once; a [`Judged`] comes out.
//!
//! The pairing is `exchange`'s, the verdicts are the rules'. Here they meet: every fact is counted in its ledger and
//! heard by the docket, and what leaks is told to the series.

use crate::event::{Bodies, Event, Happening, Knows, Losses, Micros, Session, Side, What};
use crate::exchange::{
    Cancel, CancelEnd, CancelPolicy, CancelTarget, Exchange, Fact, Fold, Leak, LeakKind, Limits, Outcome, Outcomes,
    Track, fold::End, trend,
};
use crate::protocol::{Dialect, Owes, Role, Strength, software};
use crate::rpc::{Kind, Mark};

use super::rules::growing_leak;
use super::{
    CancelLedger, CancelVerdict, Counts, Docket, Ended, Ground, Judged, Ledger, MethodFacts, Note, NoteKind, Severity,
    Spoken,
};

/// Notes of logs and their importers that are passed on; more say nothing new.
const MOST_LOG_NOTES: usize = 20;

/// How to judge.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub limits: Limits,
    /// `--protocol`: overrules what the traffic says.
    pub protocol: Option<Dialect>,
}

/// Judges one session: give it the session, then its events in order, then finish.
pub struct Analyzer {
    session: Session,
    options: Options,
    fold: Fold,
    docket: Docket,
    facts: Vec<Fact>,
    counts: Counts,
    losses: Losses,
    outcomes: [Outcomes; 2],
    cancels: CancelLedger,
    silent: Vec<(Dialect, CancelEnd, u64)>,
    tasks: Ledger<crate::exchange::TaskEnd>,
    tokens: Ledger<crate::exchange::TokenEnd>,
    streams: Ledger<crate::exchange::StreamEnd>,
    notes: Vec<Note>,
    hints: Vec<&'static str>,
    first_at: Option<Micros>,
    last_at: Option<Micros>,
    /// The last batch's place, so that its bytes count once.
    last_span: Option<(u64, u64)>,
}

impl Analyzer {
    pub fn new(session: &Session, options: &Options) -> Analyzer {
        Analyzer {
            fold: Fold::new(session.knows, options.limits, options.protocol),
            session: session.clone(),
            options: options.clone(),
            docket: Docket::default(),
            facts: Vec::new(),
            counts: Counts::default(),
            losses: Losses::default(),
            outcomes: Default::default(),
            cancels: CancelLedger::default(),
            silent: Vec::new(),
            tasks: Ledger::default(),
            tokens: Ledger::default(),
            streams: Ledger::default(),
            notes: Vec::new(),
            hints: Vec::new(),
            first_at: None,
            last_at: None,
            last_span: None,
        }
    }

    /// The next event, in the order of `seq`.
    pub fn event(&mut self, event: &Event, _: &mut dyn Bodies) {
        self.feed(event, |_| {});
    }

    /// Like [`Analyzer::event`], and shows each fact that the event settles.
    pub fn feed(&mut self, event: &Event, mut settled: impl FnMut(&Fact)) {
        self.count(event);
        let mut facts = std::mem::take(&mut self.facts);
        self.fold.event(event, &mut facts);
        for fact in facts.drain(..) {
            self.hear(&fact);
            settled(&fact);
        }
        self.facts = facts;
    }

    /// What the open requests take in memory, about.
    pub fn open_bytes(&self) -> usize {
        self.fold.open_bytes()
    }

    /// Lets the oldest open requests go if they take more than this; they are judged by examples, and the note says so.
    pub fn keep_within(&mut self, most_bytes: usize) {
        self.fold.keep_within(most_bytes);
    }

    fn count(&mut self, event: &Event) {
        self.counts.events += 1;
        self.first_at.get_or_insert(event.at);
        self.last_at = Some(self.last_at.map_or(event.at, |last| last.max(event.at)));
        match &event.what {
            What::Message { from, message, body } => {
                let side = *from as usize;
                match message.kind {
                    Kind::Request => self.counts.requests[side] += 1,
                    Kind::Notification => self.counts.notifications[side] += 1,
                    Kind::Result | Kind::Error => self.counts.responses[side] += 1,
                    Kind::Unreadable(_) => self.counts.unreadable[side] += 1,
                }
                self.counts.batches[side] += u64::from(message.batch_index == Some(0));
                // The items of a batch share its body.
                if message.batch_index.is_none_or(|index| index == 0)
                    || self.last_span != Some((body.stream, body.start))
                {
                    self.counts.bytes[side] += body.len;
                }
                self.last_span = Some((body.stream, body.start));
                if message.marks.has(Mark::Reason) || message.kind == Kind::Error {
                    self.take_hint(message);
                }
            }
            What::Fault { from, .. } => self.counts.faults[*from as usize] += 1,
            What::Stderr { .. } => self.counts.stderr_lines += 1,
            What::Happening(Happening::Lost { events, bytes, why, .. }) => {
                self.losses.add(why);
                self.counts.losses += 1;
                self.counts.lost_events += events;
                self.counts.lost_bytes += bytes;
            }
            What::Happening(Happening::CarrierOpened { .. }) => self.counts.carriers += 1,
            What::Happening(Happening::Note { text }) => {
                let known = self.notes.iter().any(|note| note.text == *text);
                if !known && self.notes.len() < MOST_LOG_NOTES {
                    self.notes.push(Note { kind: NoteKind::Log, text: text.clone() });
                }
            }
            What::Happening(_) => {}
        }
    }

    fn take_hint(&mut self, message: &crate::rpc::Message) {
        let hint = match message.kind {
            Kind::Notification => message.marks.text(Mark::Reason).and_then(software::reason_hint),
            _ => message.marks.number(Mark::ErrorCode).and_then(|code| {
                software::acknowledgement_hint(code as i64, message.marks.text(Mark::ErrorMessage).unwrap_or_default())
            }),
        };
        if let Some(hint) = hint
            && self.fold.spoken.dialect.is_mcp()
            && !self.hints.contains(&hint)
        {
            self.hints.push(hint);
        }
    }

    fn ground(&self) -> Ground {
        Ground {
            policy: self.options.limits.cancel_policy,
            race_window: self.fold.race_window_now(),
            deadline: self.options.limits.deadline_ms as Micros * 1000,
            took_leave: self.fold.took_leave(),
            http: self.counts.carriers > 0,
            knows: self.session.knows,
        }
    }

    fn hear(&mut self, fact: &Fact) {
        match fact {
            Fact::Exchange(exchange) => {
                self.outcomes[exchange.asked_by as usize].add(exchange.outcome);
                // Nearly every fact is an ordinary answer, which no rule speaks of.
                if exchange.outcome.was_answered() {
                    return;
                }
            }
            Fact::Cancel(cancel) => self.count_cancel(cancel),
            Fact::Task(task) => self.tasks.add(task.end, task.closed_at.map(|at| at - task.opened_at)),
            Fact::Token(token) => self.tokens.add(token.end, token.closed_at.map(|at| at - token.opened_at)),
            Fact::Stream(stream) => self.streams.add(stream.end, stream.closed_at.map(|at| at - stream.opened_at)),
            Fact::Slip(slip) => {
                self.counts.strays += u64::from(slip.kind == crate::exchange::SlipKind::ResponseUnknown);
            }
        }
        let ground = self.ground();
        let gravest = self.docket.hear(fact, &ground);
        match gravest {
            Some(Severity::Leak) => self.leaked(fact),
            _ => self.hanging(fact),
        }
    }

    fn leaked(&mut self, fact: &Fact) {
        let now = self.fold.latest().at;
        let leak = match fact {
            Fact::Exchange(exchange) => {
                let kind = match exchange.outcome {
                    Outcome::Abandoned => LeakKind::Abandoned,
                    Outcome::AnsweredAfterClose => LeakKind::AnsweredAfterClose,
                    Outcome::CancelledSilent => LeakKind::UnresolvedCancel,
                    Outcome::CancelledIgnored => LeakKind::WorkAfterCancel,
                    _ => LeakKind::Orphaned,
                };
                let open = exchange.closed_at.is_none() && exchange.answer.is_none();
                Leak {
                    kind,
                    opened_at: exchange.opened_at,
                    certain_at: certain_at(exchange, &self.options.limits).unwrap_or(now).max(exchange.opened_at),
                    still_open: open.then(|| Track::requests_of(exchange.asked_by)),
                    method: &exchange.method,
                    tool: exchange.tool.as_deref(),
                }
            }
            Fact::Task(task) => Leak {
                kind: LeakKind::Task,
                opened_at: task.opened_at,
                certain_at: now.max(task.opened_at),
                still_open: task.closed_at.is_none().then_some(Track::Tasks),
                method: &task.method,
                tool: task.tool.as_deref(),
            },
            Fact::Token(token) => Leak {
                kind: LeakKind::ProgressToken,
                opened_at: token.opened_at,
                certain_at: now.max(token.opened_at),
                still_open: None,
                method: "$/progress",
                tool: None,
            },
            Fact::Stream(stream) => Leak {
                kind: LeakKind::Stream,
                opened_at: stream.opened_at,
                certain_at: now.max(stream.opened_at),
                still_open: None,
                method: &stream.method,
                tool: None,
            },
            Fact::Cancel(_) | Fact::Slip(_) => return,
        };
        self.fold.series.leaked(leak);
    }

    /// What is open at the end without being called a leak: it may carry a growth all the same, unless its silence
    /// says nothing.
    fn hanging(&mut self, fact: &Fact) {
        let Fact::Exchange(exchange) = fact else { return };
        let open = exchange.closed_at.is_none() && exchange.answer.is_none() && exchange.cancel.is_none();
        let may_wait = exchange.role.may_stay_open() || exchange.role == Role::Discover;
        if open && (exchange.doubtful || may_wait) {
            self.fold.series.excused(Track::requests_of(exchange.asked_by), exchange.opened_at);
        } else if matches!(
            exchange.outcome,
            Outcome::Overdue | Outcome::InFlight | Outcome::Abandoned | Outcome::Orphaned
        ) {
            self.fold.series.hanging(&exchange.method, exchange.tool.as_deref());
        }
    }

    fn count_cancel(&mut self, cancel: &Cancel) {
        self.cancels.sent[cancel.sent_by as usize] += u64::from(!double_told(cancel));
        if double_told(cancel) {
            self.cancels.targets[CancelTarget::Forbidden as usize] += 1;
            return;
        }
        self.cancels.targets[cancel.target as usize] += 1;
        self.cancels.ends[cancel.end as usize] += 1;
        if cancel.target != CancelTarget::Open {
            return;
        }
        if let Some(settled) = cancel.settled
            && self.session.knows.times
        {
            self.cancels.settling.add(settled.at - cancel.at);
        }
        match self.silent.iter_mut().find(|(dialect, end, _)| (*dialect, *end) == (cancel.dialect, cancel.end)) {
            Some((_, _, count)) => *count += 1,
            None => self.silent.push((cancel.dialect, cancel.end, 1)),
        }
    }

    /// `as_of`: now, for a live session; `None` judges at the last event.
    pub fn finish(self, as_of: Option<Micros>) -> Judged {
        self.finish_telling(as_of, |_| {})
    }

    /// Like [`Analyzer::finish`], and shows each fact about what was still open.
    pub fn finish_telling(mut self, as_of: Option<Micros>, mut settled: impl FnMut(&Fact)) -> Judged {
        let mut facts = std::mem::take(&mut self.facts);
        let mut finish = self.fold.begin_to_finish(as_of.or(self.last_at), &mut facts);
        let as_of = finish.as_of;
        let mut more = true;
        while more {
            more = self.fold.finish_some(&mut finish, &mut facts);
            for fact in facts.drain(..) {
                self.hear(&fact);
                settled(&fact);
            }
        }
        self.notes();
        let knows = self.session.knows;
        // Without times nothing is ever past its deadline.
        let deadline = self.options.limits.deadline_ms.saturating_mul(1000);
        self.fold.series.ripens_after(if knows.times { deadline } else { u64::MAX });
        let trend = trend::judge(&self.fold.series, knows.times);
        let dialect = self.fold.spoken.dialect;
        let mut findings = std::mem::take(&mut self.docket).close();
        if let Some(finding) = growing_leak::from_trend(&trend, dialect, as_of) {
            findings.push(finding);
        }
        super::docket::sort(&mut findings);
        self.cancels.verdicts = verdicts(&self.silent, self.options.limits.cancel_policy);
        self.tasks.peak = self.fold.most_tasks();
        Judged {
            protocol: Spoken {
                dialect,
                version: self.fold.spoken.version.clone(),
                recognised_by: match self.fold.spoken.strength {
                    Strength::Nothing => "nothing: judged as plain JSON-RPC".to_string(),
                    _ => self.fold.spoken.by.clone(),
                },
                also: self.fold.spoken.also.clone(),
            },
            first_at: self.first_at,
            last_at: self.last_at,
            as_of: if self.first_at.is_some() { as_of } else { self.session.started_at },
            ended: match self.fold.end() {
                End::No => Ended::No,
                End::ByClient(mark) => Ended::ByClient(mark.at),
                End::ByServer(mark) => Ended::ByServer(mark.at),
            },
            counts: self.counts,
            outcomes: self.outcomes,
            methods: methods(&mut self.fold),
            cancels: self.cancels,
            tasks: self.tasks,
            tokens: self.tokens,
            streams: self.streams,
            http_session: self.fold.session,
            findings,
            trend,
            limits: self.options.limits,
            notes: self.notes,
            series: std::mem::take(&mut self.fold.series),
            session: self.session,
        }
    }

    fn notes(&mut self) {
        let mut say = |kind, text: String| self.notes.push(Note { kind, text });
        let spoken = &self.fold.spoken;
        if spoken.strength == Strength::Nothing {
            let text = "The protocol could not be recognised; judged as plain JSON-RPC. Name it with --protocol.";
            say(NoteKind::Protocol, text.to_string());
        }
        if spoken.dialect == Dialect::Mcp {
            let text = "The version of MCP was not seen: only what holds in all versions is called a violation.";
            say(NoteKind::Protocol, text.to_string());
        }
        if spoken.strength == Strength::Told {
            say(NoteKind::Protocol, format!("Judged as {}, as --protocol says.", spoken.dialect.words()));
        }
        if let (Some(version), Some(known)) = (&spoken.version, spoken.dialect.version())
            && version != known
            && spoken.dialect.is_mcp()
        {
            say(NoteKind::Protocol, format!("MCP {version} is not known here; judged by the rules of {known}."));
        }
        for also in &spoken.also {
            let text = format!("Some messages name another version and are judged by it: {}.", also.words());
            say(NoteKind::Protocol, text);
        }
        let Knows { times, direction, ids, payload, ends } = self.session.knows;
        let unknown = [
            (times, "This recording has no times: nothing in it can be overdue, raced or slow."),
            (direction, "This recording does not say who sent a message: directions are guessed."),
            (
                ids,
                "This recording does not say which answer belongs to which request (it has no ids, or mixes those of \
                 several servers): they are paired by guess.",
            ),
            (payload, "This recording has no params or results: cancels, tokens and tasks cannot be read from it."),
            (
                ends,
                "This recording would not show the end of a stream or process: what is open at its end may live on.",
            ),
        ];
        for (known, text) in unknown {
            if !known {
                say(NoteKind::Capture, text.to_string());
            }
        }
        if !self.losses.is_empty() {
            let missing = self.losses.words();
            let text =
                format!("Parts of the recording are missing ({missing}): requests open at a gap are not judged.");
            say(NoteKind::Capture, text);
        }
        let (let_go, recalled) = self.fold.let_go();
        if let_go > 0 {
            let mut text = format!(
                "More requests were open at once than are followed one by one: the oldest {let_go} are counted and \
                 judged by examples of their kind, to which the ids and events shown of them belong."
            );
            if recalled > 0 {
                text += &format!(" {recalled} of them were answered or cancelled later; which ones is a guess.");
            }
            say(NoteKind::Capture, text);
        }
        let [tasks, tokens] = self.fold.let_go_by_name();
        if tasks + tokens > 0 {
            let text = format!(
                "More tasks or progress tokens were open at once than are followed by name: the oldest {tasks} tasks and \
                 {tokens} tokens are counted and judged by examples of their kind; news of one of them is taken for news \
                 of the oldest."
            );
            say(NoteKind::Capture, text);
        }
        if self.counts.events > 0 && self.fold.may_have_begun_late() && spoken.dialect.has_handshake() {
            let text = "The recording begins after the handshake: answers and cancels may concern requests before it.";
            say(NoteKind::Capture, text.to_string());
        }
        for (named, client) in [(&self.fold.clients, true), (&self.fold.servers, false)] {
            for hint in named.iter().flat_map(|named| software::hints(named, client)) {
                say(NoteKind::Hint, hint.to_string());
            }
        }
        for hint in &self.hints {
            say(NoteKind::Hint, hint.to_string());
        }
    }
}

/// A forbidden cancel of an open request is told twice: once as forbidden, once when it is settled.
fn double_told(cancel: &Cancel) -> bool {
    cancel.target == CancelTarget::Forbidden && cancel.settled.is_none() && cancel.request_seq.is_some()
}

/// When it became certain that this request leaks, for the live view.
fn certain_at(exchange: &Exchange, limits: &Limits) -> Option<Micros> {
    match exchange.outcome {
        Outcome::Abandoned => exchange.moved_on.map(|moved| exchange.opened_at + moved.after),
        Outcome::Orphaned => Some(exchange.opened_at + limits.deadline_ms as Micros * 1000),
        Outcome::AnsweredAfterClose => exchange.end.map(|end| end.at),
        _ => None,
    }
}

fn methods(fold: &mut Fold) -> Vec<MethodFacts> {
    let mut methods: Vec<MethodFacts> = std::mem::take(&mut fold.names.rows)
        .into_iter()
        .filter(|row| row.count > 0)
        .map(|row| MethodFacts {
            asked_by: row.asked_by,
            method: row.method.to_string(),
            tool: row.tool.map(|tool| tool.to_string()),
            count: row.count,
            outcomes: row.outcomes,
            latency: row.latency,
        })
        .collect();
    methods.sort_by(|a, b| (b.count, a.asked_by, &a.method, &a.tool).cmp(&(a.count, b.asked_by, &b.method, &b.tool)));
    methods
}

/// What the protocol says of what came of the cancels.
fn verdicts(counted: &[(Dialect, CancelEnd, u64)], policy: CancelPolicy) -> Vec<CancelVerdict> {
    let mut verdicts: Vec<CancelVerdict> = counted
        .iter()
        .map(|(dialect, end, count)| {
            let owes = match policy {
                CancelPolicy::Spec => dialect.owes_after_cancel(),
                CancelPolicy::Reply => Owes::Reply,
                CancelPolicy::Silence => Owes::StrictSilence,
            };
            let (judgement, consequence) = match (end, owes) {
                (CancelEnd::Silent, Owes::Reply) => ("a reply was owed", "whoever waits for it hangs"),
                (CancelEnd::Silent, Owes::Silence) => ("conforming", "a client that waits for a reply hangs"),
                (CancelEnd::Silent, Owes::StrictSilence) => ("required", ""),
                (CancelEnd::Acknowledged, Owes::Reply) => ("conforming", ""),
                (CancelEnd::Acknowledged, Owes::Silence) => {
                    ("should not be answered", "some clients drop the connection on a late answer")
                }
                (CancelEnd::Acknowledged, Owes::StrictSilence) => {
                    ("must not be answered", "some clients drop the connection on a late answer")
                }
                (CancelEnd::Raced, _) => ("may have crossed the cancel", "nobody is to blame"),
                (CancelEnd::Ignored, _) => ("the work went on", "what it holds is not freed by a cancel"),
                (CancelEnd::Undecided, _) => ("too early to say", ""),
                (CancelEnd::Moot, _) => ("nothing to end", ""),
            };
            let resolved = (*end, owes) == (CancelEnd::Silent, Owes::StrictSilence);
            CancelVerdict { dialect: *dialect, end: *end, count: *count, judgement, consequence, resolved }
        })
        .collect();
    verdicts.sort_by_key(|verdict| (verdict.end, verdict.dialect));
    verdicts
}

/// The side that asks of an outcome table, for callers that print both.
pub const SIDES: [Side; 2] = [Side::Client, Side::Server];
