//! before-initialize: a request before the handshake was done.

use crate::exchange::{Fact, SlipKind};

use super::words::{its_requests, sender};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "before-initialize",
    title: "a request before the handshake was done",
    severities: "suspect in MCP; violation in LSP and BSP",
    explanation: r#"LSP: until `initialize` is answered the client must not send anything else, and a server answers such requests with -32002. MCP (lifecycle): requests other than pings should not be sent before the handshake is done."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::BeforeInitialize) {
        return None;
    }
    // Without times the order of what the two sides sent may be a guess.
    if slip.doubtful || !ground.knows.times {
        return None;
    }
    let severity = if slip.dialect.is_lsp_like() { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent {} before the handshake was done", sender(finding), its_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            0ms   -> 1 initialize {"processId":1,"rootUri":null,"capabilities":{}}
            1ms   -> 2 textDocument/hover
            1s    <- 1 result
                  <- 2 result null
                  ! before-initialize/violation
            "#,
        );
    }

    #[test]
    fn a_log_without_times_does_not_show_what_came_first() {
        check(
            r#"
            knows no times
            0ms   -> 1 initialize {"processId":1,"rootUri":null,"capabilities":{}}
                  -> 2 textDocument/hover
                  <- 1 result
                  <- 2 result null
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            0ms   -> 1 initialize {"processId":1,"rootUri":null,"capabilities":{}}
                  <- window/logMessage {"type":3}
            1s    <- 1 result
                  -> initialized
                  -> 2 textDocument/hover
                  <- 2 result null
            "#,
        );
    }
}
