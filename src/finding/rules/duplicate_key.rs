//! duplicate-key: a message with the same key twice.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "duplicate-key",
    title: "a message with the same key twice",
    severities: "suspect",
    explanation: r#"A key of the envelope stands twice in one object. JSON leaves open which counts, and parsers differ: the two sides may have seen different messages. rpctap takes the last."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::DuplicateKey) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Suspect, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent a message with the same key twice{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol json-rpc
            0ms   -> {"jsonrpc":"2.0","id":1,"id":2,"method":"work"}
                  <- 2 result
                  ! duplicate-key/suspect
                  = 2 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol json-rpc
            0ms   -> {"jsonrpc":"2.0","id":1,"method":"work","params":{"id":2}}
                  <- 1 result
            "#,
        );
    }
}
