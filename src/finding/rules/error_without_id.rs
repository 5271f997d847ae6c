//! error-without-id: an error that names no request.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "error-without-id",
    title: "an error that names no request",
    severities: "info",
    explanation: r#"An error response without an id (or with null) says that something could not be read. It belongs to the nearest unreadable or invalid message before it, and may explain a request that was never answered."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ErrorWithoutId) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Info, Blame::Undetermined))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent an error that names no request{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol json-rpc
            0ms   -> 1 work
            1s    <- null error {"code":-32600,"message":"invalid request"}
            2s    <- 1 result
                  ! error-without-id/info
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // It answers the broken message just before.
            protocol json-rpc
            0ms   -> raw {"jsonrpc":"2.0","method"
                  <- null error {"code":-32700,"message":"parse error"}
                  ! unreadable-message
            "#,
        );
    }
}
