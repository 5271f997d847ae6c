//! id-precision-loss: an answer whose id lost digits.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, the_requests};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "id-precision-loss",
    title: "an answer whose id lost digits",
    severities: "violation",
    explanation: r#"The answer's id is the nearest double to a longer integer id: it passed through a program that keeps numbers as 64-bit floats (JavaScript, Go's interface{}). JSON-RPC 2.0 section 5: the id must be the same value. Ids beyond 2^53 should not be used where such programs may be on the way."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::IdPrecisionLoss) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered {} under an id that lost digits", sender(finding), the_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol json-rpc
            0ms   -> 9007199254740993 work
            1s    <- 9007199254740992 result
                  ! id-precision-loss/violation
                  = 9007199254740993 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol json-rpc
            0ms   -> 9007199254740993 work
            1s    <- 9007199254740993 result
                  -> 1 work
                  <- 1.0 result
            "#,
        );
    }
}
