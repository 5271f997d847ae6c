//! overdue-request: a request that is open for longer than its deadline.

use crate::exchange::{Fact, Outcome};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "overdue-request",
    title: "a request that is open for longer than its deadline",
    severities: "suspect",
    explanation: r#"The request is open past its deadline (`--deadline`) in a session that lives. It may still be answered. Methods that may stay open as long as they like (subscriptions, prompts to a person, long polls) have no deadline.

What to do: raise the deadline if the work is known to take long; otherwise look at what the receiver waits for."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::Overdue)?;
    let charge = Charge::new(Severity::Suspect, Blame::Undetermined);
    Some(charge.with("cause", Figure::Text(exchange.cause.name().to_string())))
}

fn sentence(finding: &Finding) -> String {
    format!("{} open past the deadline and neither answered nor cancelled", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
            31s   -> textDocument/didChange
                  ! overdue-request/suspect 1
                  = 1 overdue
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // What waits for a person has no deadline.
            protocol lsp
            0ms   <- 1 window/showMessageRequest
            300s  -> textDocument/didChange
                  = server 1 in-flight
            "#,
        );
    }
}
