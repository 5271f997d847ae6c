//! response-unknown-id: an answer to a request nobody sent.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "response-unknown-id",
    title: "an answer to a request nobody sent",
    severities: "violation; info where the recording may have missed the request",
    explanation: r#"A response names an id under which the other side has no request. It may be the answer to a request that was answered before, to one from before a reconnect, or a mangled id. Clients may drop the connection on it. (In the body of an HTTP refusal an error under an id of its own is about what was refused.) Where the recording began late or has a gap, the request may simply not be on record: then it is only told."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if !matches!(slip.kind, SlipKind::ResponseUnknown) {
        return None;
    }
    if slip.doubtful {
        return Some(Charge::new(Severity::Info, Blame::Undetermined));
    }
    Some(Charge::new(Severity::Violation, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} answered under an id nobody asked with{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    #[test]
    fn it_fires() {
        check(
            r#"
            protocol lsp
            0ms   <- 9 result null
                  ! response-unknown-id/violation 9
            "#,
        );
    }

    #[test]
    fn it_stays_silent() {
        check(
            r#"
            protocol lsp
            0ms   -> 9 textDocument/hover
                  <- 9 workspace/configuration
            1ms   -> 9 result []
            2ms   <- 9 result null
            "#,
        );
    }

    #[test]
    fn under_a_refusal_of_http_it_is_about_what_was_refused() {
        let body = r#"#1 <- "server-error" error {"code":-32600,"message":"Bad Request: Missing session ID"}"#;
        let ask = |what: &str, status: u16| {
            format!("0ms #1 |opened POST /mcp|\n #1 -> {what}\n #1 |head {status}|\n{body}\n #1 |closed by server|")
        };
        let probe = r#"1 server/discover {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        check(&format!("{}\n = 1 failed", ask(probe, 400)));
        check(&ask("notifications/initialized", 400));
        check(&format!("{}\n ! response-unknown-id/violation \"server-error\"", ask(probe, 200)));
    }

    #[test]
    fn a_loss_excuses_it_also_when_it_shows_a_little_later() {
        for (loss, severity) in [("|lost 1 from client|", "info"), ("|lost 1 from server|", "violation")] {
            for pause in [10, 5_000] {
                let severity = if pause > 1_000 { "violation" } else { severity };
                let talk = format!(
                    "protocol lsp
                     0ms   #1 |opened GET /sse|
                     1ms   #1 <- 9 result null
                     {pause}ms  {loss}
                     6000ms -> 10 ping
                     6001ms <- 10 result
                           ! response-unknown-id/{severity} 9"
                );
                check(&talk);
            }
        }
    }

    #[test]
    fn a_late_start_excuses_it() {
        check("begins late\n 0ms <- 9 result null\n -> 10 tools/list\n <- 10 result\n ! response-unknown-id/info 9");
    }
}
