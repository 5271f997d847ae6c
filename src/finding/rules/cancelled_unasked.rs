//! cancelled-unasked: an answer that says cancelled when nobody cancelled.

use crate::exchange::{Fact, SlipKind};
use crate::protocol::Dialect;

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancelled-unasked",
    title: "an answer that says cancelled when nobody cancelled",
    severities: "suspect in LSP and BSP; info in MCP",
    explanation: r#"The error -32800 (request cancelled) came for a request that nobody had cancelled. LSP has -32801, -32802 and -32803 for what the server itself decides. ACP allows it for internal cancels; MCP does not define the code."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::CancelledUnasked) {
        return None;
    }
    // Without payloads nobody can see what a cancel cancels.
    if slip.doubtful || !ground.knows.payload {
        return None;
    }
    let severity = match slip.dialect {
        Dialect::Lsp | Dialect::Bsp => Severity::Suspect,
        dialect if dialect.is_mcp() => Severity::Info,
        _ => return None,
    };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} with \"cancelled\" though nobody had cancelled", sender(finding), the_requests(finding))
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
                  <- 1 error {"code":-32800,"message":"cancelled"}
                  ! cancelled-unasked/suspect 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
                  <- 1 error {"code":-32801,"message":"content modified"}
            "#,
        );
    }

    #[test]
    fn a_log_without_payloads_does_not_show_what_was_cancelled() {
        check(
            r#"
            knows no payload
            protocol lsp
            0ms   -> 1 textDocument/hover
                  -> $/cancelRequest
                  <- 1 error {"code":-32800,"message":"cancelled"}
            "#,
        );
    }
}
