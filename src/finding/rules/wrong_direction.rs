//! wrong-direction: a message that this side must not send.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "wrong-direction",
    title: "a message that this side must not send",
    severities: "violation",
    explanation: r#"In MCP 2026-07-28 only clients send requests, and clients never send responses; in A2A likewise. What the server wants from the client travels in `input_required` answers there."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::WrongDirection) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent what only the other side may send{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   <- 1 sampling/createMessage
                  -> 1 result
                  ! wrong-direction/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   <- 1 sampling/createMessage
                  -> 1 result
            "#,
        );
    }
}
