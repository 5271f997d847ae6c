//! What is let go because too much is open is judged and counted as if it had been followed.

use super::{Analyzer, Judged, NoteKind, Options};
use crate::event::transcript;
use crate::exchange::series::View;
use crate::exchange::{TaskEnd, TokenEnd};
use crate::protocol::Dialect;

/// Judges a conversation twice: as it is, and with so few bytes for what is open that most of it is let go.
fn both_ways(conversation: &str, most_bytes: usize) -> (Judged, Judged) {
    let talk = transcript::parse(conversation).expect("a conversation");
    let protocol = talk.protocol.as_deref().and_then(Dialect::from_flag);
    let options = Options { protocol, ..Options::default() };
    let judge = |most_bytes: usize| {
        let mut analyzer = Analyzer::new(&talk.collected.sessions[0], &options);
        for event in &talk.collected.events {
            analyzer.feed(event, |_| {});
            analyzer.keep_within(most_bytes);
            assert!(analyzer.open_bytes() <= most_bytes);
        }
        analyzer.finish(talk.as_of)
    };
    (judge(usize::MAX), judge(most_bytes))
}

fn verdicts(judged: &Judged) -> Vec<String> {
    let findings = judged.findings.iter().map(|f| {
        let (method, tool) = (f.method.as_deref().unwrap_or("-"), f.tool.as_deref().unwrap_or("-"));
        format!("{}/{} {method} {tool} {}", f.rule.name, f.severity.name(), f.count)
    });
    let methods = judged.methods.iter().map(|m| format!("{} {:?} {:?}", m.method, m.tool, m.outcomes));
    let ends = [
        format!("{:?} {:?}", judged.outcomes, judged.cancels.ends),
        format!("{:?} {}", judged.trend.growth, judged.series.leaked_in_all()),
    ];
    findings.chain(methods).chain(ends).collect()
}

fn told(judged: &Judged) -> Option<&str> {
    let about = |text: &str| text.starts_with("More requests were open at once");
    judged.notes.iter().find(|n| n.kind == NoteKind::Capture && about(&n.text)).map(|n| n.text.as_str())
}

fn asked(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).map(|n| format!("{}ms {}\n", n * 20, each(n))).collect()
}

#[test]
fn requests_that_are_let_go_keep_their_verdicts_and_their_growth() {
    for protocol in ["json-rpc", "lsp", "mcp-2025-06-18"] {
        for end in ["", "200s |closed|", "200s |exit 1|"] {
            let calls = asked(4_000, |n| match n % 3 {
                0 => format!("-> {n} work {{\"n\":{n}}}"),
                1 => format!("-> \"text-{n}\" other {{\"n\":{n}}}\n <- \"text-{n}\" result"),
                _ => format!("<- {n} question {{\"n\":{n}}}"),
            });
            let (plain, thin) = both_ways(&format!("protocol {protocol}\n{calls}{end}\n"), 20_000);
            assert_eq!(verdicts(&plain), verdicts(&thin), "{protocol} {end}");
            assert!(told(&plain).is_none() && told(&thin).is_some());
            let curve = |judged: &Judged| {
                let points = judged.series.points(View::Opened);
                points.iter().map(|point| point.leaked_in_all() + point.unclosed[0]).collect::<Vec<_>>()
            };
            let (plain, thin) = (curve(&plain), curve(&thin));
            assert_eq!(plain.len(), thin.len());
            assert_eq!(plain.last(), thin.last());
            for (plain, thin) in plain.iter().zip(&thin) {
                assert!(plain.abs_diff(*thin) <= 64, "{plain} {thin}");
            }
        }
    }
}

#[test]
fn cancelled_ones_that_are_let_go_stay_cancelled() {
    for (protocol, cancel, name) in
        [("lsp", "$/cancelRequest", "id"), ("mcp-2025-06-18", "notifications/cancelled", "requestId")]
    {
        let calls = asked(2_000, |n| match n % 2 {
            0 => format!("-> {n} work {{\"n\":{n}}}\n -> {cancel} {{\"{name}\":{n}}}"),
            _ => format!("-> {n} work {{\"n\":{n}}}"),
        });
        let (plain, thin) = both_ways(&format!("protocol {protocol}\n{calls}100s |closed|\n"), 20_000);
        assert_eq!(verdicts(&plain), verdicts(&thin), "{protocol}");
    }
}

#[test]
fn answers_and_cancels_of_what_was_let_go_are_booked_and_told() {
    let calls = asked(2_000, |n| format!("-> {n} work {{\"n\":{n}}}"));
    let answers: String = (0..500).map(|n| format!("41s <- {n} result\n")).collect();
    let cancels: String =
        (500..700).map(|n| format!("42s -> notifications/cancelled {{\"requestId\":{n}}}\n")).collect();
    let unknown = "43s <- 99999 result\n";
    let talk = format!("protocol mcp-2025-06-18\n{calls}{answers}{cancels}{unknown}100s |closed|\n");
    let (plain, thin) = both_ways(&talk, 20_000);
    assert_eq!(plain.outcomes, thin.outcomes);
    assert_eq!(plain.counts.strays, thin.counts.strays);
    let text = told(&thin).expect("it is told");
    assert!(text.contains("700 of them were answered or cancelled later"), "{text}");
}

#[test]
fn what_stands_for_many_is_shown_once() {
    let calls = asked(3_000, |n| format!("-> {n} work {{\"n\":{n}}}"));
    let (plain, thin) = both_ways(&format!("protocol lsp\n{calls}200s |closed|\n"), 20_000);
    assert_eq!(verdicts(&plain), verdicts(&thin));
    let orphans = thin.findings.iter().find(|f| f.rule.name == "orphaned-request").expect("orphans");
    let mut subjects = orphans.subjects.clone();
    subjects.dedup();
    assert_eq!((subjects.len(), orphans.count > 2_000), (super::MOST_SUBJECTS, true), "{subjects:?}");
}

#[test]
fn tasks_and_tokens_that_are_let_go_are_counted_and_heard_of_again() {
    let tasks = asked(1_000, |n| {
        format!(
            "-> {n} tools/call {{\"name\":\"x\",\"task\":{{}}}}\n <- {n} result {{\"task\":{{\"taskId\":\"t{n}\",\"status\":\"working\"}}}}"
        )
    });
    let news: String = (0..300)
        .map(|n| format!("21s <- notifications/tasks/status {{\"taskId\":\"t{n}\",\"status\":\"failed\"}}\n"))
        .collect();
    let (judged, _) = both_ways(&format!("protocol mcp-2025-11-25\n{tasks}{news}200s |closed|\n"), usize::MAX);
    assert_eq!((judged.tasks.opened, judged.tasks.end(TaskEnd::Finished)), (1_000, 300));
    assert_eq!(judged.tasks.end(TaskEnd::Forgotten), 700);
    assert_eq!(judged.series.leaked_in_all(), 700);
    assert!(judged.notes.iter().any(|note| note.text.starts_with("More tasks or progress tokens")));

    let tokens = asked(1_000, |n| {
        format!("<- $/progress {{\"token\":\"t{n}\",\"value\":{{\"kind\":\"begin\",\"title\":\"x\"}}}}")
    });
    let ends: String = (0..300)
        .map(|n| format!("21s <- $/progress {{\"token\":\"t{n}\",\"value\":{{\"kind\":\"end\"}}}}\n"))
        .collect();
    let (judged, _) = both_ways(&format!("protocol lsp\n{tokens}{ends}200s |closed|\n"), usize::MAX);
    assert_eq!((judged.tokens.opened, judged.tokens.end(TokenEnd::Ended)), (1_000, 300));
    assert_eq!(judged.tokens.end(TokenEnd::NeverEnded), 700);
}
