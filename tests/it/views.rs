//! The views that plain `sqlite3` users see, held against the analyzer's own pairing.

use std::collections::BTreeSet;

use rpctap::event::{Collected, Knows, Scribe, Session, Side, Sink, Source};
use rpctap::exchange::{Fact, Fold, Limits};
use rpctap::store::Store;

/// A small source of chance: the same seed gives the same conversation.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Lines both ways: requests, answers (also twice, also to nothing), ids of all kinds, used again while open and after.
fn conversation(seed: u64) -> Vec<(Side, String)> {
    let mut chance = Chance(seed);
    let ids = ["1", "\"1\"", "2", "2.0", "\"a\\\"b\"", "0", "-7", "18446744073709551616"];
    let mut known: Vec<(Side, &str)> = Vec::new();
    let mut lines = Vec::new();
    for turn in 0..60 {
        let side = if chance.below(2) == 0 { Side::Client } else { Side::Server };
        let id = ids[chance.below(ids.len() as u64) as usize];
        let line = match chance.below(10) {
            0..=4 => {
                known.push((side, id));
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work/{}"}}"#, turn % 3)
            }
            5..=8 if !known.is_empty() => {
                let (asker, id) = known[chance.below(known.len() as u64) as usize];
                let what = match chance.below(3) {
                    0 => r#""error":{"code":-1,"message":"no"}"#,
                    1 => r#""result":null"#,
                    _ => r#""result":{"ok":true}"#,
                };
                lines.push((asker.other(), format!(r#"{{"jsonrpc":"2.0","id":{id},{what}}}"#)));
                continue;
            }
            _ => r#"{"jsonrpc":"2.0","method":"note"}"#.to_string(),
        };
        lines.push((side, line));
    }
    lines
}

fn tell(lines: &[(Side, String)], sink: &mut dyn Sink) {
    sink.session(&Session {
        key: 1,
        name: "random".to_string(),
        source: Source::Stdio,
        target: String::new(),
        started_at: 1_700_000_000_000_000,
        knows: Knows::ALL,
    });
    let mut scribe = Scribe::new(1);
    for (at, (side, line)) in lines.iter().enumerate() {
        scribe.bytes(*side, 1_700_000_000_000_000 + at as i64 * 1000, format!("{line}\n").as_bytes(), sink);
    }
}

fn facts(lines: &[(Side, String)]) -> Vec<Fact> {
    let mut collected = Collected::default();
    tell(lines, &mut collected);
    let mut fold = Fold::new(Knows::ALL, Limits::default(), None);
    let mut facts = Vec::new();
    for event in &collected.events {
        fold.event(event, &mut facts);
    }
    fold.finish(None, &mut facts);
    facts
}

fn stored(lines: &[(Side, String)]) -> Store {
    let mut writer = Store::in_memory().writer();
    tell(lines, &mut writer);
    writer.finish().expect("written")
}

#[test]
fn exchanges_pair_as_the_analyzer_does() {
    for seed in 0..200 {
        let lines = conversation(seed);
        let wanted: BTreeSet<_> = facts(&lines)
            .into_iter()
            .filter_map(|fact| match fact {
                Fact::Exchange(exchange) => Some((
                    exchange.opened_seq.to_string(),
                    exchange.asked_by.name().to_string(),
                    exchange.answer.map_or("-".to_string(), |answer| answer.seq.to_string()),
                    exchange.error_code.map_or("-".to_string(), |code| code.to_string()),
                )),
                _ => None,
            })
            .collect();
        let rows = stored(&lines).query("SELECT asked_seq, asker, answered_seq, error_code FROM exchanges").unwrap();
        let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "-".to_string());
        let found: BTreeSet<_> =
            rows.iter().map(|row| (cell(&row[0]), cell(&row[1]), cell(&row[2]), cell(&row[3]))).collect();
        assert_eq!(rows.len(), wanted.len(), "seed {seed}");
        let (extra, missing): (Vec<_>, Vec<_>) =
            (found.difference(&wanted).collect(), wanted.difference(&found).collect());
        assert!(extra.is_empty() && missing.is_empty(), "seed {seed}: {extra:?} against {missing:?}\n{lines:#?}");
    }
}

#[test]
fn the_unanswered_request_is_in_the_view() {
    let lines: Vec<(Side, String)> = [
        (Side::Client, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"dig"}}"#),
        (Side::Server, r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#),
        (Side::Server, r#"{"jsonrpc":"2.0","id":"1","result":null}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
    ]
    .map(|(side, line)| (side, line.to_string()))
    .into();
    let rows = stored(&lines).query("SELECT asker, method, tool, outcome FROM exchanges ORDER BY asked_seq").unwrap();
    let text = |cells: [Option<&str>; 4]| cells.map(|cell| cell.map(str::to_string)).to_vec();
    assert_eq!(
        rows,
        [
            text([Some("client"), Some("tools/call"), Some("dig"), Some("unanswered")]),
            text([Some("server"), Some("roots/list"), None, Some("result")]),
        ]
    );
}

#[test]
fn cancels_name_what_the_analyzer_says_they_name() {
    let lines: Vec<(Side, String)> = [
        (Side::Client, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#),
        (Side::Server, r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"b"}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}"#),
        (Side::Server, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#),
    ]
    .map(|(side, line)| (side, line.to_string()))
    .into();
    let rows = stored(&lines).query("SELECT seq, asked_seq, fate FROM cancels ORDER BY seq").unwrap();
    let text = |cells: [Option<&str>; 3]| cells.map(|cell| cell.map(str::to_string)).to_vec();
    assert_eq!(
        rows,
        [
            text([Some("5"), Some("4"), Some("unanswered")]),
            text([Some("7"), Some("3"), Some("came after the answer")]),
            text([Some("8"), None, Some("unknown")]),
        ]
    );
    let cancelled: Vec<u64> = facts(&lines)
        .into_iter()
        .filter_map(|fact| match fact {
            Fact::Exchange(exchange) if exchange.cancel.is_some() => Some(exchange.opened_seq),
            _ => None,
        })
        .collect();
    assert_eq!(cancelled, [4]);
}
