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
