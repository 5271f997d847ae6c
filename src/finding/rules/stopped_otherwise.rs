//! stopped-otherwise: a cancelled prompt that stopped for another reason.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stopped-otherwise",
    title: "a cancelled prompt that stopped for another reason",
    severities: "violation",
    explanation: r#"ACP v1: after `session/cancel` the agent must answer the pending `session/prompt` with the stop reason `cancelled`; an error or another reason instead is a fault. The client cannot tell a cancelled turn from a finished one."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::StoppedOtherwise) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} ended a cancelled prompt with another stop reason than cancelled{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol acp-1
            0ms   -> 1 session/prompt {"sessionId":"s"}
            1s    -> session/cancel {"sessionId":"s"}
            9s    <- 1 result {"stopReason":"end_turn"}
                  ! stopped-otherwise/violation 1
                  ! cancel-ignored/info 1
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol acp-1
            0ms   -> 1 session/prompt {"sessionId":"s"}
            1s    -> session/cancel {"sessionId":"s"}
                  <- session/update {"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}
            9s    <- 1 result {"stopReason":"cancelled"}
                  = 1 cancelled-acknowledged
            "#,
        );
    }
}
