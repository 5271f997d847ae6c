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
