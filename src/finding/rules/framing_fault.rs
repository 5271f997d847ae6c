//! framing-fault: bytes on a stream that are not framed as messages.

use crate::exchange::{Fact, SlipKind};

use super::words::{sender, times};
use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "framing-fault",
    title: "bytes on a stream that are not framed as messages",
    severities: "suspect; info for a byte order mark or a missing last line end",
    explanation: r#"The bytes of a stream did not cut into messages: a header without a usable Content-Length, a length that does not fit its body, bytes between two messages, a message cut short by the end of the stream.

LSP (base protocol): each message is a header part with Content-Length in bytes and a body of that length. MCP and ACP over stdio: one message a line, nothing else on the stream. A strict peer loses its place at such bytes; requests after it may look unanswered for that reason alone.

What to do: `rpctap show` has the bytes. Look for prints to stdout, and for lengths counted in characters."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if slip.kind != SlipKind::Fault || slip.doubtful {
        return None;
    }
    let harmless = matches!(slip.subject.as_str(), "no-final-newline" | "byte-order-mark");
    let severity = if harmless { Severity::Info } else { Severity::Suspect };
    Some(Charge::new(severity, Blame::of(slip.by)))
}

fn sentence(finding: &Finding) -> String {
    format!("{} sent bytes that are not framed as messages{}", sender(finding), times(finding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Knows, Side};
    use crate::exchange::{CancelPolicy, Slip};
    use crate::protocol::Dialect;

    fn charged(kind: SlipKind, subject: &str) -> Option<Severity> {
        let slip = Slip {
            kind,
            by: Side::Server,
            seq: 1,
            at: 0,
            dialect: Dialect::Lsp,
            method: None,
            tool: None,
            subject: subject.to_string(),
            also: Vec::new(),
            on_http: false,
            doubtful: false,
        };
        let ground = Ground {
            policy: CancelPolicy::Spec,
            race_window: 0,
            deadline: 0,
            took_leave: false,
            http: false,
            knows: Knows::ALL,
        };
        judge(&Fact::Slip(slip), &ground).map(|charge| charge.severity)
    }

    #[test]
    fn it_fires() {
        assert_eq!(charged(SlipKind::Fault, "garbage"), Some(Severity::Suspect));
        assert_eq!(charged(SlipKind::Fault, "byte-order-mark"), Some(Severity::Info));
    }

    #[test]
    fn it_stays_silent() {
        assert_eq!(charged(SlipKind::DuplicateKey, ""), None);
    }
}
