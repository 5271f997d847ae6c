//! The stage, heard without a transport and without a clock.

use serde_json::Value;

use super::compare::Ignore;
use super::play::Pace;
use super::script::Script;
use super::server::{Cue, Stage, Unmatched};
use super::tests::recording;
use crate::event::Line;

fn stage(text: &str, pace: Pace, faults: &[&str], ignore: &[&str]) -> Stage {
    let script = Script::new(recording(text)).expect("a script");
    let faults = faults.iter().map(|fault| fault.parse().expect("a fault")).collect();
    Stage::new(script, pace, Unmatched::Error, faults, Ignore::new(ignore.iter().copied()))
}

fn line(body: &str) -> Line {
    recording(&format!("0 -> {body}")).lines.remove(0)
}

/// What is said by `now` (milliseconds), as JSON.
fn said(stage: &mut Stage, now: i64) -> Vec<Value> {
    let value = |cue| match cue {
        Cue::Say { text, .. } => serde_json::from_str(&text).expect("JSON"),
        Cue::Disconnect => Value::from("disconnect"),
        Cue::Forward(_) => Value::from("forward"),
    };
    stage.due(now * 1000).into_iter().map(value).collect()
}

fn hear(stage: &mut Stage, now: i64, body: &str) {
    stage.hear(&line(body), now * 1000);
}

const TALK: &str = r#"
0 -> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"c","version":"1"}}}
5 <- {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}
6 -> {"jsonrpc":"2.0","method":"notifications/initialized"}
8 <- {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
10 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"a":1,"b":2},"_meta":{"progressToken":1}}}
15 <- {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":5}}
20 <- {"jsonrpc":"2.0","id":1,"result":{"n":1}}
30 -> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"a":1,"b":2}}}
40 <- {"jsonrpc":"2.0","id":2,"result":{"n":2}}
50 -> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hang"}}
60 -> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"late"}}
70 -> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}
95 <- {"jsonrpc":"2.0","id":4,"error":{"code":0,"message":"Request cancelled"}}
100 -> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ask"}}
105 <- {"jsonrpc":"2.0","id":"s-1","method":"elicitation/create","params":{}}
120 -> {"jsonrpc":"2.0","id":"s-1","result":{"action":"accept"}}
130 <- {"jsonrpc":"2.0","id":5,"result":{"done":true}}
"#;

#[test]
fn requests_are_matched_without_what_varies_and_repeat_in_recorded_order() {
    let mut stage = stage(TALK, Pace::Instant, &[], &[]);
    hear(
        &mut stage,
        0,
        r#"{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"other","version":"9"}}}"#,
    );
    assert_eq!(said(&mut stage, 0)[0]["id"], "x");
    hear(&mut stage, 1, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(said(&mut stage, 1)[0]["method"], "notifications/tools/list_changed");
    let call = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"arguments":{{"b":2,"a":1}},"name":"count","_meta":{{"progressToken":"tok"}}}}}}"#
        )
    };
    hear(&mut stage, 2, &call(70));
    let first = said(&mut stage, 2);
    assert_eq!(first[0]["params"]["progressToken"], "tok");
    assert_eq!((first[1]["id"].as_i64(), first[1]["result"]["n"].as_i64()), (Some(70), Some(1)));
    hear(&mut stage, 3, &call(71));
    assert_eq!(said(&mut stage, 3).last().unwrap()["result"]["n"], 2);
    hear(&mut stage, 4, &call(72));
    let third = said(&mut stage, 4);
    assert_eq!((third[0]["id"].as_i64(), third[0]["result"]["n"].as_i64()), (Some(72), Some(2)));
    assert!(stage.notes().iter().any(|note| note.contains("more often than recorded")));
}

#[test]
fn silence_late_answers_and_answers_after_a_cancel_are_kept() {
    let mut stage = stage(TALK, Pace::Recorded, &[], &[]);
    hear(&mut stage, 0, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}"#);
    assert_eq!(said(&mut stage, 1_000_000), Vec::<Value>::new());
    hear(&mut stage, 0, r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late"}}"#);
    hear(&mut stage, 3, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!(said(&mut stage, 27), Vec::<Value>::new());
    let late = said(&mut stage, 28);
    assert_eq!((late.len(), late[0]["error"]["code"].as_i64()), (1, Some(0)));
    assert_eq!(said(&mut stage, 1_000_000), Vec::<Value>::new());
}

#[test]
fn a_request_of_the_server_holds_back_what_waited_for_its_answer() {
    let mut stage = stage(TALK, Pace::Instant, &[], &[]);
    hear(&mut stage, 0, r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ask"}}"#);
    let asked = said(&mut stage, 0);
    assert_eq!((asked.len(), asked[0]["method"].as_str()), (1, Some("elicitation/create")));
    assert_eq!(said(&mut stage, 1_000_000), Vec::<Value>::new());
    hear(&mut stage, 2_000_000, r#"{"jsonrpc":"2.0","id":"s-1","result":{"action":"decline"}}"#);
    assert_eq!(said(&mut stage, 2_000_000)[0]["id"], 9);
}

#[test]
fn what_is_not_on_record_is_answered_with_what_is_nearest() {
    let mut stage = stage(TALK, Pace::Instant, &[], &[]);
    hear(
        &mut stage,
        0,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"a":1,"b":3}}}"#,
    );
    let error = said(&mut stage, 0)[0]["error"]["message"].as_str().unwrap().to_string();
    assert!(error.contains("/params/arguments/b"), "{error}");
    hear(&mut stage, 0, r#"{"jsonrpc":"2.0","id":2,"method":"tool/call","params":{}}"#);
    let error = said(&mut stage, 0)[0]["error"]["message"].as_str().unwrap().to_string();
    assert!(error.contains("nearest is tools/call"), "{error}");
}

#[test]
fn ignored_pointers_match_and_faults_come_on_top() {
    let mut stage = stage(
        TALK,
        Pace::Instant,
        &["tools/call(late): error=-32000", "initialize: delay=2s", "ping: disconnect", "tools/list: drop"],
        &["/params/arguments/b"],
    );
    hear(
        &mut stage,
        0,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"a":1,"b":3}}}"#,
    );
    assert_eq!(said(&mut stage, 0).last().unwrap()["result"]["n"], 1);
    hear(&mut stage, 0, r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late"}}"#);
    assert_eq!(said(&mut stage, 0)[0]["error"]["code"], -32000);
    hear(&mut stage, 0, r#"{"jsonrpc":"2.0","id":3,"method":"initialize"}"#);
    assert_eq!(said(&mut stage, 1_999), Vec::<Value>::new());
    assert_eq!(said(&mut stage, 2_000)[0]["id"], 3);
    hear(&mut stage, 3_000, r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#);
    hear(&mut stage, 3_000, r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(said(&mut stage, 4_000), [Value::from("disconnect")]);
}
