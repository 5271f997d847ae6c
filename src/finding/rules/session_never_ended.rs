//! session-never-ended: an HTTP session that its client left without ending it.

use crate::exchange::{Fact, SlipKind};

use crate::finding::{Blame, Charge, Finding, Ground, Rule, Severity};

pub const RULE: Rule = Rule {
    name: "session-never-ended",
    title: "an HTTP session that its client left without ending it",
    severities: "info; suspect where clients leave one session after another",
    explanation: r#"The server gave the session an id (Mcp-Session-Id), the session went out of use, and no DELETE came for it. MCP 2025-03-26 to 2025-11-25: clients that no longer need a session should send an HTTP DELETE with its id. A server keeps what belongs to a session (a transport, tasks, memory) until somebody ends it; most have no limit of their own. One client that just went is nothing; a client that opens a session for every call and ends none fills the server. Whether that goes on is told for all sessions of a server together.

What to do: close the client's transport so that it sends DELETE (SDKs do that where the session is closed and not just dropped), keep one session for many calls, and let the server end sessions that are out of use."#,
    sentence,
    judge,
};

fn judge(fact: &Fact, _ground: &Ground) -> Option<Charge> {
    let Fact::Slip(slip) = fact else { return None };
    if slip.kind != SlipKind::SessionNeverEnded || slip.doubtful {
        return None;
    }
    Some(Charge::new(Severity::Info, Blame::Client))
}

fn sentence(_: &Finding) -> String {
    "the client left the HTTP session without ending it (no DELETE)".to_string()
}

#[cfg(test)]
mod tests {
    use crate::finding::check;

    const CALL: &str = r#"
        protocol mcp-2025-06-18
        0s    #1 |opened POST /mcp Mcp-Session-Id: a|
              #1 -> 1 tools/list
              #1 |head 200|
        1s    #1 <- 1 result
              #1 |closed by server|
    "#;

    #[test]
    fn it_fires() {
        check(&format!("{CALL}\n 10m |tap closed|\n ! session-never-ended/info"));
    }

    #[test]
    fn it_stays_silent() {
        // Given back, or tried to; used lately; a stream still open.
        for status in ["200", "404", "405"] {
            let gone =
                format!("2s #2 |opened DELETE /mcp Mcp-Session-Id: a|\n #2 |head {status}|\n #2 |closed by server|");
            check(&format!("{CALL}\n{gone}\n 10m |tap closed|"));
        }
        check(&format!("{CALL}\n 20s |tap closed|"));
        check(&format!("{CALL}\n 2s #2 |opened GET /mcp Mcp-Session-Id: a|\n #2 |streaming|\n 10m |tap closed|"));
        // Without an id, and in a version without sessions.
        check(&format!("{}\n 10m |tap closed|", CALL.replace(" Mcp-Session-Id: a", "")));
        check(&format!("{}\n 10m |tap closed|", CALL.replace("2025-06-18", "2026-07-28")));
    }
}
