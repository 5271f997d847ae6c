//! task-illegal-state: a task that left a final state or began in a wrong one.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-illegal-state",
    title: "a task that left a final state or began in a wrong one",
    severities: "violation",
    explanation: r#"MCP: a task starts as `working` and never leaves `completed`, `failed` or `cancelled`. A2A: final states are final."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::TaskIllegalState) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} moved a task out of a final state, or began it in a wrong one{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{"ttl":null}}
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":null,"pollInterval":1000}}
            1s    <- notifications/tasks/status {"taskId":"a","status":"cancelled"}
            2s    <- notifications/tasks/status {"taskId":"a","status":"working"}
                  ! task-illegal-state/violation
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{"ttl":null}}
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":null,"pollInterval":1000}}
            1s    <- notifications/tasks/status {"taskId":"a","status":"input_required"}
            2s    <- notifications/tasks/status {"taskId":"a","status":"working"}
            3s    <- notifications/tasks/status {"taskId":"a","status":"failed"}
            "#,
        );
    }
}
