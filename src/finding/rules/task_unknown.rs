//! task-unknown: a task its own receiver does not know.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-unknown",
    title: "a task its own receiver does not know",
    severities: "violation",
    explanation: r#"A task that had just been handed out was not found when it was asked for. The tasks extension: it must be durably created before its answer is sent."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::TaskUnknown) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} did not know a task it had handed out{}", sender(finding), times(finding))
}
