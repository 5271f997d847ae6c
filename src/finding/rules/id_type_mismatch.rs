//! id-type-mismatch: an answer whose id is of another kind.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "id-type-mismatch",
    title: "an answer whose id is of another kind",
    severities: "violation",
    explanation: r#"The answer's id matches only if kinds are mixed up: `"7"` for `7`. JSON-RPC 2.0 section 5: it must be the same value. Many SDKs coerce and never notice; others (and other languages) do not, and wait for ever."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::IdTypeMismatch) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} under an id of another kind", sender(finding), the_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 7 tools/call {"name":"x"}
            1s    <- "7" result
                  ! id-type-mismatch/violation
                  = 7 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 7 tools/call {"name":"x"}
                  -> "7" tools/call {"name":"y"}
            1s    <- "7" result
                  <- 7 result
            "#,
        );
    }
}
