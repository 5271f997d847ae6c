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

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   -> 1 textDocument/hover
            50ms  |exit 139|
                  ! peer-died/suspect 1
                  = 1 peer-died
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // Told to go by a signal made for that: nobody died on anybody.
            protocol lsp
            0ms   -> 1 textDocument/hover
            50ms  |killed 15|
                  ! lost-in-shutdown 1
            "#,
        );
    }
}
