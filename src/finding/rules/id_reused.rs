//! id-reused: an id used again in the same session.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "id-reused",
    title: "an id used again in the same session",
    severities: "violation in MCP 2024-11-05 to 2025-11-25; suspect for a silently cancelled id in 2026-07-28",
    explanation: r#"MCP before 2026-07-28: an id must not have been used before by the requestor in the same session. 2026-07-28 allows it once the response was received; the id of a request that was cancelled in silence never gets one, so by the letter it stays taken."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::IdReuseAfterClose | SlipKind::IdReuseAfterCancel) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = match slip.kind {
        SlipKind::IdReuseAfterClose if slip.dialect.ids_are_used_up() => Severity::Violation,
        SlipKind::IdReuseAfterCancel if slip.dialect.ids_are_used_up() => Severity::Violation,
        SlipKind::IdReuseAfterCancel if slip.dialect.is_modern_mcp() => Severity::Suspect,
        _ => return None,
    };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} used an id again in the same session{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/list
                  <- 1 result
            1s    -> 1 tools/list
                  <- 1 result
                  ! id-reused/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
                  <- 1 result null
            1s    -> 1 textDocument/hover
                  <- 1 result null
            "#,
        );
    }

    #[test]
    fn modern_mcp_allows_it_once_answered() {
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   -> 1 tools/list
                  <- 1 result
            1s    -> 1 tools/list
                  <- 1 result
            2s    -> 2 tools/list
            3s    -> notifications/cancelled {"requestId":2}
            9s    -> 2 tools/list
                  <- 2 result
                  ! id-reused/suspect 2
            "#,
        );
    }
}
