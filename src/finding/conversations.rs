//! Conversations that no single rule owns: causes, ends, gaps, eras, carriers and policies, told as they happen.

use super::{NoteKind, Options, check, check_with, judge_talk};
use crate::event::transcript;
use crate::exchange::{CancelPolicy, Cause, Fact, Limits, Outcome, StreamEnd};
use crate::protocol::Dialect;

fn judged(conversation: &str) -> (super::Judged, Vec<Fact>) {
    judge_talk(&transcript::parse(conversation).expect("a conversation"), &Options::default())
}

fn cause_of(facts: &[Fact], id: &str) -> Option<(Cause, Option<u64>)> {
    facts.iter().find_map(|fact| match fact {
        Fact::Exchange(exchange) if exchange.id.to_string() == id && exchange.outcome.never_closed() => {
            Some((exchange.cause, exchange.root.as_ref().map(|(_, seq)| *seq)))
        }
        _ => None,
    })
}

#[test]
fn orphans_have_causes() {
    // Alive: others asked later are answered.
    let (_, facts) = judged("protocol lsp\n 0s -> 1 a\n 40s -> 2 b\n <- 2 result\n 41s |closed|");
    assert_eq!(cause_of(&facts, "1"), Some((Cause::PeerAlive, None)));
    // Silent: others are not answered either.
    let (_, facts) = judged("protocol lsp\n 0s -> 1 a\n 40s -> 2 b\n 80s |closed|");
    assert_eq!(cause_of(&facts, "1"), Some((Cause::PeerSilent, None)));
    // Alone: nothing shows which it is.
    let (_, facts) = judged("protocol lsp\n 0s -> 1 a\n 80s |closed|");
    assert_eq!(cause_of(&facts, "1"), Some((Cause::None, None)));
    // Dead, after a long wait.
    let (_, facts) = judged("protocol lsp\n 0s -> 1 a\n 80s |exit 1|");
    assert_eq!(cause_of(&facts, "1"), Some((Cause::PeerDead, None)));
}

#[test]
fn a_request_behind_an_unanswered_one_the_other_way_names_its_root() {
    let (judged, facts) = judged(
        r#"
        protocol mcp-2025-11-25
        0s    -> 1 tools/call {"name":"ask"}
        1s    <- 1 sampling/createMessage
        80s   |closed|
        "#,
    );
    // The second event is the call, the third the server's question.
    assert_eq!(cause_of(&facts, "1"), Some((Cause::Blocked, Some(3))));
    let orphan = judged.findings.iter().find(|f| f.rule.name == "orphaned-request").expect("an orphan");
    assert!(orphan.sentence().contains("itself waited"), "{}", orphan.sentence());
    assert!(orphan.events.contains(&3));
}

#[test]
fn a_gap_leaves_what_was_open_undetermined() {
    check(
        r#"
        protocol lsp
        0s    -> 1 textDocument/hover
        1s    |lost 3 from server|
        2s    -> 2 textDocument/hover {"line":2}
        90s   |closed|
              ! orphaned-request 2
              = 1 in-flight
        "#,
    );
    // What the client sent is whole: its gap says nothing about the server's answers.
    check("protocol lsp\n 0s -> 1 a\n 1s |lost 3 from client|\n 90s |closed|\n ! orphaned-request 1");
}

#[test]
fn a_body_that_cannot_be_read_may_hold_the_answer() {
    let talk = |lost: &str| {
        format!(
            "protocol json-rpc\n 0s #1 |opened POST /|\n #1 -> 1 sum\n #1 |head 200|\n {lost}\n 1s #1 |closed by server|"
        )
    };
    let (unread, _) = judged(&talk("#1 |lost 1 from server|"));
    assert_eq!((unread.streams.end(StreamEnd::Closed), unread.findings.len()), (1, 0));
    let (empty, _) = judged(&talk(""));
    assert_eq!((empty.streams.end(StreamEnd::EndedWithoutAnswer), empty.findings.len()), (1, 1));
}

#[test]
fn a_log_that_ends_in_a_row_of_give_ups_is_not_innocent() {
    check(
        r#"
        protocol mcp-2025-11-25
        knows no ends
        0s     -> 1 tools/call {"name":"hang"}
        2s     -> 2 tools/call {"name":"hang"}
        4s     -> 3 tools/call {"name":"hang"}
        6.1s   -> 4 tools/call {"name":"hang"}
               ! abandoned-request/leak 1 2 3
               = 4 in-flight
        "#,
    );
    // One repetition in a recording that just stops proves nothing; nor do calls beside each other.
    check("protocol mcp-2025-11-25\n 0s -> 1 tools/call {\"name\":\"x\"}\n 5s -> 2 tools/call {\"name\":\"x\"}");
    check(
        r#"
        protocol mcp-2025-11-25
        0ms    -> 1 tools/call {"name":"x"}
        1ms    -> 2 tools/call {"name":"x"}
        2ms    -> 3 tools/call {"name":"x"}
        3ms    -> 4 tools/call {"name":"x"}
        "#,
    );
    // A client that keeps a steady pace and is answered later does not give up.
    check(
        r#"
        protocol mcp-2025-11-25
        0s     -> 1 tools/call {"name":"x"}
        1s     -> 2 tools/call {"name":"x"}
        2s     -> 3 tools/call {"name":"x"}
               <- 1 result
        3s     -> 4 tools/call {"name":"x"}
               <- 2 result
        4s     -> 5 tools/call {"name":"x"}
        5s     -> 6 tools/call {"name":"x"}
               = 3 in-flight
        "#,
    );
}

#[test]
fn a_disconnect_is_a_cancel_only_in_modern_mcp() {
    let talk = r#"
        0s    #1 |opened POST /mcp|
              #1 -> 1 tools/call {"name":"x"}
        1s    #1 |closed by client|
        90s   #2 |opened POST /mcp|
              #2 -> 2 tools/list
              #2 <- 2 result
              #2 |closed by server|
    "#;
    check(&format!("protocol mcp-2026-07-28\n{talk}\n = 1 cancelled-silent"));
    check(&format!("protocol mcp-2025-06-18\n{talk}\n ! abandoned-request/leak 1\n = 1 abandoned"));
    let (modern, _) = judged(&format!("protocol mcp-2026-07-28\n{talk}"));
    // Silence must follow, and nobody waits: it is no cancel that came to nothing.
    assert_eq!((modern.cancels.total(), modern.cancels.unresolved()), (1, 0));
    let (legacy, _) = judged(&format!("protocol mcp-2025-06-18\n{talk}"));
    assert_eq!(legacy.cancels.total(), 0);
}

#[test]
fn a_torn_stream_may_bring_its_answer_on_another_one() {
    check(
        r#"
        protocol mcp-2025-11-25
        0s    #1 |opened POST /mcp|
              #1 -> 1 tools/call {"name":"x"}
              #1 |streaming|
        1s    #1 |closed by server|
        2s    #2 |opened GET /mcp|
              #2 |resumes e1|
        9s    #2 <- 1 result
              = 1 answered
        "#,
    );
}

#[test]
fn a_session_that_answers_again_was_not_gone() {
    let talk = r#"
        protocol mcp-2025-06-18
        0s    #1 |opened POST /mcp|
              #1 -> 1 tools/call {"name":"x"}
              #1 |streaming|
        40s   #2 |opened POST /mcp|
              #2 -> 2 tools/list
              #2 |head 404|
              |session ended by server|
              #2 |closed by server|
    "#;
    check(&format!("{talk}\n ! orphaned-request 1"));
    let again =
        "41s #3 |opened POST /mcp|\n #3 -> 3 tools/list\n #3 |head 200|\n #3 <- 3 result\n #3 |closed by server|";
    check(&format!("{talk}\n{again}\n ! overdue-request 1"));
}

#[test]
fn in_the_older_transport_the_stream_is_the_session() {
    let talk = r#"
        protocol mcp-2024-11-05
        0s    #1 |opened GET /sse|
              #1 |head 200|
              #1 |streaming|
        1s    #2 |opened POST /messages/?session_id=a|
              #2 -> 1 tools/call {"name":"x"}
              #2 |head 202|
              #2 |closed by server|
    "#;
    check(&format!("{talk}\n 2s #1 |torn by server|\n |server reset|\n ! peer-died/suspect 1"));
    check(&format!("{talk}\n 2s #1 |closed by client|\n |client closed|\n ! lost-in-shutdown/info 1"));
    check(&format!("{talk}\n 80s #1 |closed by client|\n |client closed|\n ! orphaned-request/leak 1"));
}

#[test]
fn eras_of_mcp_share_a_pipe() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let (judged, facts) = judged(&format!(
        r#"
        0s    -> 1 server/discover {{{meta}}}
        1s    -> 2 initialize {{"protocolVersion":"2025-06-18","capabilities":{{}}}}
              <- 2 result {{"protocolVersion":"2025-06-18"}}
              -> notifications/initialized
        2s    -> 3 tools/call {{"name":"old"}}
              <- 4 sampling/createMessage
              -> 4 result
              <- 3 result
        3s    -> 5 tools/call {{"name":"new",{meta}}}
        4s    -> notifications/cancelled {{"requestId":5}}
        60s   <- 5 result
        "#
    ));
    assert_eq!(judged.protocol.dialect, Dialect::Mcp20250618);
    assert_eq!(judged.protocol.also, [Dialect::Mcp20260728]);
    let dialect_of = |id: &str| {
        facts.iter().find_map(|fact| match fact {
            Fact::Exchange(exchange) if exchange.id.to_string() == id => Some(exchange.dialect),
            _ => None,
        })
    };
    assert_eq!((dialect_of("3"), dialect_of("5")), (Some(Dialect::Mcp20250618), Some(Dialect::Mcp20260728)));
    let told: Vec<(&str, &str)> = judged.findings.iter().map(|f| (f.rule.name, f.severity.name())).collect();
    // The modern call was answered after its cancel; the old ones and the unanswered probe are in order.
    assert_eq!(told, [("cancel-ignored", "violation")]);
}

#[test]
fn an_unknown_protocol_is_judged_as_plain_and_says_so() {
    let (judged, _) = judged("0s -> 1 eth_call\n 90s |closed|");
    assert_eq!(judged.protocol.dialect, Dialect::Plain);
    assert!(judged.protocol.recognised_by.contains("plain JSON-RPC"));
    assert!(judged.notes.iter().any(|note| note.kind == NoteKind::Protocol && note.text.contains("--protocol")));
    assert_eq!(judged.findings[0].rule.name, "orphaned-request");
}

#[test]
fn policies_overrule_the_protocol() {
    let with = |cancel_policy| Options { limits: Limits { cancel_policy, ..Limits::default() }, protocol: None };
    let silent =
        "protocol mcp-2025-11-25\n 0s -> 1 tools/call\n 1s -> notifications/cancelled {\"requestId\":1}\n 90s |closed|";
    check_with(silent, &with(CancelPolicy::Spec));
    check_with(&format!("{silent}\n ! cancel-unanswered/leak 1"), &with(CancelPolicy::Reply));
    let answered =
        "protocol lsp\n 0s -> 1 a\n 1s -> $/cancelRequest {\"id\":1}\n <- 1 error {\"code\":-32800,\"message\":\"\"}";
    check_with(answered, &with(CancelPolicy::Spec));
    check_with(&format!("{answered}\n ! cancel-answered/violation 1"), &with(CancelPolicy::Silence));
}

#[test]
fn a_client_may_wait_for_what_the_older_mcp_does_not_send() {
    let talk = "0s -> 1 tools/call {\"name\":\"x\"}\n 1s -> notifications/cancelled {\"requestId\":1}\n 90s |closed|";
    let unresolved = |protocol: &str| judged(&format!("protocol {protocol}\n{talk}")).0.cancels.unresolved();
    assert_eq!((unresolved("mcp-2025-11-25"), unresolved("mcp-2026-07-28")), (1, 0));
}

#[test]
fn a_log_without_times_knows_nothing_of_deadlines_and_races() {
    check(
        r#"
        protocol lsp
        knows no times
        0ms   -> 1 textDocument/hover
        90s   -> 2 textDocument/hover {"line":2}
        180s  -> $/cancelRequest {"id":2}
        900s  <- 2 result
              = 1 in-flight
              = 2 cancelled-raced
        "#,
    );
}

#[test]
fn exit_ends_a_session_that_nobody_saw_close() {
    check(
        r#"
        protocol lsp
        knows no ends
        0s    -> 1 textDocument/hover
        1s    -> 2 shutdown
              <- 2 result null
              -> exit
              ! lost-in-shutdown/info 1
              = 1 lost-in-shutdown
        "#,
    );
}

#[test]
fn a_build_that_stops_says_so_in_its_result() {
    check(
        r#"
        protocol bsp
        0s    -> 1 buildTarget/compile
        1s    -> $/cancelRequest {"id":1}
        30s   <- 1 result {"statusCode":3}
              = 1 cancelled-acknowledged
        "#,
    );
}

#[test]
fn rounds_of_input_are_one_chain() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    check(&format!(
        r#"
        0s    -> 1 tools/call {{"name":"x",{meta}}}
              <- 1 result {{"resultType":"input_required","requestState":"abc"}}
        // No second round is no leak: the server must not count on one.
        90s   |closed|
              = 1 input-required
        "#
    ));
}

#[test]
fn ids_of_the_two_directions_are_two_spaces() {
    check(
        r#"
        protocol lsp
        0s    -> 1 textDocument/hover
              <- 1 workspace/configuration
        1s    -> $/cancelRequest {"id":1}
        2s    <- 1 error {"code":-32800,"message":""}
              -> 1 result []
              = 1 cancelled-acknowledged
              = server 1 answered
        "#,
    );
}

#[test]
fn the_ledger_counts_every_cancel_once() {
    let (judged, facts) = judged(
        r#"
        0s    -> 1 initialize {"protocolVersion":"2025-06-18","capabilities":{}}
              -> notifications/cancelled {"requestId":1}
        1s    <- 1 result {"protocolVersion":"2025-06-18"}
              -> 2 tools/call {"name":"x"}
              -> notifications/cancelled {"requestId":2}
              -> notifications/cancelled {"requestId":2}
              -> notifications/cancelled {"requestId":99}
              -> notifications/cancelled
        9s    -> notifications/cancelled {"requestId":1}
        "#,
    );
    let sent = facts.iter().filter(|fact| matches!(fact, Fact::Cancel(_))).count();
    assert!(sent >= 6, "{facts:#?}");
    assert_eq!(judged.cancels.total(), 6);
}

#[test]
fn outcomes_have_names_that_lead_back() {
    for outcome in Outcome::ALL {
        assert_eq!(Outcome::from_name(outcome.name()), Some(outcome));
        assert_eq!(Outcome::ALL[outcome as usize], outcome);
    }
}
