//! What a recording cannot know softens the verdicts it touches, whichever rule they are of.
//!
//! Comes in: a charge, the fact it rests on and what the recording knows. Goes out: the charge, as grave as that bears
//! out. It refuses to know the rules: what counts is what the fact was seen by.

use super::{Blame, Charge, Ground, Severity};
use crate::exchange::{Fact, SlipKind};

/// What the recording cannot know, no verdict can rest on. Where the sides are guessed, or which answer belongs to
/// which request, nothing about a pairing is proven: it is suspect at most, and ids that seem to clash are only told.
pub fn soften(mut charge: Charge, fact: &Fact, ground: &Ground) -> Charge {
    let guessed = !ground.knows.direction || !ground.knows.ids;
    let most = match fact {
        Fact::Slip(slip) => match rests_on(slip.kind) {
            Rests::Message => Severity::Leak,
            Rests::Pairing => Severity::Suspect,
            Rests::Ids => Severity::Info,
        },
        Fact::Stream(_) => Severity::Leak,
        Fact::Exchange(_) | Fact::Cancel(_) | Fact::Task(_) | Fact::Token(_) => Severity::Suspect,
    };
    if guessed && most < Severity::Leak {
        charge.severity = charge.severity.min(most);
    }
    let named = matches!(charge.fault, Blame::Client | Blame::Server);
    if named && (!ground.knows.direction || (guessed && most < Severity::Leak)) {
        charge.fault = Blame::Undetermined;
    }
    charge
}

/// What an irregularity is seen by.
enum Rests {
    /// The message alone.
    Message,
    /// Who sent it, and which others it belongs to.
    Pairing,
    /// That the same id is the same request.
    Ids,
}

fn rests_on(kind: SlipKind) -> Rests {
    match kind {
        SlipKind::InvalidId
        | SlipKind::NullId
        | SlipKind::FractionalId
        | SlipKind::BatchNotAllowed
        | SlipKind::DuplicateKey
        | SlipKind::MalformedResponse
        | SlipKind::SessionNeverEnded
        | SlipKind::Unreadable
        | SlipKind::Fault => Rests::Message,
        SlipKind::DuplicateResponse
        | SlipKind::ResponseUnknown
        | SlipKind::IdTypeMismatch
        | SlipKind::IdPrecisionLoss
        | SlipKind::IdReuseInFlight
        | SlipKind::IdReuseAfterClose
        | SlipKind::IdReuseAfterCancel
        | SlipKind::ErrorWithoutId => Rests::Ids,
        _ => Rests::Pairing,
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::{Blame, Options, check, judge_talk};

    const CLASHES: &str = r#"
        protocol mcp-2025-11-25
        0ms   -> 1 tools/call {"name":"x"}
        1s    -> 1 tools/call {"name":"y"}
        2s    <- 1 result
              <- 1 result
              <- 1 result
              <- 9 result
        90s   -> 2 tools/call {"name":"x"}
        190s  |closed|
    "#;

    #[test]
    fn a_pairing_by_guess_proves_nothing() {
        check(&format!(
            "{CLASHES}\n ! id-reuse-in-flight/violation 1\n ! duplicate-response/violation 1\n \
             ! response-unknown-id/violation 9\n ! orphaned-request/leak 2"
        ));
        for unknown in ["ids", "direction"] {
            let talk = format!(
                "knows no {unknown}\n{CLASHES}\n ! id-reuse-in-flight/info 1\n ! duplicate-response/info 1\n \
                 ! response-unknown-id/info 9\n ! orphaned-request/suspect 2"
            );
            check(&talk);
            let talk = crate::event::transcript::parse(&talk).expect("a conversation");
            let (judged, _) = judge_talk(&talk, &Options::default());
            assert!(
                judged.findings.iter().all(|finding| finding.fault == Blame::Undetermined),
                "{:?}",
                judged.findings
            );
        }
    }

    #[test]
    fn what_a_message_says_of_itself_stands_and_blames_nobody_unknown() {
        check(
            "protocol mcp-2025-11-25\n knows no direction\n 0ms -> null tools/list\n <- null result\n ! null-id/violation",
        );
    }
}
