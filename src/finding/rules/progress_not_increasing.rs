//! progress-not-increasing: progress that does not increase.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "progress-not-increasing",
    title: "progress that does not increase",
    severities: "violation in MCP",
    explanation: r#"MCP (utilities/progress): the value of `progress` must increase with each notification. Clients that draw a bar, or that reset a timeout on progress, are misled."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ProgressNotIncreasing) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    if !slip.dialect.is_mcp() {
        return None;
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent progress that did not increase{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","_meta":{"progressToken":"t"}}
                  <- notifications/progress {"progressToken":"t","progress":5}
                  <- notifications/progress {"progressToken":"t","progress":5}
            1s    <- 1 result
                  ! progress-not-increasing/violation
            "#,
        );
    }

    #[test]
    fn what_a_resumed_stream_brings_again_is_silent() {
        let talk = |resumes: &str| {
            format!(
                r#"
                protocol mcp-2025-11-25
                0ms   #1 |opened POST /mcp Mcp-Session-Id: a|
                      #1 -> 1 tools/call {{"name":"x","_meta":{{"progressToken":1}}}}
                      #1 |streaming|
                1s    #1 <- notifications/progress {{"progressToken":1,"progress":1}}
                2s    #1 <- notifications/progress {{"progressToken":1,"progress":2}}
                      #1 |closed by server|
                3s    #2 |opened GET /mcp Mcp-Session-Id: a|
                      #2 |{resumes}|
                      #2 <- notifications/progress {{"progressToken":1,"progress":2}}
                      #2 <- notifications/progress {{"progressToken":1,"progress":3}}
                      #2 <- 1 result
                      = 1 answered
                "#
            )
        };
        check(&talk("resumes e1"));
        check(&format!("{}\n ! progress-not-increasing", talk("streaming")));
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   -> 1 tools/call {"name":"x","_meta":{"progressToken":"t"}}
                  <- notifications/progress {"progressToken":"t","progress":0}
                  <- notifications/progress {"progressToken":"t","progress":0.5}
            1s    <- 1 result
            "#,
        );
    }
}
