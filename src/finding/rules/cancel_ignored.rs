//! cancel-ignored: work that went on after its cancel.

use crate::exchange::{Fact, Outcome};
use crate::protocol::Dialect;

use super::words::{exchange, requests_were, text};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-ignored",
    title: "work that went on after its cancel",
    severities: "leak where work goes on unanswered; violation in MCP 2026-07-28; suspect in earlier MCP and plain JSON-RPC; info in LSP, ACP and A2A",
    explanation: r#"A result, or progress, came for the request later than the race window after its cancel: the work was not stopped.

MCP: receivers should stop processing and free resources, and may ignore a cancel they cannot honour; 2026-07-28: they must not send anything further for it. Progress after the cancel with no answer at all means that the work runs on and nobody will ever be told: it leaks. LSP and ACP let a receiver ignore `$/` notifications, so there a late ordinary result is only told.

What to do: hand the cancellation through to the work itself (the token, the child process, the query)."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::CancelledIgnored)?;
    if exchange.doubtful {
        return None;
    }
    let dialect = exchange.dialect;
    let runs_on = exchange.answer.is_none();
    let severity = if runs_on {
        Severity::Leak
    } else if dialect.is_modern_mcp() {
        Severity::Violation
    } else if dialect.is_mcp() || dialect == Dialect::Plain {
        Severity::Suspect
    } else {
        Severity::Info
    };
    let fault = if severity == Severity::Info { Blame::Nobody } else { Blame::of(exchange.asked_by.other()) };
    let how = if runs_on { "progress" } else { "result" };
    let charge = Charge::new(severity, fault).with("how", Figure::Text(how.to_string()));
    Some(match (exchange.answer, exchange.cancel) {
        (Some(answer), Some(cancel)) => charge.with("answered after", Figure::Duration(answer.at - cancel.at)),
        _ => charge,
    })
}

fn sentence(finding: &Finding) -> String {
    let how = match (text(finding, "how"), finding.count) {
        ("progress", 1) => "its progress went on and no answer came",
        ("progress", _) => "their progress went on and no answer came",
        (_, 1) => "a result came all the same, too late to have crossed the cancel",
        _ => "results came all the same, too late to have crossed the cancels",
    };
    format!("{} cancelled, but {how}", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x"}
            40ms  -> notifications/cancelled {"requestId":1}
            9s    <- 1 result
                  -> 2 tools/call {"name":"x","_meta":{"progressToken":"t"}}
            10s   -> notifications/cancelled {"requestId":2}
            20s   <- notifications/progress {"progressToken":"t","progress":1}
            30s   <- notifications/progress {"progressToken":"t","progress":2}
            31s   |closed|
                  ! cancel-ignored/leak 2
                  ! cancel-ignored/suspect 1
                  = 1 cancelled-ignored
                  = 2 cancelled-ignored
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","_meta":{"progressToken":7}}
            40ms  -> notifications/cancelled {"requestId":1}
            100ms <- notifications/progress {"progressToken":7,"progress":1}
            900ms <- 1 result
            9s    |closed|
                  = 1 cancelled-raced
            "#,
        );
    }
}
