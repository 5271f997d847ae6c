//! null-id: a request with the id null.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "null-id",
    title: "a request with the id null",
    severities: "violation in MCP and A2A streams; suspect elsewhere",
    explanation: r#"A request whose id is `null` is a request, not a notification, but its answer cannot be told from the answer to an unreadable message. JSON-RPC discourages it; MCP forbids it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::NullId) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = if slip.dialect.is_mcp() { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent a request with the id null{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> null tools/list
            1s    <- null result
                  ! null-id/violation null
                  = null answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> notifications/initialized
                  -> 0 tools/list
                  <- 0 result
            "#,
        );
    }
}
