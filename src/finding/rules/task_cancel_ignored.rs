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
            1s    -> 2 tasks/cancel {"taskId":"a"}
                  <- 2 result {"taskId":"a","status":"working"}
                  ! task-cancel-ignored/violation
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
            1s    -> 2 tasks/cancel {"taskId":"a"}
                  <- 2 result {"taskId":"a","status":"cancelled"}
            "#,
        );
    }

    #[test]
    fn in_the_extension_the_answer_is_only_an_acknowledgement() {
        let begin = r#"
            0ms   -> 1 tools/call {"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}
            10ms  <- 1 result {"resultType":"task","taskId":"a","status":"working","ttlMs":600000}
            1s    -> 2 tasks/cancel {"taskId":"a"}
                  <- 2 result {"resultType":"complete"}
        "#;
        check(begin);
        check(&format!(
            "{begin}\n 60s -> 3 tasks/get {{\"taskId\":\"a\"}}\n <- 3 result {{\"taskId\":\"a\",\"status\":\"working\"}}\n ! task-cancel-ignored/suspect"
        ));
    }

    #[test]
    fn a_turn_of_acp_v2_must_go_idle() {
        let begin = r#"
            protocol acp-2
            0ms   -> 1 session/prompt {"sessionId":"s"}
            10ms  <- 1 result
                  <- session/update {"sessionId":"s","update":{"sessionUpdate":"state_update","state":"running"}}
            1s    -> session/cancel {"sessionId":"s"}
        "#;
        check(&format!(
            "{begin}\n 2s <- session/update {{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\"state_update\",\"state\":\"idle\",\"stopReason\":\"cancelled\"}}}}"
        ));
        check(&format!("{begin}\n 60s |closed|\n ! task-cancel-ignored/violation"));
    }
}
