//! cancel-unknown: a cancel of a request nobody sent.

use crate::exchange::{CancelTarget, Fact};
use crate::protocol::Dialect;

use super::words::{cancel, sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-unknown",
    title: "a cancel of a request nobody sent",
    severities: "violation in MCP; suspect in LSP and ACP; info in plain JSON-RPC",
    explanation: r#"The cancel names an id that its sender never used for a request in this recording. MCP (utilities/cancellation): a cancel must only reference requests issued before in the same direction. Where the recording began late or has a gap, nothing is said.

What to do: look for an id that is cancelled as another kind than it was sent (`"7"` for `7`), or for a cancel that outlived a reconnect."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::Unknown)?;
    if cancel.doubtful {
        return None;
    }
    let severity = if cancel.dialect.is_mcp() {
        Severity::Violation
    } else if cancel.dialect == Dialect::Plain {
        Severity::Info
    } else {
        Severity::Suspect
    };
    Some(Charge::new(severity, Blame::of(cancel.sent_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled an id it never sent a request under{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> notifications/cancelled {"requestId":77}
                  ! cancel-unknown/violation 77
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // The request may be from before the recording, or in its gap.
            begins late
            protocol mcp-2025-11-25
            0ms   -> notifications/cancelled {"requestId":77}
                  -> 100 ping
                  <- 100 result
                  |lost 3|
                  -> notifications/cancelled {"requestId":300}
            "#,
        );
    }
}
