//! malformed-response: a response with both or neither of result and error.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "malformed-response",
    title: "a response with both or neither of result and error",
    severities: "violation",
    explanation: r#"JSON-RPC 2.0 section 5: a response has either `result` or `error`, exactly one. The request counts as answered; what the client made of it nobody knows."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::MalformedResponse) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} with both or neither of result and error", sender(finding), the_requests(finding))
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
                  <- {"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"x"}}
                  -> 2 work
                  <- {"jsonrpc":"2.0","id":2}
                  ! malformed-response/violation
                  = 1 failed
                  = 2 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol json-rpc
            0ms   -> 1 work
                  <- 1 result null
            "#,
        );
    }
}
