//! cancel-forbidden: a cancel of something that must not be cancelled this way.

use crate::exchange::{CancelTarget, Fact};

use super::words::{cancel, its_requests, sender};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-forbidden",
    title: "a cancel of something that must not be cancelled this way",
    severities: "violation; info over HTTP in MCP 2026-07-28",
    explanation: r#"MCP before 2026-07-28: `initialize` must not be cancelled. 2025-11-25 and the tasks extension: a request that became a task is cancelled with `tasks/cancel`, never with `notifications/cancelled`. 2026-07-28: a server may only cancel a subscription, and over HTTP a client cancels by closing the response, not by a message.

What to do: let `initialize` run into the client's own timeout and end the connection; use `tasks/cancel` for tasks."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::Forbidden)?;
    let severity = if cancel.dialect.is_modern_mcp() && ground.http { Severity::Info } else { Severity::Violation };
    Some(Charge::new(severity, Blame::of(cancel.sent_by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled {}, which must not be cancelled this way", sender(finding), its_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            0ms   -> 1 initialize {"protocolVersion":"2025-06-18","capabilities":{}}
            10s   -> notifications/cancelled {"requestId":1}
                  ! cancel-forbidden/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            0ms   -> 1 initialize {"protocolVersion":"2025-06-18","capabilities":{}}
            1s    <- 1 result {"protocolVersion":"2025-06-18"}
                  -> notifications/initialized
                  -> 2 tools/call {"name":"x"}
            10s   -> notifications/cancelled {"requestId":2}
            "#,
        );
    }

    #[test]
    fn over_http_the_response_is_closed_instead() {
        let call = |carrier: u64| {
            format!(
                "#{carrier} |opened POST /mcp|\n #{carrier} -> 3 tools/call {{\"name\":\"x\"}}\n #{carrier} |streaming|\n"
            )
        };
        let cancel = "1s #9 |opened POST /mcp|\n #9 -> notifications/cancelled {\"requestId\":3}\n #9 |head 202|\n\
                      #9 |closed by server|\n ! cancel-forbidden/info 3";
        check(&format!("protocol mcp-2026-07-28\n{}{cancel}", call(1)));
        // Which of two it means cannot be told.
        check(&format!("protocol mcp-2026-07-28\n{}{}{cancel}", call(1), call(2)));
    }

    #[test]
    fn a_task_is_cancelled_by_its_own_method() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{"ttl":60000}}
            10ms  <- 1 result {"task":{"taskId":"a","status":"working","ttl":60000}}
            20ms  -> notifications/cancelled {"requestId":1}
                  ! cancel-forbidden/violation 1
                  = 1 became-task
            "#,
        );
    }
}
