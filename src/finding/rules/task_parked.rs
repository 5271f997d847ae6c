//! task-parked: a task that waits for input nobody sends.

use crate::exchange::{Fact, TaskEnd};

use super::words::{task, tasks_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-parked",
    title: "a task that waits for input nobody sends",
    severities: "suspect",
    explanation: r#"The task asked for input (`input_required`) and the requestor never gave any: no `tasks/update`, and in MCP 2025-11-25 no open `tasks/result`. It waits, and holds what it holds."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let task = task(fact, TaskEnd::Parked)?;
    if task.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Suspect, Blame::of(task.asked_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} waiting for input that never came", tasks_were(finding))
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
            1s    <- notifications/tasks/status {"taskId":"a","status":"input_required"}
            60s   -> 2 ping
                  <- 2 result
                  ! task-parked/suspect
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
            2s    <- notifications/tasks/status {"taskId":"a","status":"cancelled"}
            60s   |closed|
            "#,
        );
    }
}
