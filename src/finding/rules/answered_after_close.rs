//! answered-after-close: a request that was answered only when the client had closed its end.

use crate::exchange::{Fact, Outcome, Sign};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "answered-after-close",
    title: "a request that was answered only when the client had closed its end",
    severities: "leak",
    explanation: r#"The answer came, but only after the client had closed its end of the conversation: until then the request hung, and what it held was held. A server that answers everything it still has when its input ends (the Python SDK 2.x answers -32000 "Connection closed") makes such requests look answered; they were not.

What to do: treat it as a request that was never answered. If the client had given it up, make it send a cancel."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::AnsweredAfterClose)?;
    let fault = match exchange.moved_on {
        Some(moved) if exchange.dialect.is_mcp() && moved.sign != Sign::WentOn => Blame::of(exchange.asked_by),
        _ => Blame::Undetermined,
    };
    let charge = Charge::new(Severity::Leak, fault);
    Some(match exchange.answer {
        Some(answer) => charge.with("hung for", Figure::Duration(answer.at - exchange.opened_at)),
        None => charge,
    })
}

fn sentence(finding: &Finding) -> String {
    format!("{} left hanging until the client closed its end, and answered only then", requests_were(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"hang"}
            5s    |client closed|
            5.1s  <- 1 error {"code":-32000,"message":"Connection closed"}
            5.2s  |server closed|
                  ! answered-after-close/leak 1
                  = 1 answered-after-close
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // A script that writes its requests, closes and reads the answers.
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"slow"}
                  -> 2 tools/call {"name":"slow"}
            1ms   |client closed|
            4s    <- 1 result
                  <- 2 error
            4.1s  |server closed|
                  = 1 answered
                  = 2 failed
            "#,
        );
    }
}
