//! after-shutdown: a request after shutdown.

use crate::exchange::{Fact, SlipKind};

use super::words::{its_requests, sender};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "after-shutdown",
    title: "a request after shutdown",
    severities: "violation",
    explanation: r#"LSP: after `shutdown` the client sends nothing but `exit`; a server answers later requests with -32600."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::AfterShutdown) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent {} after shutdown", sender(finding), its_requests(finding))
}
