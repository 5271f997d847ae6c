//! cancel-duplicate: a request that was cancelled more than once.

use crate::exchange::{CancelTarget, Fact};

use super::words::{cancel, its_requests, sender};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-duplicate",
    title: "a request that was cancelled more than once",
    severities: "info",
    explanation: r#"A second cancel named a request that had been cancelled already. Receivers ignore it. Often both a timeout and its caller send one."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::Duplicate)?;
    if cancel.dialect.is_a2a() {
        return None;
    }
    Some(Charge::new(Severity::Info, Blame::of(cancel.sent_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled {} more than once", sender(finding), its_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x"}
            1s    -> notifications/cancelled {"requestId":1}
            2s    -> notifications/cancelled {"requestId":1}
                  ! cancel-duplicate/info 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x"}
            1s    -> notifications/cancelled {"requestId":1}
                  -> 2 tools/call {"name":"x"}
            2s    -> notifications/cancelled {"requestId":2}
            "#,
        );
    }
}
