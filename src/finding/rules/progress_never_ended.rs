//! progress-never-ended: progress that began and never ended.

use crate::exchange::{Fact, TokenEnd};

use super::words::sender;
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "progress-never-ended",
    title: "progress that began and never ended",
    severities: "leak",
    explanation: r#"The server made a progress token (`window/workDoneProgress/create`), began it and never sent its end. LSP: one begin, many reports, one end. Editors show such progress for ever."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let Fact::Token(token) = fact else { return None };
    if token.end != TokenEnd::NeverEnded || token.doubtful {
        return None;
    }
    // Heard of until shortly before the end: the work may have been going on as it should.
    let severity = if token.quiet < ground.deadline { Severity::Suspect } else { Severity::Leak };
    Some(Charge::new(severity, Blame::of(token.opened_by)))
}

fn sentence(finding: &Finding) -> String {
    let them =
        if finding.count == 1 { "a progress token".to_string() } else { format!("{} progress tokens", finding.count) };
    format!("{} began {them} and never sent the end", sender(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   <- 1 window/workDoneProgress/create {"token":"t"}
                  -> 1 result null
            1s    <- $/progress {"token":"t","value":{"kind":"begin","title":"Indexing"}}
            5m    |closed|
                  ! progress-never-ended/leak
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol lsp
            0ms   <- 1 window/workDoneProgress/create {"token":"t"}
                  -> 1 result null
            1s    <- $/progress {"token":"t","value":{"kind":"begin","title":"Indexing"}}
            2s    <- $/progress {"token":"t","value":{"kind":"end"}}
            5m    |closed|
            "#,
        );
    }
}
