//! task-unknown: a task its own receiver does not know.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-unknown",
    title: "a task its own receiver does not know",
    severities: "violation",
    explanation: r#"A task that had just been handed out was not found when it was asked for. The tasks extension: it must be durably created before its answer is sent."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::TaskUnknown) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} did not know a task it had handed out{}", sender(finding), times(finding))
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
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":60000,"pollInterval":1000}}
            1s    -> 2 tasks/get {"taskId":"a"}
                  <- 2 error {"code":-32602,"message":"no such task"}
                  ! task-unknown/violation
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Its time to live was over.
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{"ttl":null}}
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":1000,"pollInterval":1000}}
            1s    <- notifications/tasks/status {"taskId":"a","status":"failed"}
            9s    -> 2 tasks/get {"taskId":"a"}
                  <- 2 error {"code":-32602,"message":"no such task"}
            "#,
        );
    }
}
