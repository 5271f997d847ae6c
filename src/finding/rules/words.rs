//! What the rules share: which fact they look at, and how a sentence about one or many reads.

use crate::event::{Micros, Side};
use crate::exchange::{Cancel, CancelTarget, Exchange, Fact, Outcome, Task, TaskEnd};
use crate::finding::{Figure, Finding};

pub fn exchange(fact: &Fact, outcome: Outcome) -> Option<&Exchange> {
    match fact {
        Fact::Exchange(exchange) if exchange.outcome == outcome => Some(exchange),
        _ => None,
    }
}

pub fn cancel(fact: &Fact, target: CancelTarget) -> Option<&Cancel> {
    match fact {
        Fact::Cancel(cancel) if cancel.target == target => Some(cancel),
        _ => None,
    }
}

pub fn task(fact: &Fact, end: TaskEnd) -> Option<&Task> {
    match fact {
        Fact::Task(task) if task.end == end => Some(task),
        _ => None,
    }
}

/// `50 requests of the client (tools/call slow) were`, `the client's request 7 (tools/call slow) was`.
pub fn requests_were(finding: &Finding) -> String {
    let verb = if finding.count == 1 { "was" } else { "were" };
    format!("{} {verb}", named(finding, asker(finding)))
}

/// `3 tasks of the client (tools/call slow) were`.
pub fn tasks_were(finding: &Finding) -> String {
    let called = called(finding);
    if finding.count == 1 {
        return format!("task {} of {}{called} was", finding.subject(), asker(finding));
    }
    format!("{} tasks of {}{called} were", finding.count, asker(finding))
}

/// The requests a finding is about, where its `asked_by` is the one who asked.
pub fn its_requests(finding: &Finding) -> String {
    named(finding, asker(finding))
}

/// The same, for what the answering side did.
pub fn the_requests(finding: &Finding) -> String {
    let called = called(finding);
    if finding.count == 1 {
        return format!("request {}{called}", finding.subject());
    }
    format!("{} requests{called}", finding.count)
}

fn named(finding: &Finding, of: &str) -> String {
    let called = called(finding);
    if finding.count == 1 {
        return format!("request {} of {of}{called}", finding.subject());
    }
    format!("{} requests of {of}{called}", finding.count)
}

fn called(finding: &Finding) -> String {
    match (&finding.method, &finding.tool) {
        (Some(method), Some(tool)) => format!(" ({method} {tool})"),
        (Some(method), None) if !method.is_empty() => format!(" ({method})"),
        _ => String::new(),
    }
}

/// `the client` or `the server`: who did it, or who asked.
pub fn asker(finding: &Finding) -> &'static str {
    side(finding.asked_by.unwrap_or(Side::Client))
}

pub fn peer(finding: &Finding) -> &'static str {
    side(finding.asked_by.unwrap_or(Side::Client).other())
}

/// Who did what an irregularity is about.
pub fn sender(finding: &Finding) -> &'static str {
    match finding.by {
        Some(by) => side(by),
        None => asker(finding),
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "the client",
        Side::Server => "the server",
    }
}

/// `` or `, 12 times` with the first of the subjects.
pub fn times(finding: &Finding) -> String {
    match (finding.count, finding.subject()) {
        (1, "") => String::new(),
        (1, subject) => format!(" ({subject})"),
        (count, "") => format!(", {count} times"),
        (count, subject) => format!(", {count} times (first: {subject})"),
    }
}

pub fn text<'a>(finding: &'a Finding, name: &str) -> &'a str {
    finding
        .figures
        .iter()
        .find_map(|(known, figure)| match figure {
            Figure::Text(text) if *known == name => Some(text.as_str()),
            _ => None,
        })
        .unwrap_or("")
}

pub fn duration(finding: &Finding, name: &str) -> Option<Micros> {
    finding.figures.iter().find_map(|(known, figure)| match figure {
        Figure::Duration(duration) if *known == name => Some(*duration),
        _ => None,
    })
}

/// A duration as people say it: `100 ms`, `2.5 s`.
pub fn ms(duration: Micros) -> String {
    let micros = duration as f64;
    match duration {
        _ if duration < 10_000 => format!("{:.1} ms", micros / 1e3),
        _ if duration < 1_000_000 => format!("{:.0} ms", micros / 1e3),
        _ if duration < 60_000_000 => format!("{:.1} s", micros / 1e6),
        _ => format!("{:.1} min", micros / 60e6),
    }
}
