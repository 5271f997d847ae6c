//! progress-token-reuse: one progress token for two open requests.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "progress-token-reuse",
    title: "one progress token for two open requests",
    severities: "violation in MCP; suspect in LSP",
    explanation: r#"Two requests in progress carry the same progress token. MCP: tokens must be unique across active requests. Their progress cannot be told apart."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ProgressTokenReuse) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = if slip.dialect.is_mcp() { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} gave one progress token to two open requests{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","_meta":{"progressToken":"t"}}
                  -> 2 tools/call {"name":"y","_meta":{"progressToken":"t"}}
            1s    <- 1 result
                  <- 2 result
                  ! progress-token-reuse/violation
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","_meta":{"progressToken":"t"}}
                  <- 1 result
                  -> 2 tools/call {"name":"y","_meta":{"progressToken":"t"}}
                  <- 2 result
            "#,
        );
    }
}
