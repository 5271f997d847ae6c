//! progress-after-close: progress for something that is over.

use crate::exchange::{Fact, SlipKind};
use crate::protocol::Dialect;

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "progress-after-close",
    title: "progress for something that is over",
    severities: "violation",
    explanation: r#"Progress came for a request that had been answered, or on a token that had ended. MCP (utilities/progress): notifications must stop after completion. LSP: a token from a request is only valid until its response. It is also a sign that work goes on behind an answer."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ProgressAfterClose) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    if slip.dialect.is_acp() || slip.dialect == Dialect::Plain {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent progress for {} after the answer", sender(finding), the_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","_meta":{"progressToken":1}}
            1s    <- 1 result
            2s    <- notifications/progress {"progressToken":1,"progress":5}
                  ! progress-after-close/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // The token of a task lives on after the answer.
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","task":{},"_meta":{"progressToken":1}}
            1s    <- 1 result {"task":{"taskId":"a","status":"working","ttl":1000}}
            2s    <- notifications/progress {"progressToken":1,"progress":5}
                  <- notifications/tasks/status {"taskId":"a","status":"failed"}
            "#,
        );
    }
}
