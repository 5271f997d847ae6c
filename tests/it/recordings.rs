//! Recordings of real software, judged: what is known of them must be found, and nothing else.

use std::path::Path;

use rpctap::event::{Collected, Side};
use rpctap::exchange::{CancelEnd, CancelPolicy, CancelTarget, Limits, Outcome};
use rpctap::finding::{Analyzer, Judged, Options, Severity};
use rpctap::import;

/// Reads a sample and judges each of its sessions.
pub fn judge(sample: &str, options: &Options) -> Vec<Judged> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(sample);
    let input = import::Input::open(&path).expect("a sample");
    let mut collected = Collected::default();
    import::read(input, &import::Options::default(), &mut 0, &mut collected).expect("a readable sample");
    let mut bodies = collected.clone();
    let judged = |session: &rpctap::event::Session| {
        let mut analyzer = Analyzer::new(session, options);
        for event in collected.events.iter().filter(|event| event.session == session.key) {
            analyzer.event(event, &mut bodies);
        }
        analyzer.finish(None)
    };
    collected.sessions.iter().map(judged).collect()
}

fn one(sample: &str) -> Judged {
    let mut judged = judge(sample, &Options::default());
    assert_eq!(judged.len(), 1, "{sample} holds one session");
    judged.remove(0)
}

/// `rule/severity fault count`, in the order of the report.
fn told(judged: &Judged) -> Vec<String> {
    judged
        .findings
        .iter()
        .map(|f| format!("{}/{} {} {}", f.rule.name, f.severity.name(), f.fault.name(), f.count))
        .collect()
}

fn client(judged: &Judged, outcome: Outcome) -> u64 {
    judged.outcomes(Side::Client).get(outcome)
}

#[test]
fn fifty_calls_given_up_without_a_cancel_leak() {
    let judged = one("r1-pysdk-1.29.0-pathB.ndjson");
    assert_eq!(judged.protocol.version.as_deref(), Some("2025-11-25"));
    assert_eq!(judged.outcomes(Side::Client).total(), 54);
    assert_eq!(client(&judged, Outcome::Answered), 4);
    assert_eq!(client(&judged, Outcome::Abandoned), 50);
    assert_eq!(judged.cancels.total(), 0);
    let leak = &judged.findings[0];
    assert!(told(&judged).contains(&"abandoned-request/leak client 50".to_string()), "{:#?}", told(&judged));
    let leak = judged.findings.iter().find(|f| f.rule.name == "abandoned-request").unwrap_or(leak);
    assert_eq!(leak.tool.as_deref(), Some("hangs_forever_async"));
    assert!(leak.sentence().contains("give up after 10"), "{}", leak.sentence());
    assert!(judged.notes.iter().any(|note| note.text.contains("Python SDK")), "{:?}", judged.notes);
}

#[test]
fn fifty_cancels_that_nobody_answers_are_conforming_in_mcp() {
    let judged = one("r2-pysdk-2.3.0-pathB.ndjson");
    assert_eq!(client(&judged, Outcome::CancelledSilent), 50);
    assert_eq!(client(&judged, Outcome::Answered), 4);
    assert_eq!(judged.cancels.target(CancelTarget::Open), 50);
    assert_eq!(judged.cancels.end(CancelEnd::Silent), 50);
    assert!(judged.findings.iter().all(|f| f.severity < Severity::Suspect), "{:#?}", told(&judged));
    let verdict = &judged.cancels.verdicts[0];
    assert_eq!((verdict.count, verdict.judgement), (50, "conforming"));
}

#[test]
fn an_orchestrator_that_needs_replies_sees_the_silence_as_a_leak() {
    let limits = Limits { cancel_policy: CancelPolicy::Reply, ..Limits::default() };
    let judged = judge("r2-pysdk-2.3.0-pathB.ndjson", &Options { limits, protocol: None }).remove(0);
    assert!(told(&judged).contains(&"cancel-unanswered/leak undetermined 50".to_string()), "{:#?}", told(&judged));
}

#[test]
fn fifty_cancels_answered_with_an_error_are_what_mcp_asks_not_to_send() {
    let judged = one("r2-pysdk-client2.3.0-server1.29.0-pathB.ndjson");
    assert_eq!(client(&judged, Outcome::CancelledAcknowledged), 50);
    assert_eq!(told(&judged), ["cancel-answered/suspect server 50"]);
    assert!(judged.notes.iter().any(|note| note.text.contains("1.3 to 1.29")), "{:?}", judged.notes);
}

#[test]
fn a_cancel_that_codex_never_answers_is_conforming_and_leaves_a_waiting_client_hanging() {
    let judged = one("r5-codex-0.128.0-cancel.ndjson");
    assert_eq!(judged.protocol.version.as_deref(), Some("2024-11-05"));
    assert_eq!(client(&judged, Outcome::CancelledSilent), 1);
    assert_eq!(client(&judged, Outcome::Answered), 3);
    assert_eq!(told(&judged), Vec::<String>::new());
    let verdict = &judged.cancels.verdicts[0];
    assert_eq!((verdict.end, verdict.count, verdict.judgement), (CancelEnd::Silent, 1, "conforming"));
    assert_eq!(verdict.consequence, "a client that waits for a reply hangs");
}

#[test]
fn pyright_answers_all_ten_cancels_and_three_plain_requests_fail() {
    let judged = one("r6-lsp-pyright.ndjson");
    assert_eq!(judged.protocol.dialect.name(), "lsp");
    assert_eq!(client(&judged, Outcome::CancelledAcknowledged), 10);
    assert_eq!(client(&judged, Outcome::Failed), 3);
    assert_eq!(client(&judged, Outcome::Answered), 9);
    assert_eq!(judged.outcomes(Side::Server).get(Outcome::Answered), 8);
    assert_eq!(judged.outcomes(Side::Server).total(), 8);
    assert_eq!(judged.cancels.total(), 12);
    assert_eq!(judged.cancels.target(CancelTarget::Finished), 1);
    assert_eq!(judged.cancels.target(CancelTarget::Unknown), 1);
    // The cancel that came too late crossed the answer: it was sent a millisecond after it.
    assert_eq!(told(&judged), ["cancel-unknown/suspect client 1"]);
    assert_eq!(judged.tokens.opened, 3);
}

#[test]
fn three_calls_given_up_in_a_system_call_trace() {
    let judged = one("strace.txt");
    assert_eq!(judged.outcomes(Side::Client).total(), 7);
    assert_eq!(client(&judged, Outcome::Answered), 4);
    let hanging = judged.outcomes(Side::Client).sum(Outcome::was_left_hanging);
    assert_eq!(hanging, 3, "{:?}", told(&judged));
}

#[test]
fn editors_logs_are_clean() {
    for (sample, requests, cancels) in
        [("lsp-trace-text.log", 6, 1), ("lsp-trace-json.log", 6, 1), ("neovim-lsp.log", 4, 1)]
    {
        let judged = one(sample);
        let outcomes = judged.outcomes(Side::Client);
        assert_eq!(outcomes.total(), requests, "{sample}");
        assert_eq!(outcomes.sum(|outcome| outcome.was_left_hanging() || outcome.never_closed()), 0, "{sample}");
        assert_eq!(judged.cancels.total(), cancels, "{sample}");
        assert!(judged.findings.iter().all(|f| f.severity < Severity::Violation), "{sample}: {:#?}", told(&judged));
    }
}

#[test]
fn streams_that_end_with_the_session_are_not_the_servers_fault() {
    // The client deletes the session, and the server then ends the fifty streams nobody waits on any more.
    let judged = one("r3-http-1.29.0-pathB.pcap");
    assert_eq!(client(&judged, Outcome::Answered), 4);
    assert_eq!(client(&judged, Outcome::Abandoned), 50);
    assert!(told(&judged).contains(&"abandoned-request/leak client 50".to_string()), "{:#?}", told(&judged));
    assert!(judged.findings.iter().all(|f| f.fault.name() != "server"), "{:#?}", told(&judged));

    let judged = one("mitmproxy.har");
    assert_eq!((client(&judged, Outcome::Answered), client(&judged, Outcome::Abandoned)), (4, 3));
    assert!(judged.findings.iter().all(|f| f.fault.name() != "server"), "{:#?}", told(&judged));
}

#[test]
fn fifty_calls_given_up_over_http_leak_with_their_connections() {
    let judged = one("r3-http-1.29.0-pathB.pcap");
    assert_eq!(judged.outcomes(Side::Client).total(), 54);
    assert_eq!(client(&judged, Outcome::Answered), 4);
    assert_eq!(client(&judged, Outcome::Abandoned), 50, "{:#?}", told(&judged));
    assert_eq!(judged.cancels.total(), 0);
    assert!(told(&judged).contains(&"abandoned-request/leak client 50".to_string()), "{:#?}", told(&judged));
}

#[test]
fn three_calls_given_up_are_seen_in_a_har() {
    let judged = one("mitmproxy.har");
    assert_eq!(judged.outcomes(Side::Client).total(), 7);
    assert_eq!(client(&judged, Outcome::Answered), 4);
    assert_eq!(judged.outcomes(Side::Client).sum(Outcome::was_left_hanging), 3, "{:#?}", told(&judged));
    assert_eq!(told(&judged), ["abandoned-request/leak client 3"]);
}
