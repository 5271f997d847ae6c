//! stream-ended-unanswered: an HTTP response that ended without the answer it owed.

use crate::exchange::{Cause, Fact, Outcome};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stream-ended-unanswered",
    title: "an HTTP response that ended without the answer it owed",
    severities: "violation in MCP 2026-07-28; leak elsewhere",
    explanation: r#"The request was posted, and the body of its HTTP response (an event stream, or a plain body) ended without the JSON-RPC response in it. MCP's Streamable HTTP: the stream should (2025-03-26 to 2025-11-25) or must (2026-07-28: one POST, one answer) carry it. In the versions with resumption the answer could have come on a later GET with Last-Event-ID; none did.

What to do: look at the server (or a proxy between) that ends the body; a POST answered 200 with nothing in it is the same fault."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::Orphaned)?;
    if exchange.cause != Cause::CarrierEnded || exchange.doubtful {
        return None;
    }
    // Up to 2025-11-25 a stream may end and be taken up again; only that nothing came is certain.
    let severity = if exchange.dialect.is_modern_mcp() { Severity::Violation } else { Severity::Leak };
    let by_server = exchange.ended_by_server == Some(true);
    let fault = if by_server { Blame::of(exchange.asked_by.other()) } else { Blame::Undetermined };
    Some(Charge::new(severity, fault))
}

fn sentence(finding: &Finding) -> String {
    format!("{} posted, and the HTTP response ended without the answer", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
            10ms  #1 |head 200|
            20ms  #1 |closed by server|
                  ! stream-ended-unanswered/violation 1
                  = 1 orphaned
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Accepted: the answer comes on another stream. Refused by HTTP: that is the answer.
            protocol mcp-2024-11-05
            0ms   #1 |opened GET /sse|
                  #1 |streaming|
            5ms   #2 |opened POST /messages|
                  #2 -> 1 tools/call {"name":"x"}
            10ms  #2 |head 202|
                  #2 |closed by server|
            20ms  #1 <- 1 result
            30ms  #3 |opened POST /messages|
                  #3 -> 2 tools/call {"name":"x"}
            40ms  #3 |head 401|
                  #3 |closed by server|
                  = 1 answered
                  = 2 failed
            "#,
        );
    }

    #[test]
    fn a_client_that_goes_on_does_not_take_the_blame() {
        let talk = r#"
            protocol mcp-2025-06-18
            0ms   #1 |opened POST /mcp Mcp-Session-Id: a|
                  #1 -> 1 tools/call {"name":"x"}
                  #1 |head 200|
                  #1 |closed by server|
            300ms #2 |opened POST /mcp Mcp-Session-Id: a|
                  #2 -> 2 ping
                  #2 |head 200|
                  #2 <- 2 result
                  #2 |closed by server|
            1.3s  #3 |opened POST /mcp Mcp-Session-Id: a|
                  #3 -> 3 ping
                  #3 |head 200|
                  #3 <- 3 result
                  #3 |closed by server|
        "#;
        let leave = "3s #4 |opened DELETE /mcp Mcp-Session-Id: a|\n #4 |head 200|\n |session ended by client|";
        for rest in ["", leave] {
            check(&format!("{talk}\n{rest}\n ! stream-ended-unanswered/leak 1\n = 1 orphaned"));
        }
    }

    #[test]
    fn what_ends_with_the_session_is_silent() {
        check(
            r#"
            // Closed before the DELETE is answered, and because of it.
            protocol mcp-2025-11-25
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
                  #1 |streaming|
            500ms #2 |opened DELETE /mcp|
                  #1 |closed by server|
                  #2 |head 200|
                  |session ended by client|
                  ! lost-in-shutdown 1
            "#,
        );
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
            10ms  #1 |head 200|
                  #1 |streaming|
            500ms #2 |opened DELETE /mcp|
                  #2 |head 200|
                  |session ended by client|
            510ms #1 |closed by server|
                  ! lost-in-shutdown 1
            "#,
        );
    }
}
