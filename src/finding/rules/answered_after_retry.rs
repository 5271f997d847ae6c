//! answered-after-retry: an answer to a request the client had already tried again.

use crate::exchange::{Fact, SlipKind};

use super::words::requests_were;
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "answered-after-retry",
    title: "an answer to a request the client had already tried again",
    severities: "suspect in MCP; info elsewhere",
    explanation: r#"The client sent the same call again without cancelling the first, and the first was answered after all: the server did the work twice. In MCP the client should have cancelled what it gave up."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::AnsweredAfterRetry) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = if slip.dialect.is_mcp() { Severity::Suspect } else { Severity::Info };
    Some(Charge::new(severity, Blame::of(slip.by.other())))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered after the client had tried again without a cancel", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/list
                  <- 1 result
            1s    -> 2 tools/list
                  <- 2 result
            10s   -> 3 tools/call {"name":"slow"}
            15s   -> 4 tools/call {"name":"slow"}
            17s   <- 3 result
            20s   <- 4 result
                  ! answered-after-retry/suspect 3
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Sent beside each other.
            protocol mcp-2025-11-25
            0ms   -> 3 tools/call {"name":"slow"}
                  -> 4 tools/call {"name":"slow"}
            17s   <- 3 result
                  <- 4 result
            "#,
        );
    }
}
