//! error-without-id: an error that names no request.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "error-without-id",
    title: "an error that names no request",
    severities: "info",
    explanation: r#"An error response without an id (or with null) says that something could not be read. It belongs to the nearest unreadable or invalid message before it, and may explain a request that was never answered."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ErrorWithoutId) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Info, Blame::Undetermined))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent an error that names no request{}", sender(finding), times(finding))
}
