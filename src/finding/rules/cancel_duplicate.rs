//! cancel-duplicate: a request that was cancelled more than once.

use crate::exchange::{CancelTarget, Fact};

use super::words::{cancel, its_requests, sender};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-duplicate",
    title: "a request that was cancelled more than once",
    severities: "info",
    explanation: r#"A second cancel named a request that had been cancelled already. Receivers ignore it. Often both a timeout and its caller send one."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::Duplicate)?;
    if cancel.dialect.is_a2a() {
        return None;
    }
    Some(Charge::new(Severity::Info, Blame::of(cancel.sent_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled {} more than once", sender(finding), its_requests(finding))
}
