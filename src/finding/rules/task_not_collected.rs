//! task-not-collected: a finished task whose result was never fetched.

use crate::exchange::{Fact, TaskEnd};

use super::words::{task, tasks_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-not-collected",
    title: "a finished task whose result was never fetched",
    severities: "suspect",
    explanation: r#"The task reached a final state and its result was never asked for. In MCP 2025-11-25 the result comes only through `tasks/result`; until its time to live is over the receiver keeps it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let task = task(fact, TaskEnd::NeverCollected)?;
    if task.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Suspect, Blame::of(task.asked_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} finished, and the result never fetched", tasks_were(finding))
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
                  <- 2 result {"taskId":"a","status":"completed"}
            3m    |closed|
                  ! task-not-collected/suspect
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{"ttl":null}}
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":60000,"pollInterval":1000}}
            1s    -> 2 tasks/get {"taskId":"a"}
                  <- 2 result {"taskId":"a","status":"completed"}
            2s    -> 3 tasks/result {"taskId":"a"}
                  <- 3 result
            3m    |closed|
            "#,
        );
    }
}
