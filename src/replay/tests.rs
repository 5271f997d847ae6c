//! Replays against a peer that lives in the test: no process, no clock to speak of.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use super::compare::Difference;
use super::*;
use crate::event::{Collected, Knows, Recording, Scribe, Session, Side, Source, Stamper};

/// Reads `0 -> {…}` lines: milliseconds, who, the message.
pub(crate) fn recording(text: &str) -> Recording {
    let session = Session {
        key: 1,
        name: "test".to_string(),
        source: Source::Stdio,
        target: String::new(),
        started_at: 0,
        knows: Knows::ALL,
    };
    let mut kept = Collected::default();
    let mut scribe = Scribe::new(1);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (at, rest) = line.split_once(' ').expect("a time");
        let (arrow, body) = rest.trim().split_once(' ').expect("an arrow");
        let from = if arrow == "->" { Side::Client } else { Side::Server };
        scribe.body(from, at.parse::<i64>().expect("a number") * 1000, None, body.as_bytes(), &mut kept);
    }
    let mut recording = Recording::new(&session);
    for event in std::mem::take(&mut kept.events) {
        recording.take(&event, &mut kept);
    }
    recording
}

pub(crate) struct Mock<F> {
    /// Said when we close our end.
    last_words: Vec<Value>,
    answer: F,
    queue: VecDeque<Heard>,
    stamper: Stamper,
    pub sent: Vec<Value>,
}

impl<F: FnMut(&Value) -> Vec<Value>> Mock<F> {
    pub fn new(answer: F, stamper: Stamper) -> Mock<F> {
        Mock { last_words: Vec::new(), answer, queue: VecDeque::new(), stamper, sent: Vec::new() }
    }
}

impl<F: FnMut(&Value) -> Vec<Value>> Peer for Mock<F> {
    fn send(&mut self, body: &[u8]) -> Option<u64> {
        let value: Value = serde_json::from_slice(body).expect("we send JSON");
        for answer in (self.answer)(&value) {
            let what = match answer {
                Value::Null => HeardWhat::Exited { code: Some(3), signal: None },
                answer => HeardWhat::Bytes(format!("{answer}\n").into_bytes()),
            };
            self.queue.push_back(Heard { at: self.stamper.now(), what });
        }
        self.sent.push(value);
        None
    }

    fn hear(&mut self, wait: Duration) -> Option<Heard> {
        self.queue.pop_front().or_else(|| {
            std::thread::sleep(wait.min(Duration::from_millis(1)));
            None
        })
    }

    fn close(&mut self) {
        for words in std::mem::take(&mut self.last_words) {
            let what = HeardWhat::Bytes(format!("{words}\n").into_bytes());
            self.queue.push_back(Heard { at: self.stamper.now(), what });
        }
        self.queue.push_back(Heard { at: self.stamper.now(), what: HeardWhat::Closed });
        self.queue.push_back(Heard { at: self.stamper.now(), what: HeardWhat::Exited { code: Some(0), signal: None } });
    }

    fn end(&mut self) {}
}

fn quick() -> Play {
    let patience = Patience { answer_ms: 60, notice_ms: 30, hang_ms: 40, drain_ms: 50, ..Patience::default() };
    Play { pace: Pace::Instant, patience, times: 1, target: "mock".to_string() }
}

fn play(text: &str, play: &Play, answer: impl FnMut(&Value) -> Vec<Value>) -> (Script, Run, Comparison, Vec<Value>) {
    let script = Script::new(recording(text)).expect("a script");
    let stamper = Stamper::start();
    let mut peer = Mock::new(answer, stamper);
    let run = play.run(&script, &mut peer, stamper);
    let comparison = Comparison::new(&script, &run, &Ignore::default());
    (script, run, comparison, peer.sent)
}

fn result(request: &Value, result: Value) -> Vec<Value> {
    vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})]
}

const HANDSHAKE: &str = r#"
0 -> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
5 <- {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
6 -> {"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

fn shake(request: &Value) -> Option<Vec<Value>> {
    match request["method"].as_str() {
        Some("initialize") => Some(result(
            request,
            json!({"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}),
        )),
        Some("notifications/initialized") => Some(Vec::new()),
        _ => None,
    }
}

#[test]
fn the_same_server_gives_the_same_run_a_hundred_times() {
    let text = format!(
        "{HANDSHAKE}{}",
        r#"
        10 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
        11 -> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b"}}
        12 <- {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
        13 <- {"jsonrpc":"2.0","id":2,"result":{"n":2}}
        15 <- {"jsonrpc":"2.0","id":1,"result":{"n":1}}
        16 -> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hang"}}
        "#
    );
    for round in 0..100 {
        let (_, run, comparison, sent) = play(&text, &quick(), |request| {
            shake(request).unwrap_or_else(|| match request["params"]["name"].as_str() {
                Some("a") => {
                    let mut all = vec![
                        json!({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}),
                    ];
                    all.extend(result(request, json!({"n": 1})));
                    all
                }
                Some("b") => result(request, json!({"n": 2})),
                _ => Vec::new(),
            })
        });
        assert!(comparison.same(), "round {round}: {:?}", comparison.differences);
        assert_eq!(run.ending, Ending::Played);
        assert_eq!(sent.len(), 5);
    }
}

#[test]
fn a_hang_that_is_mended_and_an_answer_that_hangs_are_told_first() {
    let text = format!(
        "{HANDSHAKE}{}",
        r#"
        10 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
        11 -> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b"}}
        13 <- {"jsonrpc":"2.0","id":2,"result":{"n":2}}
        14 -> {"jsonrpc":"2.0","id":3,"method":"tools/list"}
        15 <- {"jsonrpc":"2.0","id":3,"result":{"tools":[1,2]}}
        "#
    );
    let (_, run, comparison, _) = play(&text, &quick(), |request| {
        shake(request).unwrap_or_else(|| match (request["id"].as_i64(), request["method"].as_str()) {
            (Some(1), _) => result(request, json!({})),
            (Some(3), _) => result(request, json!({"tools":[1,3]})),
            _ => Vec::new(),
        })
    });
    let words: Vec<String> = comparison.differences.iter().map(Difference::words).collect();
    assert_eq!(
        words,
        [
            "1 tools/call (a): was left hanging, is answered",
            "2 tools/call (b): was answered, is left hanging",
            "the answer to 3 tools/list at /result/tools/1: was 2, is 3",
        ]
    );
    assert!(run.notes.iter().any(|note| note.kind == NoteKind::GaveUpWaiting && note.text.contains("answer limit")));
    assert!(
        comparison.rows.iter().any(|row| row.mark == '-' && row.text.starts_with("<- 2 result")),
        "{:?}",
        comparison.rows
    );
    assert!(
        comparison.rows.iter().any(|row| row.mark == '+' && row.text.starts_with("<- 1 result")),
        "{:?}",
        comparison.rows
    );
}

#[test]
fn a_cancel_goes_out_only_while_its_request_is_open() {
    let text = format!(
        "{HANDSHAKE}{}",
        r#"
        10 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}
        20 -> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
        "#
    );
    let cancels = |sent: &[Value]| sent.iter().filter(|value| value["method"] == "notifications/cancelled").count();
    let (_, _, comparison, sent) = play(&text, &quick(), |request| shake(request).unwrap_or_default());
    assert!(comparison.same(), "{:?}", comparison.differences);
    assert_eq!(cancels(&sent), 1);
    let (_, run, comparison, sent) =
        play(&text, &quick(), |request| shake(request).unwrap_or_else(|| result(request, json!({}))));
    assert_eq!(cancels(&sent), 0);
    assert_eq!(comparison.differences[0].words(), "1 tools/call (slow): was cancelled, then silent, is answered");
    assert!(run.notes.iter().any(|note| note.kind == NoteKind::ServerWasFaster), "{:?}", run.notes);
}

#[test]
fn live_ids_and_handles_take_the_place_of_recorded_ones() {
    let text = format!(
        "{HANDSHAKE}{}",
        r#"
        10 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","task":{}}}
        11 <- {"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"task-aaa","status":"working"}}}
        12 <- {"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"q":"ok?"}}
        13 -> {"jsonrpc":"2.0","id":77,"result":{"action":"accept"}}
        14 -> {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"task-aaa"}}
        15 <- {"jsonrpc":"2.0","id":2,"result":{"taskId":"task-aaa","status":"completed"}}
        "#
    );
    let (_, _, comparison, sent) = play(&text, &quick(), |request| {
        shake(request).unwrap_or_else(|| match request["method"].as_str() {
            Some("tools/call") => {
                let mut all = result(request, json!({"task":{"taskId":"task-bbb","status":"working"}}));
                all.push(json!({"jsonrpc":"2.0","id":"q-1","method":"elicitation/create","params":{"q":"ok?"}}));
                all
            }
            Some("tasks/get") => result(request, json!({"taskId": request["params"]["taskId"], "status":"completed"})),
            _ => Vec::new(),
        })
    });
    assert!(comparison.same(), "{:?}", comparison.differences);
    assert!(sent.iter().any(|value| value["id"] == "q-1" && value["result"]["action"] == "accept"), "{sent:?}");
    assert!(sent.iter().any(|value| value["params"]["taskId"] == "task-bbb"), "{sent:?}");
}

#[test]
fn repeated_play_renames_ids_and_shows_what_piles_up() {
    let text = format!(
        "{HANDSHAKE}{}",
        r#"
        10 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"leak","_meta":{"progressToken":"p"}}}
        11 -> {"jsonrpc":"2.0","id":2,"method":"ping"}
        12 <- {"jsonrpc":"2.0","id":2,"result":{}}
        "#
    );
    let many = Play { times: 10, ..quick() };
    let (_, run, _, sent) = play(&text, &many, |request| {
        shake(request)
            .unwrap_or_else(|| if request["method"] == "ping" { result(request, json!({})) } else { Vec::new() })
    });
    let ids: std::collections::HashSet<String> =
        sent.iter().filter(|v| v.get("id").is_some()).map(|v| v["id"].to_string()).collect();
    assert_eq!(ids.len(), 21);
    assert_eq!(run.rounds.iter().map(|round| round.open).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    assert!((expect::growth(&run.rounds).unwrap() - 1.0).abs() < 1e-9);
    let (_, run, _, _) = play(&text, &many, |request| shake(request).unwrap_or_else(|| result(request, json!({}))));
    assert_eq!(expect::growth(&run.rounds), Some(0.0));
}

#[test]
fn a_server_that_ends_floods_or_says_nonsense_ends_the_run_with_a_word() {
    let text = format!(
        "{HANDSHAKE}10 -> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}\n11 <- {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{}}}}"
    );
    let (_, run, comparison, _) = play(&text, &quick(), |_| vec![Value::Null]);
    assert_eq!(run.ending, Ending::ServerEnded { code: Some(3), signal: None });
    assert!(!comparison.same());
    let mut flood = quick();
    flood.patience.flood_bytes = 10_000;
    let (_, run, _, _) = play(&text, &flood, |_| vec![json!({"x": "y".repeat(600)}); 100]);
    assert_eq!(run.ending, Ending::Flooded);
    let (_, run, comparison, _) =
        play(&text, &quick(), |_| vec![json!("nonsense"), json!([]), json!({"id": 999, "result": 1})]);
    assert_eq!(run.ending, Ending::Played);
    assert_eq!(comparison.lifecycle().count(), 2, "{:?}", comparison.differences);
}

#[test]
fn nothing_to_replay_is_said_so() {
    let empty = recording(r#"0 <- {"jsonrpc":"2.0","method":"x"}"#);
    assert!(Script::new(empty).unwrap_err().to_string().contains("no message of the client"));
    let mut guessed = recording(r#"0 -> {"jsonrpc":"2.0","method":"x"}"#);
    guessed.session.knows.direction = false;
    assert!(Script::new(guessed).unwrap_err().to_string().contains("who sent which"));
}

#[test]
fn an_answer_that_comes_only_when_we_close_is_a_hang() {
    let text = format!(
        "{HANDSHAKE}10 -> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"a\"}}}}"
    );
    let script = Script::new(recording(&text)).expect("a script");
    let stamper = Stamper::start();
    let mut peer = Mock::new(|request: &Value| shake(request).unwrap_or_default(), stamper);
    peer.last_words = vec![json!({"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Connection closed"}})];
    let run = quick().run(&script, &mut peer, stamper);
    assert!(run.lines.iter().any(|line| line.message.kind == crate::rpc::Kind::Error), "it was heard");
    let comparison = Comparison::new(&script, &run, &Ignore::default());
    assert!(comparison.same(), "{:?}", comparison.differences);
}
