//! id-reused: an id used again in the same session.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "id-reused",
    title: "an id used again in the same session",
    severities: "violation in MCP 2024-11-05 to 2025-11-25; suspect for a silently cancelled id in 2026-07-28",
    explanation: r#"MCP before 2026-07-28: an id must not have been used before by the requestor in the same session. 2026-07-28 allows it once the response was received; the id of a request that was cancelled in silence never gets one, so by the letter it stays taken. A request that HTTP itself refused (401, 429, 503 and the like) or redirected was taken by no server, and may be sent again as it was."#,
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
    fn what_http_refused_may_be_sent_again() {
        let ask = |carrier: u64, status: u16| {
            format!(
                "+1s #{carrier} |opened POST /mcp Mcp-Session-Id: a|\n #{carrier} -> 7 tools/call {{\"name\":\"x\"}}\n\
                 #{carrier} |head {status}|\n"
            )
        };
        let over = |carrier: u64| format!("#{carrier} |closed by server|\n");
        for status in [401, 429, 503] {
            // With no body, with one that says why, and before the body is over.
            let bodies = ["", "#1 <- null error", "#1 <- \"server-error\" error"];
            for body in bodies {
                let talk = format!("{}{body}\n{}{}#2 <- 7 result\n{}", ask(1, status), over(1), ask(2, 200), over(2));
                check(&format!("protocol mcp-2025-06-18\n{talk} = 7 failed\n = 7 answered"));
            }
            let talk = format!("{}{}#2 <- 7 result\n{}{}", ask(1, status), ask(2, 200), over(2), over(1));
            check(&format!("protocol mcp-2025-06-18\n{talk} = 7 failed\n = 7 answered"));
        }
        let taken = format!("{}#1 <- 7 result\n{}{}#2 <- 7 result\n{}", ask(1, 200), over(1), ask(2, 200), over(2));
        check(&format!("protocol mcp-2025-06-18\n{taken} ! id-reused/violation 7"));
    }

    #[test]
    fn a_handshake_that_http_refused_begins_again() {
        let ask = |carrier: u64, status: u16| {
            format!(
                "+1s #{carrier} |opened POST /mcp|\n #{carrier} -> 0 initialize {{\"protocolVersion\":\"2025-06-18\"}}\n\
                 #{carrier} |head {status}|\n"
            )
        };
        check(&format!(
            "{}#1 |closed by server|\n{}#2 <- 0 result {{\"protocolVersion\":\"2025-06-18\"}}\n#2 |closed by server|\n\
             #3 |opened POST /mcp Mcp-Session-Id: a|\n#3 -> 1 tools/list\n#3 <- 1 result\n#3 |closed by server|",
            ask(1, 401),
            ask(2, 200)
        ));
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
