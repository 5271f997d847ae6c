//! cancel-wrong-direction: a cancel of the other side's request.

use crate::exchange::{CancelTarget, Fact};

use super::words::{cancel, sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-wrong-direction",
    title: "a cancel of the other side's request",
    severities: "violation in MCP; suspect elsewhere",
    explanation: r#"The cancel names an id under which the *other* side has a request open. Each side may cancel only what it asked itself (MCP: the same direction). Receivers that keep one table for both directions cancel the wrong request on it.

In MCP 2026-07-28 a server may name a `subscriptions/listen` of the client: that is an orderly end and not meant here."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::WrongDirection)?;
    if cancel.doubtful {
        return None;
    }
    let severity = if cancel.dialect.is_mcp() { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(cancel.sent_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled a request of the other side{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   <- 5 sampling/createMessage
            1s    -> notifications/cancelled {"requestId":5}
            2s    -> 5 result
                  ! cancel-wrong-direction/violation 5
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // The same id both ways: each cancels its own. And a server may end a subscription this way.
            protocol mcp-2026-07-28
            0ms   -> 5 subscriptions/listen
            1s    <- notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":5}}
            60s   <- notifications/cancelled {"requestId":5}
                  = 5 answered
            "#,
        );
    }
}
