//! duplicate-response: a second answer to the same request.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "duplicate-response",
    title: "a second answer to the same request",
    severities: "violation",
    explanation: r#"A request was answered twice. JSON-RPC 2.0 section 5 knows one response per request. Streaming methods of A2A answer many times under one id, and an event stream that is resumed may deliver an answer again: neither is meant here. Some clients drop the connection on it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::DuplicateResponse) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} twice", sender(finding), the_requests(finding))
}
