//! unreadable-message: something on the wire that is no message.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "unreadable-message",
    title: "something on the wire that is no message",
    severities: "violation in MCP over stdio; suspect elsewhere",
    explanation: r#"A line or body that is no JSON-RPC message: a stray print to stdout, broken JSON, an empty batch. MCP over stdio: a server must not write anything to stdout that is not a message. If it was meant as a request or an answer, somebody waits for it.

What to do: send logs to stderr; look at the raw text with `rpctap show`."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::Unreadable) {
        return None;
    }
    if slip.doubtful {
        return None;
    }
    let severity = if slip.dialect.is_mcp() && !ground.http { Severity::Violation } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent something that is no message{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   <- raw Server listening on stdio
                  ! unreadable-message/violation
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol mcp-2025-11-25
            0ms   <- notifications/message {"level":"info","data":"Server listening on stdio"}
            "#,
        );
    }

    #[test]
    fn the_body_of_a_refusal_need_be_no_message() {
        let ask = |status: u16| {
            format!(
                "protocol mcp-2025-06-18\n0ms #1 |opened POST /mcp|\n #1 -> 7 tools/list\n #1 |head {status}|\n\
                 #1 <- raw {{\"detail\":\"busy\"}}\n #1 |closed by server|\n"
            )
        };
        check(&format!("{} = 7 failed", ask(503)));
        check(&format!("{} ! unreadable-message\n ! stream-ended-unanswered 7", ask(200)));
    }
}
