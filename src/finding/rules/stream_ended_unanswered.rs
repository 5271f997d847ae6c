//! stream-ended-unanswered: an HTTP response that ended without the answer it owed.

use crate::exchange::{Cause, Fact, Outcome};

use super::words::{exchange, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "stream-ended-unanswered",
    title: "an HTTP response that ended without the answer it owed",
    severities: "violation in MCP 2026-07-28; leak elsewhere",
    explanation: r#"The request was posted, and the body of its HTTP response (an event stream, or a plain body) ended without the JSON-RPC response in it. MCP's Streamable HTTP: the stream should (2025-03-26 to 2025-11-25) or must (2026-07-28: one POST, one answer) carry it. In the versions with resumption the answer could have come on a later GET with Last-Event-ID; none did.

What to do: look at the server (or a proxy between) that ends the body; a POST answered 200 with nothing in it is the same fault."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::Orphaned)?;
    if exchange.cause != Cause::CarrierEnded || exchange.doubtful {
        return None;
    }
    // Up to 2025-11-25 a stream may end and be taken up again; only that nothing came is certain.
    let severity = if exchange.dialect.is_modern_mcp() { Severity::Violation } else { Severity::Leak };
    let by_server = exchange.ended_by_server == Some(true);
    let fault = if by_server { Blame::of(exchange.asked_by.other()) } else { Blame::Undetermined };
    Some(Charge::new(severity, fault))
}

fn sentence(finding: &Finding) -> String {
    format!("{} posted, and the HTTP response ended without the answer", requests_were(finding))
}
