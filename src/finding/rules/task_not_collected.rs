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
