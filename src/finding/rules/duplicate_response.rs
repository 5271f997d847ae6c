//! duplicate-response: a second answer to the same request.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "duplicate-response",
    title: "a second answer to the same request",
    severities: "violation",
    explanation: r#"A request was answered twice. JSON-RPC 2.0 section 5 knows one response per request. Streaming methods of A2A answer many times under one id, and an event stream that is resumed may deliver an answer again: neither is meant here. Some clients drop the connection on it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::DuplicateResponse) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} twice", sender(finding), the_requests(finding))
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
            1s    <- 1 result
            2s    <- 1 result
                  ! duplicate-response/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Delivered again on a stream that takes up a broken one; and streaming methods of A2A answer many times.
            protocol mcp-2025-11-25
            0ms   #1 |opened POST /mcp|
                  #1 -> 1 tools/call {"name":"x"}
                  #1 |streaming|
                  #1 <- 1 result
                  #1 |closed by client|
            1s    #2 |opened GET /mcp|
                  #2 |resumes e1|
                  #2 <- 1 result
            "#,
        );
    }

    #[test]
    fn an_a2a_stream_answers_many_times() {
        check(
            r#"
            protocol a2a-0.3
            0ms   #1 |opened POST /|
                  #1 -> 1 message/stream {"message":{"role":"user"}}
            1s    #1 <- 1 result {"kind":"task","id":"t","status":{"state":"working"}}
            2s    #1 <- 1 result {"kind":"artifact-update","taskId":"t"}
            3s    #1 <- 1 result {"kind":"status-update","taskId":"t","status":{"state":"completed"},"final":true}
                  #1 |closed by server|
                  = 1 became-task
            "#,
        );
    }
}
