//! cancel-finished: a cancel of a request that had been answered long before.

use crate::exchange::{CancelTarget, Fact};

use super::words::{cancel, its_requests, sender};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "cancel-finished",
    title: "a cancel of a request that had been answered long before",
    severities: "info",
    explanation: r#"The cancel came later than the race window after the answer: the sender had its answer and cancelled all the same. All protocols tell receivers to ignore it. It is harmless, and a sign that two places in the sender handle the same request."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let cancel = cancel(fact, CancelTarget::Finished)?;
    let late = cancel.too_late_by?;
    if late <= ground.race_window || cancel.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Info, Blame::of(cancel.sent_by)).with("too late by", Figure::Duration(late)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} cancelled {} long after the answer had come", sender(finding), its_requests(finding))
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
            10ms  <- 1 result null
            5s    -> $/cancelRequest {"id":1}
                  ! cancel-finished/info 1
                  = 1 answered
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            // It crossed the answer.
            protocol lsp
            0ms   -> 1 textDocument/hover
            10ms  <- 1 result null
            11ms  -> $/cancelRequest {"id":1}
            "#,
        );
    }
}
