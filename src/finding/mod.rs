//! finding: facts → findings.
//!
//! Comes in: the facts of one session. Goes out: [`Finding`]s, grouped by rule, method and tool, each with the
//! numbers and the events that prove it, in one [`Judged`] per session. Words are made late, by the rule. This
//! room refuses to accuse where the wire does not prove it: severity and blame are the protocol's, by version.

pub mod docket;
pub mod judged;
pub mod rules;

pub use docket::Docket;
pub use judged::{CancelLedger, CancelVerdict, Counts, Ended, Judged, Ledger, MethodFacts, Note, NoteKind, Spoken};

use crate::event::{Bodies, Event, Micros, Session, Side};
use crate::exchange::{CancelPolicy, Fact, Limits};
use crate::protocol::Dialect;

/// How grave a finding is. Ordered: `--fail-on suspect` also fails on violations and leaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nobody did wrong.
    Info,
    /// May be harmless, may be a fault.
    Suspect,
    /// Breaks a rule of the protocol.
    Violation,
    /// An obligation or a resource stays open.
    Leak,
}

impl Severity {
    pub const ALL: [Severity; 4] = [Severity::Info, Severity::Suspect, Severity::Violation, Severity::Leak];

    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Suspect => "suspect",
            Severity::Violation => "violation",
            Severity::Leak => "leak",
        }
    }

    pub fn from_name(name: &str) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| severity.name() == name)
    }
}

/// Who is at fault: named only where the wire proves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blame {
    Client,
    Server,
    Undetermined,
    Nobody,
}

impl Blame {
    pub fn name(self) -> &'static str {
        match self {
            Blame::Client => "client",
            Blame::Server => "server",
            Blame::Undetermined => "undetermined",
            Blame::Nobody => "nobody",
        }
    }

    pub fn of(side: Side) -> Blame {
        match side {
            Side::Client => Blame::Client,
            Side::Server => Blame::Server,
        }
    }
}

/// How many subjects and events a finding keeps: enough to prove it, too few to fill memory.
pub const MOST_SUBJECTS: usize = 20;
pub const MOST_EVENTS: usize = 60;

/// One judgement, about one request or many alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    pub fault: Blame,
    /// Who asked, where it is about requests.
    pub asked_by: Option<Side>,
    /// Who did it, where it is about something one side sent.
    pub by: Option<Side>,
    pub method: Option<String>,
    pub tool: Option<String>,
    pub dialect: Dialect,
    /// Ids, tasks, tokens or carriers, as written; the first [`MOST_SUBJECTS`] of them.
    pub subjects: Vec<String>,
    pub count: u64,
    pub first_at: Micros,
    pub last_at: Micros,
    /// Named figures, for the sentence and for programs: `("gives up after", Figure::Millis(100.0))`.
    pub figures: Vec<(&'static str, Figure)>,
    /// The events that prove it, ascending; at most [`MOST_EVENTS`].
    pub events: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    Count(u64),
    Duration(Micros),
    Text(String),
}

impl Finding {
    /// One sentence: what happened, to what, and who is at fault. Holds text from the wire: make it safe to print.
    pub fn sentence(&self) -> String {
        (self.rule.sentence)(self)
    }

    pub fn subject(&self) -> &str {
        self.subjects.first().map_or("", String::as_str)
    }
}

/// A rule: its name, and the words for it. Which facts it speaks of is in its file.
pub struct Rule {
    /// Kebab-case, as in `--fail-on`, the JSON report and `rpctap explain`.
    pub name: &'static str,
    /// A few words: for lists.
    pub title: &'static str,
    /// Which severities it can have, by protocol: for lists.
    pub severities: &'static str,
    /// What it is, which rule of which protocol it rests on, what to do about it.
    pub explanation: &'static str,
    pub sentence: fn(&Finding) -> String,
    /// Is this fact a case of it, and how grave? `None` where it is not, or where the wire does not prove it.
    pub judge: fn(&Fact, &Ground) -> Option<Charge>,
}

/// What a rule may ask about the session beside the fact itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ground {
    pub policy: CancelPolicy,
    /// The race window in force: what came this soon after a cancel may have crossed it.
    pub race_window: Micros,
    /// The conversation travels over HTTP.
    pub http: bool,
}

/// One case of a rule. Its subject, method and events are those of the fact.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    pub severity: Severity,
    pub fault: Blame,
    /// Figures of this one case; of many alike a finding tells the median duration and the commonest text.
    pub figures: Vec<(&'static str, Figure)>,
}

impl Charge {
    pub fn new(severity: Severity, fault: Blame) -> Charge {
        Charge { severity, fault, figures: Vec::new() }
    }

    pub fn with(mut self, name: &'static str, figure: Figure) -> Charge {
        self.figures.push((name, figure));
        self
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.name == other.name
    }
}

pub use rules::RULES;

pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.name == name)
}

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
    counts: Counts,
    first_at: Option<Micros>,
    last_at: Option<Micros>,
}

impl Analyzer {
    pub fn new(session: &Session, options: &Options) -> Analyzer {
        Analyzer {
            session: session.clone(),
            options: options.clone(),
            counts: Counts::default(),
            first_at: None,
            last_at: None,
        }
    }

    /// The next event, in the order of `seq`.
    pub fn event(&mut self, event: &Event, _bodies: &mut dyn Bodies) {
        self.counts.events += 1;
        self.first_at.get_or_insert(event.at);
        self.last_at = Some(event.at);
    }

    /// `as_of`: now, for a live session; `None` judges at the last event.
    pub fn finish(self, as_of: Option<Micros>) -> Judged {
        Judged {
            protocol: Spoken {
                dialect: self.options.protocol.unwrap_or(Dialect::Plain),
                version: None,
                recognised_by: String::new(),
                also: Vec::new(),
            },
            first_at: self.first_at,
            last_at: self.last_at,
            as_of: as_of.or(self.last_at).unwrap_or(self.session.started_at),
            ended: Ended::No,
            counts: self.counts,
            outcomes: Default::default(),
            methods: Vec::new(),
            cancels: CancelLedger::default(),
            tasks: Ledger::default(),
            tokens: Ledger::default(),
            streams: Ledger::default(),
            findings: Vec::new(),
            series: Default::default(),
            trend: crate::exchange::trend::judge(&Default::default(), true),
            limits: self.options.limits,
            notes: Vec::new(),
            session: self.session,
        }
    }
}
