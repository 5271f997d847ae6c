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

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            0ms   -> 1 tools/list {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
                  <- 1 result {"resultType":"input_required","requestState":"s"}
                  ! input-required-not-allowed/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            0ms   -> 1 tools/call {"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
                  <- 1 result {"resultType":"input_required","requestState":"s"}
                  -> 2 tools/call {"name":"x","requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
                  <- 2 result {"resultType":"complete"}
                  = 1 input-required
                  = 2 answered
            "#,
        );
    }
}
