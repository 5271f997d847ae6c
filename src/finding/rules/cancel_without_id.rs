//! cancel-without-id: a cancel that names nothing.

use crate::exchange::{CancelTarget, Fact};
use crate::protocol::Dialect;

use super::words::{cancel, sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-without-id",
    title: "a cancel that names nothing",
    severities: "violation; suspect in MCP 2025-11-25",
    explanation: r#"The cancel has no id, or one that can be no id (an object, an array, true). It can have no effect. In MCP 2025-11-25 the schema made `requestId` optional, because tasks are cancelled otherwise; a cancel without it still ends nothing."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::Nothing)?;
    if cancel.doubtful {
        return None;
    }
    let severity = match cancel.dialect {
        Dialect::Mcp20251125 | Dialect::Mcp | Dialect::Plain => Severity::Suspect,
        _ => Severity::Violation,
    };
    Some(Charge::new(severity, Blame::of(cancel.sent_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent a cancel that names no request{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-06-18
            0ms   -> 1 tools/call {"name":"x"}
            1s    -> notifications/cancelled {"reason":"x"}
            2s    -> notifications/cancelled {"requestId":{"a":1}}
            3s    <- 1 result
                  ! cancel-without-id/violation
                  = 1 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // A recording without params cannot tell.
            protocol mcp-2025-06-18
            knows no payload
            0ms   -> 1 tools/call
            1s    -> notifications/cancelled
            2s    <- 1 result
            "#,
        );
    }
}
