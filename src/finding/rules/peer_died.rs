//! peer-died: a request whose receiver died.

use crate::exchange::{Cause, Fact, Outcome};

use super::words::{exchange, peer, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "peer-died",
    title: "a request whose receiver died",
    severities: "suspect; info in MCP 2026-07-28",
    explanation: r#"The receiver ended (closed its stream, exited, reset the connection) while the request was open, and before the asker had closed. The request cannot be answered any more. Over HTTP it may also be that nobody was there: where the connection to the server could not be made at all, the finding says that it could not be reached, and names nobody.

What to do: look at the exit status and the last lines of stderr just before (`rpctap show`)."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::PeerDied)?;
    let severity = if exchange.dialect.is_modern_mcp() { Severity::Info } else { Severity::Suspect };
    // A wrong address or a network in between says nothing of the one who should have been there.
    let unreachable = exchange.cause == Cause::PeerUnreachable;
    let fault = if unreachable { Blame::Undetermined } else { Blame::of(exchange.asked_by.other()) };
    Some(Charge::new(severity, fault))
}

fn sentence(finding: &Finding) -> String {
    if finding.fault == Blame::Undetermined {
        return format!("{} not delivered: {} could not be reached", requests_were(finding), peer(finding));
    }
    format!("{} open when {} died", requests_were(finding), peer(finding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
            50ms  |exit 139|
                  ! peer-died/suspect 1
                  = 1 peer-died
            "#,
        );
    }

    #[test]
    fn over_http_a_torn_response_is_a_death_whatever_its_type() {
        let ask = "0ms #1 |opened POST /mcp|\n #1 -> 1 tools/call {\"name\":\"x\"}";
        let ends = [
            "50ms #1 |torn by server|",
            "50ms #1 |head 200|\n #1 |torn by server|",
            "50ms #1 |head 200|\n #1 |streaming|\n #1 |torn by server|",
            // What the tap says in its place is not the server's answer.
            "50ms #1 |head 502|\n #1 |torn by server|",
        ];
        let next = "9s #2 |opened POST /mcp|\n #2 -> 2 ping\n #2 |head 200|\n #2 <- 2 result\n #2 |closed by server|";
        for end in ends {
            for protocol in ["json-rpc", "mcp-2025-06-18"] {
                let talk = format!("protocol {protocol}\n{ask}\n{end}\n{next}");
                check(&format!("{talk}\n ! peer-died/suspect 1\n = 1 peer-died"));
            }
            let talk = format!("protocol mcp-2026-07-28\n{ask}\n{end}\n{next}");
            check(&format!("{talk}\n ! peer-died/info 1\n = 1 peer-died"));
        }
        // A refusal of the server's own, and a torn stream that is taken up again.
        check(&format!("protocol mcp-2025-06-18\n{ask}\n 50ms #1 |head 502|\n #1 |closed by server|\n = 1 failed"));
        let resumed = "1s #3 |opened GET /mcp|\n #3 |resumes e1|\n #3 <- 1 result\n = 1 answered";
        check(&format!("protocol mcp-2025-06-18\n{ask}\n{}\n{resumed}", ends[2]));
    }

    #[test]
    fn a_server_that_was_not_there_did_not_die() {
        let ask = |carrier: u64| {
            format!(
                "#{carrier} |opened POST /mcp|\n #{carrier} -> 0 initialize {{\"protocolVersion\":\"2025-06-18\"}}\n"
            )
        };
        let text =
            format!("{}#1 |head 502|\n #1 |unreached by server|\n ! peer-died/suspect 0\n = 0 peer-died\n", ask(1));
        check(&text);
        let talk = crate::event::transcript::parse(&text).expect("a conversation");
        let (judged, _) = crate::finding::judge_talk(&talk, &crate::finding::Options::default());
        assert!(judged.findings[0].sentence().ends_with("was not delivered: the server could not be reached"));
        assert_eq!(judged.findings[0].fault, Blame::Undetermined);
        // What did not get through is sent again under its id.
        check(&format!("{text}9s {}#2 |head 200|\n #2 <- 0 result\n #2 |closed by server|\n = 0 answered", ask(2)));
    }

    #[test]
    fn a_client_that_goes_because_of_it_is_not_to_blame() {
        check(
            r#"
            protocol mcp-2025-06-18
            0s    #1 |opened POST /mcp Mcp-Session-Id: a|
                  #1 -> 1 tools/call {"name":"x"}
                  #2 |opened POST /mcp Mcp-Session-Id: a|
                  #2 -> 2 tools/call {"name":"x"}
            2s    #2 |head 502|
                  #2 |torn by server|
            +8ms  #1 |closed by client|
                  ! peer-died/suspect 2 1
                  = 1 peer-died
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Told to go by a signal made for that: nobody died on anybody.
            protocol lsp
            0ms   -> 1 textDocument/hover
            50ms  |killed 15|
                  ! lost-in-shutdown 1
            "#,
        );
    }

    #[test]
    fn the_leave_may_be_in_what_is_missing() {
        check("protocol lsp\n 0s -> 1 a\n 1s |lost 1 from client|\n 2s |server closed|\n = 1 in-flight");
    }
}
