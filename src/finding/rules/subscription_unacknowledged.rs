//! subscription-unacknowledged: news of a subscription before its acknowledgement, or of one nobody has.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "subscription-unacknowledged",
    title: "news of a subscription before its acknowledgement, or of one nobody has",
    severities: "violation",
    explanation: r#"MCP 2026-07-28: the first message of `subscriptions/listen` is `notifications/subscriptions/acknowledged`, and every later one carries the id of an open subscription, in the same kind it was sent."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::SubscriptionBeforeAcknowledged | SlipKind::SubscriptionUnknown) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!(
        "{} sent news of a subscription that was not acknowledged or does not exist{}",
        sender(finding),
        times(finding)
    )
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   -> 1 subscriptions/listen
            1s    <- notifications/tools/list_changed {"_meta":{"io.modelcontextprotocol/subscriptionId":1}}
                  ! subscription-unacknowledged/violation
                  = 1 open-stream
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2026-07-28
            0ms   -> 1 subscriptions/listen
            1s    <- notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":1}}
            1h    <- notifications/tools/list_changed {"_meta":{"io.modelcontextprotocol/subscriptionId":1}}
                  = 1 open-stream
            "#,
        );
    }
}
