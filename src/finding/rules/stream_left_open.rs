//! stream-left-open: an HTTP stream that stays open with nothing owed on it.

use crate::exchange::{Fact, StreamEnd};

use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stream-left-open",
    title: "an HTTP stream that stays open with nothing owed on it",
    severities: "leak",
    explanation: r#"The request that opened this HTTP response was cancelled (or answered), and the response was never ended: the connection stays, on both sides. Seen in servers that drop the result of a cancelled call and forget the stream it would have ended (MCP before 2026-07-28).

What to do: end the response when its request is settled, whatever settled it."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Stream(stream) = fact else { return None };
    if stream.end != StreamEnd::LeftOpen {
        return None;
    }
    Some(Charge::new(Severity::Leak, Blame::Server))
}

fn sentence(finding: &Finding) -> String {
    let them =
        if finding.count == 1 { "an HTTP response".to_string() } else { format!("{} HTTP responses", finding.count) };
    format!("the server left {them} open after the request was settled")
}
