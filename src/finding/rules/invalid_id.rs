//! invalid-id: an id that is none.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "invalid-id",
    title: "an id that is none",
    severities: "violation",
    explanation: r#"The id is `true`, an object or an array. JSON-RPC 2.0: an id is a string, a number or null. It cannot be paired."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::InvalidId) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} used something that is no id as an id{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol json-rpc
            0ms   -> {"jsonrpc":"2.0","id":{"a":1},"method":"work"}
            1s    <- null error {"code":-32600,"message":"invalid request"}
            2s    |closed|
                  ! invalid-id/violation
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol json-rpc
            0ms   -> "" work
                  <- "" result
                  -> 0 work
                  <- 0 result null
            "#,
        );
    }
}
