//! input-required-not-allowed: input_required where the method does not allow it.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "input-required-not-allowed",
    title: "input_required where the method does not allow it",
    severities: "violation",
    explanation: r#"MCP 2026-07-28 (patterns/mrtr): only `tools/call`, `prompts/get` and `resources/read` may be answered with `input_required`."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::InputRequiredNotAllowed) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!(
        "{} answered {} with input_required, which that method does not allow",
        sender(finding),
        the_requests(finding)
    )
}
