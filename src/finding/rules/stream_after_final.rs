//! stream-after-final: a stream that goes on after its final event.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stream-after-final",
    title: "a stream that goes on after its final event",
    severities: "violation",
    explanation: r#"A2A: a stream must close at a final state (0.3 marks the last event with `final: true`). What comes after it nobody expects."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::StreamAfterFinal) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} went on streaming {} after the final event", sender(finding), the_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol a2a-0.3
            0ms   -> 1 message/stream {"message":{"role":"user"}}
            1s    <- 1 result {"kind":"status-update","taskId":"t","status":{"state":"completed"},"final":true}
            2s    <- 1 result {"kind":"artifact-update","taskId":"t"}
                  ! stream-after-final/violation 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol a2a-0.3
            0ms   -> 1 message/stream {"message":{"role":"user"}}
            1s    <- 1 result {"kind":"artifact-update","taskId":"t"}
            2s    <- 1 result {"kind":"status-update","taskId":"t","status":{"state":"completed"},"final":true}
                  = 1 became-task
            "#,
        );
    }
}
