//! abandoned-request: a request the asker gave up without saying so.

use crate::exchange::{Fact, Outcome, Sign};
use crate::protocol::Dialect;

use super::words::{asker, duration, exchange, ms, peer, requests_were};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "abandoned-request",
    title: "a request the asker gave up without saying so",
    severities: "leak in MCP, and elsewhere past the deadline; suspect before it, where the client only went on, and in a recording without times",
    explanation: r#"The asker visibly moved on: it sent the same call again under a new id, or gave up one request after another after the same time, and never sent a cancel. The request was never answered.

MCP 2025-03-26 and later: a sender that times out should send `notifications/cancelled` (lifecycle, timeouts; 2026-07-28: patterns/cancellation, and over HTTP it closes the stream). 2024-11-05 asks only for timeouts. The receiver cannot know that nobody waits any more: each such call leaves its task, and whatever that holds, behind.

What to do: make the client send the protocol's cancel when it gives up, on its own timeout and on its caller's. Known offenders are clients that drop a future or raise locally."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::Abandoned)?;
    let moved = exchange.moved_on?;
    let over = exchange.end.is_some();
    let (severity, fault) = if exchange.doubtful {
        (Severity::Suspect, Blame::Undetermined)
    } else if !ground.knows.times {
        // Asked again after a wait and asked twice at once look the same.
        (Severity::Suspect, Blame::Undetermined)
    } else if moved.sign == Sign::WentOn {
        // That a client which waits for each answer went on is a sign, not a proof.
        (Severity::Suspect, Blame::Undetermined)
    } else if exchange.dialect == Dialect::Mcp20241105 {
        // This version asks for timeouts, and does not say that a cancel must follow.
        (Severity::Leak, Blame::Undetermined)
    } else if exchange.dialect.is_mcp() {
        (Severity::Leak, Blame::of(exchange.asked_by))
    } else if over && exchange.waited >= ground.deadline {
        // Elsewhere a reply was owed all the same, so that silence is not the asker's fault alone.
        (Severity::Leak, Blame::Undetermined)
    } else {
        (Severity::Suspect, Blame::Undetermined)
    };
    let charge = Charge::new(severity, fault).with("sign", Figure::Text(moved.sign.name().to_string()));
    Some(match moved.sign {
        Sign::WentOn => charge,
        _ if !ground.knows.times => charge,
        _ => charge.with("gives up after", Figure::Duration(moved.after)),
    })
}

fn sentence(finding: &Finding) -> String {
    let habit = match duration(finding, "gives up after") {
        Some(after) => {
            format!("; {} seems to give up after {} without telling {}", asker(finding), ms(after), peer(finding))
        }
        None => String::new(),
    };
    format!("{} given up without a cancel and never answered{habit}", requests_were(finding))
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
            +5ms  <- 1 result
            100ms -> 2 tools/call {"name":"hang"}
            200ms -> 3 tools/call {"name":"hang"}
            300ms -> 4 tools/call {"name":"hang"}
            400ms -> 5 tools/list
            +5ms  <- 5 result
            1s    |closed|
                  ! abandoned-request/leak 2 3 4
                  = 4 abandoned
            "#,
        );
    }

    #[test]
    fn the_cancel_may_be_in_what_is_missing() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/list
            +5ms  <- 1 result
            100ms -> 2 tools/call {"name":"hang"}
            200ms -> 3 tools/call {"name":"hang"}
            300ms -> 4 tools/call {"name":"hang"}
            350ms |lost 1 from client|
            400ms -> 5 tools/list
            +5ms  <- 5 result
            1s    |closed|
                  = 4 in-flight
            "#,
        );
    }

    #[test]
    fn a_log_without_times_does_not_say_after_how_long() {
        let text = r#"
            protocol mcp-2025-11-25
            knows no times
            0ms   -> 1 tools/call {"name":"hang"}
                  -> 2 tools/call {"name":"hang"}
                  -> 3 tools/call {"name":"hang"}
                  -> 4 tools/list
                  <- 4 result
                  |closed|
            "#;
        let talk = crate::event::transcript::parse(text).expect("a conversation");
        let (judged, _) = crate::finding::judge_talk(&talk, &crate::finding::Options::default());
        let told = judged.findings.iter().find(|finding| finding.rule.name == "abandoned-request").expect("found");
        assert!(!told.sentence().contains("give up after"), "{}", told.sentence());
        // Three at once look the same.
        assert_eq!(told.severity, crate::finding::Severity::Suspect);
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // The same pace with cancels is in order; calls beside each other are no retries.
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"hang"}
            100ms -> notifications/cancelled {"requestId":1}
                  -> 2 tools/call {"name":"hang"}
            200ms -> notifications/cancelled {"requestId":2}
                  -> 3 tools/call {"name":"fast"}
            201ms -> 4 tools/call {"name":"fast"}
            400ms <- 3 result
            410ms <- 4 result
            2s    |closed|
            "#,
        );
    }
}
