//! lost-in-shutdown: a request that was open when the client closed.

use crate::event::Side;
use crate::exchange::{Fact, Outcome};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "lost-in-shutdown",
    title: "a request that was open when the client closed",
    severities: "info; suspect in LSP and BSP where the client left without `shutdown`",
    explanation: r#"The client closed its end while the request was open and its deadline had not come: the request is lost with the session. MCP 2026-07-28 says so in as many words; elsewhere it is what closing means. Where it happens again and again, the client should cancel first.

Over HTTP also a server may end a session: MCP answers 404 to whatever comes for it. What is open then ends with the session, and that is nobody's fault."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::LostInShutdown)?;
    // LSP has words for going: `shutdown`, then `exit`.
    let rude = exchange.dialect.is_lsp_like() && exchange.asked_by == Side::Client && !ground.took_leave;
    // MCP's 404 for the session ends what is open in it; the client could not know.
    let fault = if exchange.ended_by_server == Some(true) { Blame::Nobody } else { Blame::Client };
    Some(Charge::new(if rude { Severity::Suspect } else { Severity::Info }, fault))
}

fn sentence(finding: &Finding) -> String {
    let by = if finding.fault == Blame::Nobody { "the server ended the session" } else { "the session was closed" };
    format!("{} still open when {by}", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_session_that_the_server_ended_is_not_the_clients_fault() {
        let text = r#"
            protocol mcp-2025-06-18
            0ms   #1 |opened POST /mcp Mcp-Session-Id: a|
                  #1 -> 1 tools/call {"name":"open"}
                  #1 |head 200|
                  #1 |streaming|
            100ms #2 |opened POST /mcp Mcp-Session-Id: a|
                  #2 -> 2 tools/call {"name":"x"}
                  #2 |head 404|
                  |session ended by server|
                  #2 <- "server-error" error {"code":-32600,"message":"Session not found"}
                  #2 |closed by server|
            500ms #1 |torn by server|
                  ! lost-in-shutdown/info 1
                  = 1 lost-in-shutdown
                  = 2 failed
        "#;
        check(text);
        let talk = crate::event::transcript::parse(text).expect("a conversation");
        let (judged, _) = crate::finding::judge_talk(&talk, &crate::finding::Options::default());
        assert_eq!(judged.findings[0].fault, Blame::Nobody);
        assert!(judged.findings[0].sentence().ends_with("when the server ended the session"));
    }

    #[test]
    fn what_a_server_fails_to_end_a_session_is_not_answered() {
        let text = r#"
            protocol mcp-2025-11-25
            0ms   #1 |opened POST /mcp Mcp-Session-Id: a|
                  #1 -> 1 tools/call {"name":"slow"}
                  #2 |opened POST /mcp Mcp-Session-Id: a|
                  #2 -> 2 tools/call {"name":"slower"}
            2s    #3 |opened DELETE /mcp Mcp-Session-Id: a|
                  #1 |head 500|
                  #1 <- "server-error" error {"code":-32603,"message":"Error processing request"}
                  #1 |closed by server|
                  #3 |head 200|
                  |session ended by client|
                  #3 |closed by server|
                  #2 |head 500|
                  #2 <- 2 error {"code":-32603,"message":"Error processing request"}
                  #2 |closed by server|
        "#;
        check(&format!("{text}\n ! lost-in-shutdown/info 1\n ! lost-in-shutdown/info 2"));
        let late = "3s #4 |opened POST /mcp Mcp-Session-Id: a|\n #4 -> 3 ping\n #4 |head 500|\n #4 |closed by server|";
        check(&format!("{text}{late}\n ! lost-in-shutdown 1\n ! lost-in-shutdown 2\n = 3 failed"));
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
