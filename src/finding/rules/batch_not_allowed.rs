//! batch-not-allowed: a batch where the protocol has none.

use crate::exchange::{Fact, SlipKind};
use crate::protocol::Batches;

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "batch-not-allowed",
    title: "a batch where the protocol has none",
    severities: "violation; suspect where the version does not say",
    explanation: r#"An array of messages came. Plain JSON-RPC, MCP 2025-03-26 and ACP v2 have batches; MCP 2025-06-18 took them out again, LSP and ACP v1 never had them, MCP 2024-11-05 does not mention them. Receivers without batches drop the whole array: none of its requests is ever answered."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::BatchNotAllowed) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = match slip.dialect.batches() {
        Batches::Allowed => return None,
        Batches::Undefined => Severity::Suspect,
        Batches::Forbidden => Severity::Violation,
    };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent a batch, which this protocol does not have{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-06-18
            0ms   -> [{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]
                  <- 1 result
                  <- 2 result
                  ! batch-not-allowed/violation
                  = 2 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-03-26
            0ms   -> [{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]
                  <- [{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]
                  = 1 answered
                  = 2 answered
            "#,
        );
    }
}
