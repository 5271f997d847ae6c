//! What is taken for JSON-RPC and what is not, and that a log accuses nobody of its own lines.

use super::*;
use crate::event::{Collected, Event, What};
use crate::import::{Input, Options, read};
use crate::rpc::Kind;

fn collected(text: &str, options: &Options) -> Collected {
    let mut collected = Collected::default();
    let input = Input::from_reader("log", Box::new(std::io::Cursor::new(text.to_string())), None).expect("readable");
    assert_eq!(read(input, options, &mut 1, &mut collected).expect("messages"), "json-rpc");
    collected
}

fn told(text: &str) -> (Vec<Kind>, Vec<String>) {
    told_of(&collected(text, &Options::default()))
}

fn told_of(collected: &Collected) -> (Vec<Kind>, Vec<String>) {
    let kinds = collected.events.iter().filter_map(Event::message).map(|(_, message)| message.kind).collect();
    let lost = collected.events.iter().filter_map(|event| match &event.what {
        What::Happening(Happening::Lost { why, .. }) => Some(why.clone()),
        What::Fault { .. } => Some("a fault".to_string()),
        _ => None,
    });
    (kinds, lost.collect())
}

#[test]
fn logs_of_other_things_are_not_taken_for_json_rpc() {
    for line in [
        r#"{"id": 1, "level": "info", "msg": "hi", "time": 1700000000}"#,
        r#"{"method": "GET", "path": "/x", "status": 200, "id": 1}"#,
        r#"{"method": "GET", "id": 1}"#,
        r#"{"level": "error", "error": "boom", "id": 1}"#,
        r#"{"error": "boom", "id": 1}"#,
        r#"{"custom_id": "a", "method": "POST", "url": "/v1", "body": {}}"#,
        r#"{"id": "e1", "direction": "request", "message": {"jsonrpc": "2.0", "id": 0, "method": "initialize"}}"#,
        r#"{"id": 1, "name": "a", "params": {}}"#,
        r#"[INFO] {"jsonrpc": "2.0"}"#,
    ] {
        for count in [1, 20] {
            let text = format!("{line}\n").repeat(count);
            assert_eq!(Bare.recognise(text.as_bytes()), 0, "{count} times {line}");
        }
    }
}

#[test]
fn json_rpc_is_known_with_and_without_its_mark() {
    let marked = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"a\"}\n";
    let plain = "{\"id\": 0, \"method\": \"Page.navigate\", \"params\": {}}\n{\"id\": 0, \"result\": {}}\n";
    assert_eq!(Bare.recognise(marked.as_bytes()), 80);
    assert_eq!(Bare.recognise(plain.as_bytes()), 30);
    assert_eq!(Bare.recognise(format!("server is starting\n{}", marked.repeat(3)).as_bytes()), 80);
    let long = format!("{{\"id\":1,\"result\":\"{}\"}}\n", "x".repeat(100_000));
    assert_eq!(Bare.recognise(&long.as_bytes()[..crate::import::input::HEAD_BYTES]), 30);
}

const ASKED: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}";
const ANSWERED: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";

#[test]
fn a_line_of_a_log_that_is_no_message_is_a_bad_line_of_nobody() {
    let text = format!("{ASKED}\nINFO starting\n{{\"jsonrpc\":\"2.0\",\"meth\n{{\"level\":\"info\"}}\n{ANSWERED}");
    let (kinds, lost) = told(&text);
    assert_eq!(kinds, [Kind::Request, Kind::Result]);
    assert_eq!(lost, ["line 2: not JSON", "line 3: broken JSON", "line 4: no JSON-RPC message"]);
}

#[test]
fn a_list_and_messages_over_many_lines_are_read() {
    let over_lines = |text: &str| text.replace(',', ",\n  ").replace('{', "{\n  ");
    let (asked, answered) = (over_lines(ASKED), over_lines(ANSWERED));
    let both = vec![Kind::Request, Kind::Result];
    for text in [
        format!("[{ASKED},{ANSWERED}]"),
        format!("[\n {ASKED},\n {ANSWERED}\n]\n"),
        format!("[{asked},\n{answered}]\n"),
        format!("{asked}\n{answered}\n"),
    ] {
        assert_eq!(told(&text), (both.clone(), vec![]), "{text}");
    }
    let one_line_of_several = format!("[{ASKED},{ASKED}]\n{ANSWERED}\n");
    let given = collected(&one_line_of_several, &Options::default());
    let batched = given.events.iter().filter_map(Event::span).filter(|span| span.len == 2 * ASKED.len() as u64 + 3);
    assert_eq!(batched.count(), 2, "a batch stays one");
}

#[test]
fn that_a_file_ends_is_no_fault_of_a_peer() {
    assert_eq!(told(&format!("{ASKED}\n{ANSWERED}")).1, [""; 0]);
    let options = Options { direction: Some(Side::Client), ..Options::default() };
    let one_side = |text: &str| told_of(&collected(text, &options));
    let silent = "what the server sent is not in this file";
    assert_eq!(one_side(&format!("{ASKED}\n{ASKED}")), (vec![Kind::Request; 2], vec![silent.to_string(); 2]));
    let (_, lost) = one_side(&format!("{ASKED}\n{}", &ASKED[..20]));
    assert_eq!(lost, [silent, "the file ends within a message", silent]);
    let framed = format!("Content-Length: {}\r\n\r\n{ASKED}Content-Length: 99\r\n\r\n{{\"a", ASKED.len());
    assert_eq!(told(&framed), (vec![Kind::Request], vec!["the file ends within a message".to_string()]));
}
