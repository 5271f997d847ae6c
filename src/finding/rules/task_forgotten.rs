//! task-forgotten: a task nobody looks after any more.

use crate::exchange::{Fact, TaskEnd};

use super::words::{task, tasks_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-forgotten",
    title: "a task nobody looks after any more",
    severities: "leak where it has no time to live; else suspect",
    explanation: r#"The answer was a task whose last known state is not final, and since then nobody polled it, waited for its result, subscribed to it or cancelled it. The work (and its record) stays with the receiver: for ever where the task has no time to live (MCP: `ttl` null), until then where it has one.

MCP 2025-11-25 (utilities/tasks): requestors should poll until a final state. A2A: the task lives on independently of any stream, so a dropped stream ends nothing.

What to do: poll to the end, or send `tasks/cancel` (`CancelTask`) when the result is not wanted any more."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let task = task(fact, TaskEnd::Forgotten)?;
    if task.doubtful {
        return None;
    }
    let for_ever = task.ttl_ms.is_none() && task.dialect.is_mcp();
    let severity = if for_ever { Severity::Leak } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(task.asked_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} started and then forgotten: not finished, not polled, not cancelled", tasks_were(finding))
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
            5m    -> 2 ping
                  <- 2 result
                  ! task-forgotten/leak
                  = 1 became-task
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
            1s    -> 2 tasks/result {"taskId":"a"}
            5m    <- 2 result
            6m    |closed|
            "#,
        );
    }
}
