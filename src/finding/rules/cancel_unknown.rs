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
