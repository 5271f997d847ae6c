//! cancel-answered: a cancelled request that was answered though silence is asked for.

use crate::exchange::{CancelPolicy, Fact, Outcome};
use crate::protocol::Owes;

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-answered",
    title: "a cancelled request that was answered though silence is asked for",
    severities: "suspect in MCP (info over HTTP); violation in MCP 2026-07-28",
    explanation: r#"The request was cancelled, and an error came back for it: code 0 "Request cancelled" from the Python SDK 1.x, -32800, "context canceled" from the Go SDK.

MCP (utilities/cancellation): receivers should not send a response for a cancelled request; the sender should ignore one that comes. 2026-07-28 (transports): servers must not send any further message for it. Some clients drop the connection when an answer to a settled id arrives. Over HTTP in the versions before 2026-07-28 the error at least ends the stream, so there it is only told.

An answer within the race window that does not look like the answer to a cancel is never blamed: it may have crossed the cancel. Nothing leaked."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::CancelledAcknowledged)?;
    let waited = exchange.answer?.at - exchange.cancel?.at;
    // These codes are given to cancels and to nothing else: no race explains them.
    let about_the_cancel = matches!(exchange.error_code, Some(0 | -32800));
    if !about_the_cancel && waited <= ground.race_window {
        return None;
    }
    let severity = match (ground.policy, exchange.dialect.owes_after_cancel()) {
        (CancelPolicy::Reply, _) | (CancelPolicy::Spec, Owes::Reply) => return None,
        (_, Owes::StrictSilence) if waited > ground.race_window => Severity::Violation,
        (CancelPolicy::Silence, _) => Severity::Violation,
        (CancelPolicy::Spec, _) if ground.http => Severity::Info,
        (CancelPolicy::Spec, _) => Severity::Suspect,
    };
    Some(Charge::new(severity, Blame::of(exchange.asked_by.other())).with("answered after", Figure::Duration(waited)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled and then answered with an error, which the protocol asks not to send", requests_were(finding))
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
            50ms  <- 1 error {"code":0,"message":"Request cancelled"}
            2s    |closed|
                  ! cancel-answered/suspect 1
                  = 1 cancelled-acknowledged
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // In LSP the error is owed; in MCP an error that may have crossed the cancel is nobody's fault.
            protocol lsp
            0ms   -> 1 textDocument/hover
            40ms  -> $/cancelRequest {"id":1}
            3s    <- 1 error {"code":-32800,"message":"cancelled"}
                  = 1 cancelled-acknowledged
            "#,
        );
    }

    #[test]
    fn modern_mcp_forbids_it_outside_the_race_window() {
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   -> 1 tools/call {"name":"x"}
            40ms  -> notifications/cancelled {"requestId":1}
            5s    <- 1 error {"code":-32603,"message":"stopped"}
                  ! cancel-answered/violation 1
            "#,
        );
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   -> 1 tools/call {"name":"x"}
            40ms  -> notifications/cancelled {"requestId":1}
            900ms <- 1 error {"code":-32603,"message":"stopped"}
            "#,
        );
    }
}
