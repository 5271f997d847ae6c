//! task-not-declared: a task for a client that never said it takes tasks.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-not-declared",
    title: "a task for a client that never said it takes tasks",
    severities: "violation",
    explanation: r#"The tasks extension of MCP 2026-07-28: a server may answer with a task only when the request declared the capability. A client that does not know tasks takes the answer for a result and never looks after the task."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::TaskNotDeclared) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} with a task the client had not declared to take", sender(finding), the_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            0ms   -> 1 tools/call {"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
            10ms  <- 1 result {"resultType":"task","taskId":"a","status":"working","ttlMs":600000}
                  ! task-not-declared/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            0ms   -> 1 tools/call {"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}
            10ms  <- 1 result {"resultType":"task","taskId":"a","status":"working","ttlMs":600000}
                  = 1 became-task
            "#,
        );
    }
}
