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
    fn a_client_that_goes_closes_everything_at_once() {
        let talk = r#"
            protocol mcp-2025-11-25
            0s    #1 |opened GET /mcp Mcp-Session-Id: a|
                  #1 |streaming|
                  #2 |opened POST /mcp Mcp-Session-Id: a|
                  #2 -> 1 tools/call {"name":"slow"}
                  #3 |opened POST /mcp Mcp-Session-Id: a|
                  #3 -> 2 tools/call {"name":"slower"}
            5s    #2 |closed by client|
                  #3 |closed by client|
        "#;
        check(&format!("{talk}\n #1 |closed by client|\n ! lost-in-shutdown/info 1\n ! lost-in-shutdown/info 2"));
        // It is still there: its stream is open, or it asks on.
        let given_up = "! abandoned-request 1\n ! abandoned-request 2";
        check(&format!("{talk}\n{given_up}"));
        let next = "6s #4 |opened POST /mcp Mcp-Session-Id: a|\n #4 -> 3 ping\n #4 <- 3 result\n #4 |closed by server|";
        check(&format!("{talk}\n #1 |closed by client|\n{next}\n{given_up}"));
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
