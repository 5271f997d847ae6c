//! stream-left-open: an HTTP stream that stays open with nothing owed on it.

use crate::exchange::{Fact, StreamEnd};

use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stream-left-open",
    title: "an HTTP stream that stays open with nothing owed on it",
    severities: "leak",
    explanation: r#"The request that opened this HTTP response was cancelled (or answered), and the response was never ended: the connection stays, on both sides. Seen in servers that drop the result of a cancelled call and forget the stream it would have ended (MCP before 2026-07-28).

What to do: end the response when its request is settled, whatever settled it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Stream(stream) = fact else { return None };
    if stream.end != StreamEnd::LeftOpen {
        return None;
    }
    Some(Charge::new(Severity::Leak, Blame::Server))
}

fn sentence(finding: &Finding) -> String {
    let them =
        if finding.count == 1 { "an HTTP response".to_string() } else { format!("{} HTTP responses", finding.count) };
    format!("the server left {them} open after the request was settled")
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-06-18
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
                  #1 |head 200|
                  #1 |streaming|
            1s    #2 |opened POST /mcp|
                  #2 -> notifications/cancelled {"requestId":1}
                  #2 |head 202|
                  #2 |closed by server|
            60s   #3 |opened POST /mcp|
                  #3 -> 2 ping
                  #3 <- 2 result
                  #3 |closed by server|
                  ! stream-left-open/leak #1
                  = 1 cancelled-silent
            "#,
        );
    }

    #[test]
    fn it_fires_also_where_the_client_or_the_session_ends_it() {
        let talk = r#"
            protocol mcp-2025-06-18
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
                  #1 |head 200|
                  #1 |streaming|
            1s    #2 |opened POST /mcp|
                  #2 -> notifications/cancelled {"requestId":1}
                  #2 |head 202|
                  #2 |closed by server|
        "#;
        let ends = [
            "60s #1 |closed by client|",
            "60s |session ended by client|\n #1 |closed by server|",
            "60s #3 |opened DELETE /mcp|\n #1 |closed by server|\n #3 |head 200|\n |session ended by client|",
        ];
        for end in ends {
            check(&format!("{talk}\n{end}\n ! stream-left-open/leak #1\n = 1 cancelled-silent"));
        }
        // Ended by the server, if late; or by the client before the server could.
        for end in ["60s #1 |closed by server|", "1500ms #1 |closed by client|"] {
            check(&format!("{talk}\n{end}\n = 1 cancelled-silent"));
        }
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-06-18
            0ms   #1 |opened GET /mcp|
                  #1 |head 200|
                  #1 |streaming|
            1s    #2 |opened POST /mcp|
                  #2 -> 1 ping
                  #2 <- 1 result
                  #2 |closed by server|
            1h    #3 |opened POST /mcp|
                  #3 -> 2 ping
                  #3 <- 2 result
                  #3 |closed by server|
            "#,
        );
    }
}
