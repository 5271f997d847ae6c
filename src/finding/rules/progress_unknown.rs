//! progress-unknown: progress on a token nobody gave.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "progress-unknown",
    title: "progress on a token nobody gave",
    severities: "violation in MCP; suspect in LSP",
    explanation: r#"The progress notification names a token that belongs to no request in progress and that nobody created. MCP: it must only reference tokens of an active request."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ProgressUnknown) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = if slip.dialect.is_mcp() { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent progress on a token nobody gave{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   <- notifications/progress {"progressToken":"never","progress":5}
                  ! progress-unknown/violation
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            begins late
            0ms   <- notifications/progress {"progressToken":"before","progress":5}
                  -> 8 tools/call {"name":"x","_meta":{"progressToken":"8"}}
                  <- notifications/progress {"progressToken":8,"progress":5}
                  <- 8 result
            "#,
        );
    }
}
