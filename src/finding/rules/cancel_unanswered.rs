//! cancel-unanswered: a cancelled request that got no reply though one is owed.

use crate::exchange::{CancelPolicy, Fact, Outcome};
use crate::protocol::{Dialect, Owes};

use super::words::{exchange, requests_were, text};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-unanswered",
    title: "a cancelled request that got no reply though one is owed",
    severities: "leak in LSP, BSP and ACP past the deadline, violation before it, suspect where the session ended at once; violation in plain JSON-RPC; leak by policy in MCP",
    explanation: r#"The request was cancelled, and then nothing came for it.

LSP (cancellation support): a cancelled request still needs to return and send a response back; it cannot be left hanging. BSP inherits that. ACP: a receiver that supports cancelling must answer, with a result or -32800; a cancelled `session/prompt` must be answered with the stop reason `cancelled`. Plain JSON-RPC knows no cancel, so its duty to reply stands.

MCP says the opposite: the receiver should not (2026-07-28: must not) answer. There this rule speaks only under `--cancel-policy reply`, for clients that need a reply to stop waiting.

What to do: make the receiver answer -32800 (LSP, ACP). In MCP make the client settle its own waiter when it sends the cancel."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::CancelledSilent)?;
    if exchange.doubtful {
        return None;
    }
    let peer = Blame::of(exchange.asked_by.other());
    match (ground.policy, exchange.dialect.owes_after_cancel()) {
        (CancelPolicy::Silence, _) | (CancelPolicy::Spec, Owes::Silence | Owes::StrictSilence) => None,
        (_, Owes::Reply) if exchange.dialect == Dialect::Plain => Some(Charge::new(Severity::Violation, peer)),
        // The session was over before the reply could be missed: it may have been on its way.
        (_, Owes::Reply) if exchange.waited <= ground.race_window => Some(Charge::new(Severity::Suspect, peer)),
        (_, Owes::Reply) if exchange.waited < ground.deadline => Some(Charge::new(Severity::Violation, peer)),
        (_, Owes::Reply) => Some(Charge::new(Severity::Leak, peer)),
        (CancelPolicy::Reply, _) => {
            Some(Charge::new(Severity::Leak, Blame::Undetermined).with("policy", Figure::Text("reply".to_string())))
        }
    }
}

fn sentence(finding: &Finding) -> String {
    let by = match text(finding, "policy") {
        "" => String::new(),
        _ => "; the protocol allows that, the policy in force does not".to_string(),
    };
    format!("{} cancelled and never answered{by}", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
            40ms  -> $/cancelRequest {"id":1}
            900ms |closed|
                  ! cancel-unanswered/suspect 1
                  = 1 cancelled-silent
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Silence is what MCP asks for.
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x"}
            40ms  -> notifications/cancelled {"requestId":1}
            90s   |closed|
                  = 1 cancelled-silent
            "#,
        );
    }

    #[test]
    fn the_longer_the_reply_is_missed_the_graver() {
        check(
            r#"
            protocol acp-1
            0ms   -> 1 session/new
            40ms  -> $/cancel_request {"requestId":1}
            10s   |closed|
                  ! cancel-unanswered/violation 1
            "#,
        );
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
            40ms  -> $/cancelRequest {"id":1}
            10m   -> textDocument/didChange
                  ! cancel-unanswered/leak 1
            "#,
        );
        check(
            r#"
            protocol json-rpc
            0ms   -> 1 work
            40ms  -> $/cancelRequest {"id":1}
            10m   |closed|
                  ! cancel-unanswered/violation 1
            "#,
        );
    }
}
