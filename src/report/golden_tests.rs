//! The reports of one session made by hand, held against what is written down in `golden/`.
//!
//! `RPCTAP_GOLDEN=write cargo test report::golden` writes them anew; look at the difference before you keep it.

use super::chart::tests::abandoned;
use super::peers::{Peers, Program};
use super::*;
use crate::event::Side;
use crate::exchange::{CancelEnd, HttpSession, SessionEnd};
use crate::finding::{Blame, CancelVerdict, Figure, Finding, Note, NoteKind, Severity};
use crate::protocol::Dialect;

/// Everything a report can hold, with text in it that no output may take for its own.
fn told() -> Told {
    let mut judged = abandoned();
    judged.protocol.dialect = Dialect::Mcp20251125;
    judged.protocol.version = Some("2025-11-25".to_string());
    judged.protocol.recognised_by = "initialize".to_string();
    judged.session.name = "stress \x1b[31m<b>|`@all`".to_string();
    judged.cancels.sent = [3, 0];
    judged.cancels.ends[CancelEnd::Silent as usize] = 2;
    judged.cancels.ends[CancelEnd::Moot as usize] = 1;
    judged.cancels.targets = [2, 1, 0, 0, 0, 0, 0];
    judged.cancels.verdicts = vec![CancelVerdict {
        dialect: Dialect::Mcp20251125,
        end: CancelEnd::Silent,
        count: 2,
        judgement: "conforming",
        consequence: "a client that waits for a reply hangs",
        resolved: false,
    }];
    judged.findings = vec![Finding {
        rule: crate::finding::rule("abandoned-request").expect("a rule"),
        severity: Severity::Leak,
        fault: Blame::Client,
        asked_by: Some(Side::Client),
        by: Some(Side::Client),
        method: Some("tools/call".to_string()),
        tool: Some("hangs_forever_async".to_string()),
        dialect: Dialect::Mcp20251125,
        subjects: (4..24).map(|id| id.to_string()).collect(),
        count: 50,
        first_at: judged.series.starts_at() + 500_000,
        last_at: judged.series.ends_at(),
        figures: vec![("gives up after", Figure::Duration(102_000))],
        events: vec![9, 10, 11],
    }];
    judged.notes = vec![Note { kind: NoteKind::Hint, text: "a hint \u{202e}that bends".to_string() }];
    let program = |name: &str, version: &str| Some(Program { name: name.into(), version: Some(version.into()) });
    let peers = Peers { client: program("mcp", "0.1.0"), server: program("stress", "1.29.0") };
    let mut told = Told::new(Some(7), judged, Rows::default(), peers);
    told.transcripts = vec!["0.5s   -> 4 tools/call {\"name\":\"hangs_forever_async\"}\n".to_string()];
    told
}

fn report() -> Report {
    Report {
        source: Some("my store.db".to_string()),
        is_store: true,
        sessions: vec![told()],
        pool: Some(10),
        remarks: vec!["a file was left out".to_string()],
    }
}

fn hold(name: &str, made: &str) {
    // A new version of the program is no new report.
    let made = &made.replace(&format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION")), "\"version\": \"X\"");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden").join(name);
    if std::env::var_os("RPCTAP_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, made).expect("a file");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == *made, "{name} is not what is written down; it is now:\n{made}");
}

#[test]
fn text_in_a_pipe_is_plain() {
    let made = text::render(&report(), Look::PLAIN).unwrap();
    assert!(!made.contains('\x1b'));
    hold("report.txt", &made);
}

#[test]
fn text_on_a_terminal_has_a_table_and_colour() {
    let look = Look { columns: Some(100), colour: true };
    let made = text::render(&report(), look).unwrap();
    assert!(made.contains("\x1b[") && !made.contains("\x1b[31m<b>"));
    hold("report.terminal.txt", &made);
    let without = text::render(&report(), Look { colour: false, ..look }).unwrap();
    assert!(!without.contains('\x1b') && without.contains("median"));
}

#[test]
fn json_keeps_its_shape() {
    let made = json::render(&report(), Look::PLAIN).unwrap();
    let value: serde_json::Value = serde_json::from_str(&made).unwrap();
    let session = &value["sessions"][0];
    assert_eq!(value["version"], 1);
    assert_eq!(session["protocol"]["name"], "mcp");
    assert_eq!(session["outcomes"]["client"]["abandoned"], 50);
    assert_eq!(session["cancels"]["silent"], 2);
    let finding = &session["findings"][0];
    for key in ["rule", "severity", "fault", "asked_by", "method", "subject", "count", "events"] {
        assert!(!finding[key].is_null(), "{key}");
    }
    assert!(session["limits"]["deadline_ms"].is_u64());
    hold("report.json", &made);
}

#[test]
fn markdown_can_be_pasted() {
    let made = markdown::render(&report(), Look::PLAIN).unwrap();
    assert!(!made.contains("<b>") && !made.contains("@all") && !made.contains('\x1b'));
    hold("report.md", &made);
}

#[test]
fn growth_that_no_leak_proves_is_told_as_such() {
    let mut judged = abandoned();
    let mut series = crate::exchange::Series::default();
    for n in 0..4_000 {
        let at = n * 100_000;
        series.opened(crate::exchange::Track::ClientRequests, at);
        if n % 100 != 7 {
            series.closed(crate::exchange::Track::ClientRequests, at, at + 2_000);
        }
    }
    judged.trend = crate::exchange::trend::judge(&series, true);
    judged.series = series;
    let told = Told::new(None, judged, Rows::default(), Peers::default());
    let report = Report { source: None, is_store: false, sessions: vec![told], pool: Some(100), remarks: Vec::new() };
    let made = text::render(&report, Look { columns: Some(160), colour: false }).unwrap();
    let line = "Leaked work              0  nothing proven leaked, yet growing: what is left hanging rose by";
    assert!(made.contains(line), "{made}");
    assert!(made.contains("a pool of 100 will be exhausted in about 10 min or 6,"), "{made}");
}

#[test]
fn a_page_stays_small_whatever_a_peer_names() {
    let mut report = report();
    let one = report.sessions[0].judged.methods[1].clone();
    for n in 0..20_000 {
        let method = format!("{n}/{}", "</script>\u{2028}".repeat(20));
        report.sessions[0].judged.methods.push(crate::finding::MethodFacts { method, ..one.clone() });
    }
    let made = html::render(&report, Look::PLAIN).unwrap();
    assert!(made.len() < 2_000_000, "{}", made.len());
    assert_eq!(made.matches("</script>").count(), 2, "only the page's own");
    assert!(!made.contains('\u{2028}'));
}

#[test]
fn sessions_that_nobody_ended_are_told_in_every_form() {
    let mut report = report();
    for n in 0..50 {
        let mut told = told();
        let opened_at = n * 10_000_000;
        told.judged.http_session = Some(HttpSession {
            opened_at,
            used_at: opened_at + 1_000_000,
            idle: 60_000_000,
            end: if n % 10 == 0 { SessionEnd::Ended } else { SessionEnd::NeverEnded },
        });
        report.sessions.push(told);
    }
    let said = "5 ended, 0 in use, 45 never ended; growing";
    assert!(text::render(&report, Look::PLAIN).unwrap().contains(said));
    assert!(html::render(&report, Look::PLAIN).unwrap().contains(said));
    assert!(markdown::render(&report, Look::PLAIN).unwrap().contains(said));
    let made: serde_json::Value = serde_json::from_str(&json::render(&report, Look::PLAIN).unwrap()).unwrap();
    assert_eq!(made.pointer("/totals/http_sessions/0/never_ended"), Some(&serde_json::json!(45)));
}
