//! task-cancel-ignored: a cancelled task (or turn) that ran on.

use crate::exchange::{Fact, SlipKind, TaskEnd};
use crate::protocol::Dialect;

use super::words::{task, tasks_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "task-cancel-ignored",
    title: "a cancelled task (or turn) that ran on",
    severities: "violation in MCP 2025-11-25 and ACP; else suspect",
    explanation: r#"The task was cancelled and did not stop. MCP 2025-11-25: it must be `cancelled` before the answer to `tasks/cancel`, and stay so. The tasks extension and A2A only promise best effort: there it is suspect after a while. ACP v2: after `session/cancel` the agent must report `idle` with the stop reason `cancelled`.

What to do: stop the work, and set the state before answering."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let (dialect, by) = match fact {
        Fact::Slip(slip) if slip.kind == SlipKind::TaskCancelNotHonoured && !slip.doubtful => (slip.dialect, slip.by),
        _ => {
            let task = task(fact, TaskEnd::CancelIgnored)?;
            if task.doubtful {
                return None;
            }
            (task.dialect, task.asked_by.other())
        }
    };
    let severity = match dialect {
        Dialect::Mcp20251125 | Dialect::Acp1 | Dialect::Acp2 => Severity::Violation,
        _ => Severity::Suspect,
    };
    Some(Charge::new(severity, Blame::of(by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled and ran on", tasks_were(finding))
}
