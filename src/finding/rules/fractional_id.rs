//! fractional-id: an id with a fraction.

use crate::exchange::{Fact, SlipKind};
use crate::protocol::Dialect;

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "fractional-id",
    title: "an id with a fraction",
    severities: "violation in MCP, LSP and ACP; suspect elsewhere",
    explanation: r#"JSON-RPC: numeric ids should not have fractional parts. MCP, LSP and ACP allow only integers and strings. Some programs cut the fraction off and answer under another id."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::FractionalId) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity =
        if slip.dialect == Dialect::Plain || slip.dialect.is_a2a() { Severity::Suspect } else { Severity::Violation };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} used an id with a fraction{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   -> 1.5 textDocument/hover
                  <- 1.5 result null
                  ! fractional-id/violation 1.5
                  = 1.5 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol lsp
            0ms   -> 1.0 textDocument/hover
                  <- 1 result null
                  -> 1e3 textDocument/hover
                  <- 1000 result null
            "#,
        );
    }
}
