//! reply-to-notification: an answer to a notification.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "reply-to-notification",
    title: "an answer to a notification",
    severities: "violation",
    explanation: r#"A message without an id was answered. JSON-RPC 2.0 section 4.1: the server must not reply to a notification."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ReplyToNotification) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered a notification{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> notifications/roots/list_changed
                  <- null error {"code":-32601,"message":"method not found"}
                  ! reply-to-notification/violation
            "#,
        );
    }

    #[test]
    fn over_http_it_is_the_answer_on_the_same_exchange() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   #1 |opened POST /mcp|
                  #1 -> notifications/initialized
                  #1 |head 200|
                  #1 <- null error {"code":-32601,"message":"method not found"}
                  ! reply-to-notification/violation
            "#,
        );
        check(
            r#"
            // No stream is offered, and a notification is refused: both by HTTP.
            protocol mcp-2025-11-25
            0ms   #1 |opened POST /mcp|
                  #1 -> notifications/initialized
                  #2 |opened GET /mcp|
                  #2 |head 405|
                  #2 <- null error {"code":-32000,"message":"Method not allowed."}
                  #2 |closed by server|
                  #1 |head 400|
                  #1 <- null error {"code":-32000,"message":"Bad Request"}
                  #1 |closed by server|
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // About a message that could not be read.
            protocol json-rpc
            0ms   -> raw {"jsonrpc":"2.0","method":
                  <- null error {"code":-32700,"message":"parse error"}
                  ! unreadable-message
            "#,
        );
    }
}
