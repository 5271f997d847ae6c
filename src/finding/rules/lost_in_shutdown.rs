//! lost-in-shutdown: a request that was open when the client closed.

use crate::event::Side;
use crate::exchange::{Fact, Outcome};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "lost-in-shutdown",
    title: "a request that was open when the client closed",
    severities: "info; suspect in LSP and BSP where the client left without `shutdown`",
    explanation: r#"The client closed its end while the request was open and its deadline had not come: the request is lost with the session. MCP 2026-07-28 says so in as many words; elsewhere it is what closing means. Where it happens again and again, the client should cancel first."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::LostInShutdown)?;
    // LSP has words for going: `shutdown`, then `exit`.
    let rude = exchange.dialect.is_lsp_like() && exchange.asked_by == Side::Client && !ground.took_leave;
    Some(Charge::new(if rude { Severity::Suspect } else { Severity::Info }, Blame::Client))
}

fn sentence(finding: &Finding) -> String {
    format!("{} still open when the session was closed", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"slow"}
            900ms |closed|
                  ! lost-in-shutdown/info 1
                  = 1 lost-in-shutdown
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"slow"}
            100ms -> notifications/cancelled {"requestId":1}
            900ms |closed|
                  = 1 cancelled-silent
            "#,
        );
    }
}
