//! finding: facts → findings.
//!
//! Comes in: the facts of one session. Goes out: [`Finding`]s, grouped by rule, method and tool, each with the
//! numbers and the events that prove it, in one [`Judged`] per session. Words are made late, by the rule. This
//! room refuses to accuse where the wire does not prove it: severity and blame are the protocol's, by version.

pub mod analyzer;
#[cfg(test)]
mod conversations;
pub mod docket;
pub mod judged;
#[cfg(test)]
mod let_go_tests;
pub mod rules;
pub mod sessions;
mod softening;

pub use analyzer::{Analyzer, Options};
pub use docket::Docket;
pub use judged::{CancelLedger, CancelVerdict, Counts, Ended, Judged, Ledger, MethodFacts, Note, NoteKind, Spoken};

use crate::event::{Knows, Micros, Side};
use crate::exchange::{CancelPolicy, Fact};
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
    /// How long a request may stay open.
    pub deadline: Micros,
    /// The client said that it was going: LSP's `shutdown` or `exit`, an HTTP DELETE.
    pub took_leave: bool,
    /// The conversation travels over HTTP.
    pub http: bool,
    /// What the recording can know at all.
    pub knows: Knows,
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

/// Judges a conversation written in the notation of transcripts.
#[cfg(test)]
pub(crate) fn judge_talk(talk: &crate::event::transcript::Conversation, options: &Options) -> (Judged, Vec<Fact>) {
    let protocol = talk.protocol.as_deref().map(|name| Dialect::from_flag(name).expect("a known protocol"));
    let options = Options { protocol: protocol.or(options.protocol), ..options.clone() };
    let mut analyzer = Analyzer::new(&talk.collected.sessions[0], &options);
    let mut facts = Vec::new();
    for event in &talk.collected.events {
        analyzer.feed(event, |fact| facts.push(fact.clone()));
    }
    let judged = analyzer.finish_telling(talk.as_of, |fact| facts.push(fact.clone()));
    (judged, facts)
}

/// A rule's test is one call: the findings of the conversation are exactly those of its `!` lines (rule, and the
/// subjects where the line names some; `rule/severity` also tells how grave), and its requests came to what the `=`
/// lines say.
#[cfg(test)]
#[track_caller]
pub(crate) fn check(conversation: &str) {
    check_with(conversation, &Options::default());
}

#[cfg(test)]
#[track_caller]
pub(crate) fn check_with(conversation: &str, options: &Options) {
    let talk = crate::event::transcript::parse(conversation).expect("a conversation");
    let (judged, facts) = judge_talk(&talk, options);
    let told: Vec<String> = judged
        .findings
        .iter()
        .map(|f| format!("{}/{} {} ({})", f.rule.name, f.severity.name(), f.subjects.join(" "), f.sentence()))
        .collect();
    let mut left: Vec<&Finding> = judged.findings.iter().collect();
    for expected in &talk.findings {
        let (name, severity) = match expected.rule.split_once('/') {
            Some((name, severity)) => (name, Some(severity)),
            None => (expected.rule.as_str(), None),
        };
        assert!(rule(name).is_some(), "no rule is named {name}");
        let found = left.iter().position(|finding| {
            finding.rule.name == name
                && severity.is_none_or(|severity| finding.severity.name() == severity)
                && (expected.subjects.is_empty() || finding.subjects == expected.subjects)
        });
        match found {
            Some(at) => drop(left.remove(at)),
            None => panic!("not found: {} {}\nfound: {told:#?}", expected.rule, expected.subjects.join(" ")),
        }
    }
    assert!(left.is_empty(), "found beyond what was expected: {told:#?}");
    for (side, id, outcome) in &talk.outcomes {
        let came_to: Vec<&str> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Exchange(exchange) if exchange.asked_by == *side && exchange.id == *id => {
                    Some(exchange.outcome.name())
                }
                _ => None,
            })
            .collect();
        assert!(came_to.contains(&outcome.as_str()), "{} {id}: {came_to:?}, not {outcome}", side.name());
    }
}
