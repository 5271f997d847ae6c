//! Facts in, findings out: every rule hears every fact, and cases that are alike become one finding.
//!
//! Alike means: same rule, gravity, fault, asker, method, tool and protocol version. Memory is bounded by the
//! number of such groups, never by the number of cases.

use std::collections::HashMap;

use crate::event::{Micros, Side};
use crate::exchange::{Fact, Latency, Outcome, Slip, SlipKind};
use crate::protocol::Dialect;
use crate::rpc::Name;

use super::{Blame, Charge, Figure, Finding, Ground, MOST_EVENTS, MOST_SUBJECTS, RULES, Rule, Severity, softening};

/// Methods and tools come from the wire and can be without number: past this many groups they share one.
const MOST_GROUPS: usize = 2_000;
/// How many different texts of one figure are counted.
const MOST_TEXTS: usize = 8;

#[derive(PartialEq, Eq, Hash, Clone)]
struct Alike {
    rule: &'static str,
    severity: Severity,
    fault: Blame,
    asked_by: Option<Side>,
    by: Option<Side>,
    method: Option<Name>,
    tool: Option<Name>,
    dialect: Dialect,
}

struct Group {
    rule: &'static Rule,
    alike: Alike,
    subjects: Vec<String>,
    count: u64,
    first_at: Micros,
    last_at: Micros,
    events: Vec<u64>,
    figures: Vec<(&'static str, Tally)>,
}

/// One figure over many cases.
enum Tally {
    Count(u64),
    Duration(Box<Latency>),
    Texts(Vec<(String, u64)>),
}

#[derive(Default)]
pub struct Docket {
    groups: Vec<Group>,
    index: HashMap<Alike, usize>,
}

impl Docket {
    /// Says how grave the gravest charge was, if there is one.
    pub fn hear(&mut self, fact: &Fact, ground: &Ground) -> Option<Severity> {
        // Nearly every fact is an ordinary answer, which no rule speaks of.
        if let Fact::Exchange(exchange) = fact
            && matches!(exchange.outcome, Outcome::Answered | Outcome::Failed)
        {
            return None;
        }
        let mut gravest = None;
        for rule in RULES {
            if let Some(charge) = (rule.judge)(fact, ground) {
                let charge = softening::soften(charge, fact, ground);
                gravest = gravest.max(Some(charge.severity));
                self.enter(rule, fact, charge);
            }
        }
        gravest
    }

    fn enter(&mut self, rule: &'static Rule, fact: &Fact, charge: Charge) {
        let about = About::of(fact);
        let mut alike = Alike {
            rule: rule.name,
            severity: charge.severity,
            fault: charge.fault,
            asked_by: about.asked_by,
            by: about.by,
            method: about.method,
            tool: about.tool,
            dialect: about.dialect,
        };
        if self.groups.len() >= MOST_GROUPS && !self.index.contains_key(&alike) {
            alike.method = None;
            alike.tool = None;
        }
        let place = *self.index.entry(alike.clone()).or_insert_with(|| {
            self.groups.push(Group {
                rule,
                alike,
                subjects: Vec::new(),
                count: 0,
                first_at: about.at,
                last_at: about.at,
                events: Vec::new(),
                figures: Vec::new(),
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        group.count += 1;
        group.first_at = group.first_at.min(about.at);
        group.last_at = group.last_at.max(about.at);
        // One that stands for many is told many times, and proves the same each time.
        let again = !about.events.is_empty() && group.events.ends_with(&about.events);
        if !again {
            if group.subjects.len() < MOST_SUBJECTS {
                group.subjects.push(about.subject);
            }
            let room = MOST_EVENTS.saturating_sub(group.events.len());
            group.events.extend(about.events.into_iter().take(room));
        }
        for (name, figure) in charge.figures {
            group.tally(name, figure);
        }
    }

    pub fn close(self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.groups.into_iter().map(Group::into_finding).collect();
        sort(&mut findings);
        findings
    }
}

/// Gravest first, then most numerous, then first seen.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        (b.severity, b.count, a.first_at, a.rule.name).cmp(&(a.severity, a.count, b.first_at, b.rule.name))
    });
}

impl Group {
    fn tally(&mut self, name: &'static str, figure: Figure) {
        let at = match self.figures.iter().position(|(known, _)| *known == name) {
            Some(at) => at,
            None => {
                self.figures.push((
                    name,
                    match figure {
                        Figure::Count(_) => Tally::Count(0),
                        Figure::Duration(_) => Tally::Duration(Box::default()),
                        Figure::Text(_) => Tally::Texts(Vec::new()),
                    },
                ));
                self.figures.len() - 1
            }
        };
        match (&mut self.figures[at].1, figure) {
            (Tally::Count(sum), Figure::Count(count)) => *sum += count,
            (Tally::Duration(latency), Figure::Duration(duration)) => latency.add(duration),
            (Tally::Texts(texts), Figure::Text(text)) => match texts.iter().position(|(known, _)| *known == text) {
                Some(at) => texts[at].1 += 1,
                None if texts.len() < MOST_TEXTS => texts.push((text, 1)),
                None => {}
            },
            // A rule gives a figure one kind; anything else would be a slip of ours that loses only that figure.
            _ => {}
        }
    }

    fn into_finding(self) -> Finding {
        let mut events = self.events;
        events.sort_unstable();
        events.dedup();
        Finding {
            rule: self.rule,
            severity: self.alike.severity,
            fault: self.alike.fault,
            asked_by: self.alike.asked_by,
            by: self.alike.by,
            method: self.alike.method.as_deref().map(str::to_string),
            tool: self.alike.tool.as_deref().map(str::to_string),
            dialect: self.alike.dialect,
            subjects: self.subjects,
            count: self.count,
            first_at: self.first_at,
            last_at: self.last_at,
            figures: self.figures.into_iter().map(|(name, tally)| (name, tally.into_figure())).collect(),
            events,
        }
    }
}

impl Tally {
    fn into_figure(self) -> Figure {
        match self {
            Tally::Count(count) => Figure::Count(count),
            Tally::Duration(latency) => Figure::Duration(latency.median().unwrap_or(0)),
            Tally::Texts(mut texts) => {
                texts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                Figure::Text(texts.into_iter().next().map(|(text, _)| text).unwrap_or_default())
            }
        }
    }
}

/// What a finding says of where its fact comes from.
struct About {
    asked_by: Option<Side>,
    by: Option<Side>,
    method: Option<Name>,
    tool: Option<Name>,
    dialect: Dialect,
    subject: String,
    at: Micros,
    events: Vec<u64>,
}

impl About {
    fn of(fact: &Fact) -> About {
        match fact {
            Fact::Exchange(exchange) => {
                let mut events = vec![exchange.opened_seq];
                events.extend(exchange.root.as_ref().map(|(_, seq)| *seq));
                events.extend(exchange.cancel.map(|mark| mark.seq));
                events.extend(exchange.after_cancel.iter().take(3));
                events.extend(exchange.moved_on.map(|moved| moved.seq));
                events.extend(exchange.answer.map(|mark| mark.seq));
                events.extend(exchange.end.map(|mark| mark.seq));
                About {
                    asked_by: Some(exchange.asked_by),
                    by: None,
                    method: Some(exchange.method.clone()),
                    tool: exchange.tool.clone(),
                    dialect: exchange.dialect,
                    subject: exchange.id.to_string(),
                    at: exchange.opened_at,
                    events,
                }
            }
            Fact::Cancel(cancel) => About {
                asked_by: Some(cancel.sent_by),
                by: Some(cancel.sent_by),
                method: cancel.method.clone(),
                tool: cancel.tool.clone(),
                dialect: cancel.dialect,
                subject: cancel.named.clone(),
                at: cancel.at,
                events: cancel
                    .request_seq
                    .into_iter()
                    .chain([cancel.seq])
                    .chain(cancel.settled.map(|mark| mark.seq))
                    .collect(),
            },
            Fact::Task(task) => About {
                asked_by: Some(task.asked_by),
                by: None,
                method: Some(task.method.clone()),
                tool: task.tool.clone(),
                dialect: task.dialect,
                subject: task.name.clone(),
                at: task.opened_at,
                events: [task.opened_seq]
                    .into_iter()
                    .chain(task.events.iter().copied().take(6))
                    .chain(task.cancel.map(|mark| mark.seq))
                    .chain(task.last_looked_at.map(|mark| mark.seq))
                    .collect(),
            },
            Fact::Token(token) => About {
                asked_by: None,
                by: Some(token.opened_by),
                method: None,
                tool: None,
                dialect: token.dialect,
                subject: token.name.clone(),
                at: token.opened_at,
                events: vec![token.opened_seq],
            },
            Fact::Stream(stream) => About {
                asked_by: None,
                by: None,
                method: Some(Name::from(stream.method.as_str())),
                tool: None,
                dialect: stream.dialect,
                subject: format!("#{}", stream.carrier),
                at: stream.opened_at,
                events: vec![stream.opened_seq],
            },
            Fact::Slip(slip) => About {
                asked_by: asker_of(slip),
                by: Some(slip.by),
                method: slip.method.clone(),
                tool: slip.tool.clone(),
                dialect: slip.dialect,
                subject: slip.subject.clone(),
                at: slip.at,
                events: slip.also.iter().copied().take(6).chain([slip.seq]).collect(),
            },
        }
    }
}

/// Whose request a slip is about: the other side's where an answer is at fault, nobody's where none is.
fn asker_of(slip: &Slip) -> Option<Side> {
    match slip.kind {
        SlipKind::DuplicateResponse
        | SlipKind::IdTypeMismatch
        | SlipKind::IdPrecisionLoss
        | SlipKind::AnsweredAfterRetry
        | SlipKind::ProgressAfterClose
        | SlipKind::ProgressNotIncreasing
        | SlipKind::MalformedResponse
        | SlipKind::CancelledUnasked
        | SlipKind::TaskIllegalState
        | SlipKind::TaskCancelNotHonoured
        | SlipKind::TaskUnknown
        | SlipKind::TaskNotDeclared
        | SlipKind::InputRequiredNotAllowed
        | SlipKind::StoppedOtherwise
        | SlipKind::StreamAfterFinal => Some(slip.by.other()),
        SlipKind::IdReuseInFlight
        | SlipKind::IdReuseAfterClose
        | SlipKind::IdReuseAfterCancel
        | SlipKind::InvalidId
        | SlipKind::NullId
        | SlipKind::FractionalId
        | SlipKind::ProgressTokenReuse
        | SlipKind::WrongDirection
        | SlipKind::BeforeInitialize
        | SlipKind::AfterShutdown => Some(slip.by),
        SlipKind::ResponseUnknown
        | SlipKind::ProgressUnknown
        | SlipKind::ReplyToNotification
        | SlipKind::BatchNotAllowed
        | SlipKind::DuplicateKey
        | SlipKind::SubscriptionBeforeAcknowledged
        | SlipKind::SubscriptionUnknown
        | SlipKind::SessionNeverEnded
        | SlipKind::ErrorWithoutId
        | SlipKind::Unreadable
        | SlipKind::Fault => None,
    }
}
