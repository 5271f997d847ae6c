//! id-reuse-in-flight: an id used again while its request was open.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "id-reuse-in-flight",
    title: "an id used again while its request was open",
    severities: "violation in MCP; suspect elsewhere",
    explanation: r#"A new request was sent under an id whose request was still open. Nobody can tell which of the two an answer belongs to; some servers answer only the first, some both, some none. MCP forbids it in every version."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::IdReuseInFlight) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = if slip.dialect.is_mcp() { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} used an id again while its request was still open{}", sender(finding), times(finding))
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
            1s    -> 1 tools/call {"name":"y"}
            2s    <- 1 result
                  <- 1 result
                  ! id-reuse-in-flight/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Clients of 2026-07-28 know no session: on two connections one id is two.
            protocol mcp-2026-07-28
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
                  #2 |opened POST /mcp|
                  #2 -> 1 tools/call {"name":"y"}
            1s    #2 <- 1 result
                  #1 <- 1 result
            "#,
        );
    }
}
