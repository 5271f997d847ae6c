//! orphaned-request: a request that was never answered.

use crate::exchange::{Cause, Fact, Outcome};

use super::words::{exchange, peer, requests_were, text};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "orphaned-request",
    title: "a request that was never answered",
    severities: "leak; suspect in a recording without times",
    explanation: r#"A request was sent, never cancelled and never answered, and the session ended in order after its deadline.

JSON-RPC 2.0 section 5: every call but a notification must be replied to. LSP and ACP say the same; MCP lifts the duty only after a cancel, and here was none. Whatever the receiver holds for this request (a task, a connection, a lock) it may hold still.

In a recording without times the deadline cannot be told: that others asked later were answered is all there is to go by, and it is suspect only.

Who is at fault the wire alone does not tell. It is the receiver where it stopped answering everything else too; it may be the asker where it gave up without saying so (then look for abandoned-request beside this).

What to do: find the call by its id in `rpctap show`, look whether the receiver still works on it, and make the asker send a cancel when it gives up."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::Orphaned)?;
    // A body that ended without the answer has a rule of its own, which can name the culprit.
    if exchange.doubtful || exchange.cause == Cause::CarrierEnded {
        return None;
    }
    let fault = match exchange.cause {
        Cause::PeerSilent => Blame::of(exchange.asked_by.other()),
        _ => Blame::Undetermined,
    };
    let cause = Figure::Text(exchange.cause.name().to_string());
    if !ground.knows.times {
        let charge = Charge::new(Severity::Suspect, fault).with("cause", cause);
        return Some(charge.with("times", Figure::Text("unknown".to_string())));
    }
    Some(Charge::new(Severity::Leak, fault).with("cause", cause))
}

fn sentence(finding: &Finding) -> String {
    let why = match text(finding, "cause") {
        "peer-alive" => format!("while {} went on answering others", peer(finding)),
        "peer-silent" => format!("and {} answered nothing else either", peer(finding)),
        "blocked" => format!("while {} itself waited for an answer to a request of its own", peer(finding)),
        "session-ended" => "before the session ended".to_string(),
        _ => "until the session ended".to_string(),
    };
    let times = match text(finding, "times") {
        "" => "",
        _ => "; without times it cannot be told whether it was given time",
    };
    format!("{} never answered and never cancelled, {why}{times}", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"hang"}
            40s   -> 2 ping
            +5ms  <- 2 result
            41s   |closed|
                  ! orphaned-request/leak 1
                  = 1 orphaned
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // A recording that just stops proves nothing.
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"hang"}
            5s    -> 2 ping
            +5ms  <- 2 result
                  = 1 in-flight
            "#,
        );
    }

    #[test]
    fn without_times_it_is_told_and_not_proven() {
        check(
            r#"
            protocol mcp-2025-11-25
            knows no times
            0ms   -> 1 tools/call {"name":"hang"}
                  -> 2 tools/list
                  <- 2 result
                  |closed|
                  ! orphaned-request/suspect 1
                  = 1 orphaned
            "#,
        );
    }
}
