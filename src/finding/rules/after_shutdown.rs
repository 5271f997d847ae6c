//! after-shutdown: a request after shutdown.

use crate::exchange::{Fact, SlipKind};

use super::words::{its_requests, sender};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "after-shutdown",
    title: "a request after shutdown",
    severities: "violation",
    explanation: r#"LSP: after `shutdown` the client sends nothing but `exit`; a server answers later requests with -32600."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::AfterShutdown) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent {} after shutdown", sender(finding), its_requests(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            0ms   -> 1 initialize {"processId":1,"rootUri":null,"capabilities":{}}
            1s    <- 1 result
                  -> initialized
                  -> 2 shutdown
                  <- 2 result null
                  -> 3 textDocument/hover
                  <- 3 error {"code":-32600,"message":"shut down"}
                  -> exit
                  ! after-shutdown/violation 3
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            0ms   -> 1 initialize {"processId":1,"rootUri":null,"capabilities":{}}
            1s    <- 1 result
                  -> initialized
                  -> 2 shutdown
                  <- 2 result null
                  -> exit
            "#,
        );
    }
}
