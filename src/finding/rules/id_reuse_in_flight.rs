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
    fn what_a_resumed_stream_delivers_again_is_no_second_request() {
        let ask = |carrier: u64| format!("#{carrier} |stream event e1|\n #{carrier} <- 1 sampling/createMessage\n");
        let progress = |carrier: u64| {
            format!(
                "#{carrier} |stream event e2|\n\
                 #{carrier} <- notifications/progress {{\"progressToken\":7,\"progress\":1}}\n"
            )
        };
        let answer = |carrier: u64| {
            format!(
                "#{carrier} |opened POST /mcp Mcp-Session-Id: a|\n #{carrier} -> 1 result\n #{carrier} |head 202|\n\
                 #{carrier} |closed by server|\n"
            )
        };
        let first = format!(
            "protocol mcp-2025-06-18\n0ms #9 |opened POST /mcp Mcp-Session-Id: a|\n\
             #9 -> 5 tools/call {{\"name\":\"x\",\"_meta\":{{\"progressToken\":7}}}}\n #9 |head 200|\n #9 |streaming|\n\
             #1 |opened GET /mcp Mcp-Session-Id: a|\n #1 |head 200|\n #1 |streaming|\n{}{}",
            ask(1),
            progress(1)
        );
        let again = format!(
            "#1 |torn by server|\n 1s #2 |opened GET /mcp Mcp-Session-Id: a|\n #2 |head 200|\n #2 |resumes e0|\n{}{}",
            ask(2),
            progress(2)
        );
        let done = "#9 <- 5 result\n #9 |closed by server|\n = server 1 answered";
        check(&format!("{first}{again}{}{done}", answer(3)));
        // Answered before, and once more.
        check(&format!("{first}{}{again}{}{done}", answer(3), answer(4)));
        // A new event is a new request.
        let new = again.replace("event e1", "event e8");
        check(&format!("{first}{new}{}{}{done}\n ! id-reuse-in-flight/violation 1", answer(3), answer(4)));
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
