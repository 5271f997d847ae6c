//! stream-ended-unanswered: an HTTP response that ended without the answer it owed.

use crate::exchange::{Cause, Fact, Outcome};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stream-ended-unanswered",
    title: "an HTTP response that ended without the answer it owed",
    severities: "violation in MCP 2026-07-28; leak elsewhere",
    explanation: r#"The request was posted, and the body of its HTTP response (an event stream, or a plain body) ended without the JSON-RPC response in it. MCP's Streamable HTTP: the stream should (2025-03-26 to 2025-11-25) or must (2026-07-28: one POST, one answer) carry it. In the versions with resumption the answer could have come on a later GET with Last-Event-ID; none did. 202 is for notifications and responses: a request that gets nothing else has no answer either. (The older HTTP+SSE transport accepts every request with 202 and answers on its stream; that is in order.)

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
    fn a_redirect_is_no_end() {
        let ask = |carrier: u64, path: &str, what: &str| {
            format!("#{carrier} |opened POST {path} Mcp-Session-Id: a|\n #{carrier} -> {what}\n")
        };
        let initialize = r#"0 initialize {"protocolVersion":"2025-11-25","capabilities":{}}"#;
        let call = r#"1 tools/call {"name":"x","_meta":{"progressToken":1}}"#;
        let mut talk = String::from("0ms |note a client without the slash at the end|\n");
        for (carrier, what) in [(1, initialize), (3, call)] {
            talk += &ask(carrier, "/mcp", what);
            talk += &format!("+1ms #{carrier} |head 307|\n #{carrier} |closed by server|\n");
            talk += &ask(carrier + 1, "/mcp/", what);
            talk += &format!("+1ms #{0} |head 200|\n #{0} <- {1} result\n", carrier + 1, &what[..1]);
            talk += &format!("#{} |closed by server|\n", carrier + 1);
        }
        check(&format!("{talk} = 0 answered\n = 1 answered"));
        let parsed = crate::event::transcript::parse(&talk).expect("a conversation");
        let (judged, _) = crate::finding::judge_talk(&parsed, &crate::finding::Options::default());
        assert_eq!(judged.requests(), 2, "a request that was sent on is one");
        // Nobody follows: the redirect is all the answer there is.
        let lone =
            format!("protocol mcp-2025-11-25\n0ms {} +1ms #1 |head 308|\n #1 |closed by server|", ask(1, "/mcp", call));
        check(&format!("{lone}\n 9s #2 |opened DELETE /mcp|\n #2 |head 200|\n |session ended by client|\n = 1 failed"));
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
    fn accepted_is_no_answer_where_the_answer_comes_in_place() {
        let ask =
            "5ms #1 |opened POST /mcp|\n #1 -> 1 tools/call {\"name\":\"x\"}\n #1 |head 202|\n #1 |closed by server|";
        let next = "1s #2 |opened POST /mcp|\n #2 -> 2 ping\n #2 |head 200|\n #2 <- 2 result\n #2 |closed by server|";
        for (version, severity) in [("2025-03-26", "leak"), ("2025-11-25", "leak"), ("2026-07-28", "violation")] {
            let talk = format!("protocol mcp-{version}\n{ask}\n{next}");
            check(&format!("{talk}\n ! stream-ended-unanswered/{severity} 1\n = 1 orphaned"));
        }
        // The older transport, whatever the version on it; a stream that is taken up; a recording that began late.
        let stream = "0ms #9 |opened GET /sse|\n #9 |streaming|";
        check(&format!("protocol mcp-2025-06-18\n{stream}\n{ask}\n{next}\n = 1 in-flight"));
        let resumed = "2s #3 |opened GET /mcp|\n #3 |resumes e1|\n #3 <- 1 result\n = 1 answered";
        check(&format!("protocol mcp-2025-06-18\n{ask}\n{next}\n{resumed}"));
        let aside = "2s #3 |opened GET /mcp|\n #3 |streaming|\n #3 <- 1 result\n = 1 answered";
        check(&format!("protocol mcp-2025-06-18\n{ask}\n{next}\n{aside}"));
        check(&format!("protocol mcp-2025-06-18\nbegins late\n{ask}\n{next}\n = 1 in-flight"));
        check(&format!("protocol json-rpc\n{ask}\n{next}\n = 1 in-flight"));
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
