//! peer-died: a request whose receiver died.

use crate::exchange::{Fact, Outcome};

use super::words::{exchange, peer, requests_were};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "peer-died",
    title: "a request whose receiver died",
    severities: "suspect; info in MCP 2026-07-28",
    explanation: r#"The receiver ended (closed its stream, exited, reset the connection) while the request was open, and before the asker had closed. The request cannot be answered any more.

What to do: look at the exit status and the last lines of stderr just before (`rpctap show`)."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let exchange = exchange(fact, Outcome::PeerDied)?;
    let severity = if exchange.dialect.is_modern_mcp() { Severity::Info } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(exchange.asked_by.other())))
}

fn sentence(finding: &Finding) -> String {
    format!("{} open when {} died", requests_were(finding), peer(finding))
}
