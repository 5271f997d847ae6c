//! task-stuck: a task that is polled and never moves.

use crate::exchange::{Fact, TaskEnd};

use super::words::{task, tasks_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-stuck",
    title: "a task that is polled and never moves",
    severities: "suspect",
    explanation: r#"The task is looked after, and is still not final long after its time to live. The receiver should have cleaned it up, or finished it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let task = task(fact, TaskEnd::Stuck)?;
    if task.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Suspect, Blame::of(task.asked_by.other())))
}

fn sentence(finding: &Finding) -> String {
    format!("{} still not finished long after the time to live", tasks_were(finding))
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
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":5000,"pollInterval":1000}}
            60s   -> 2 tasks/get {"taskId":"a"}
                  <- 2 result {"taskId":"a","status":"working"}
                  ! task-stuck/suspect
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{"ttl":null}}
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":50000,"pollInterval":1000}}
            2s    -> 2 tasks/get {"taskId":"a"}
                  <- 2 result {"taskId":"a","status":"working"}
            "#,
        );
    }
}
