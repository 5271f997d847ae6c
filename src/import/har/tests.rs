//! What a HAR leaves out is told, and who gave up.

use crate::event::{Collected, Happening, Party, Side, What};
use crate::import::{Input, Options, read};

fn happenings(request: &str, response: &str) -> Vec<Happening> {
    let text = format!(
        r#"{{"log": {{"version": "1.2", "entries": [{{"startedDateTime": "2026-11-18T05:24:09.274Z", "time": 2,
        "request": {{"method": "POST", "url": "http://h/mcp", "headers": [{{"name": "mcp-session-id", "value": "s"}},
        {{"name": "Content-Length", "value": "71"}}], {request}}},
        "response": {{"status": 200, "headers": [], {response}}}, "timings": {{"receive": -1}}}}]}}}}"#
    );
    let mut collected = Collected::default();
    let input = Input::from_reader("x.har", Box::new(std::io::Cursor::new(text.into_bytes())), None).expect("readable");
    read(input, &Options::default(), &mut 1, &mut collected).expect("a HAR");
    let told = collected.events.into_iter();
    told.filter_map(|event| if let What::Happening(what) = event.what { Some(what) } else { None }).collect()
}

#[test]
fn a_body_that_is_not_held_is_lost() {
    let stream = r#""content": {"size": 0, "mimeType": "text/event-stream", "text": ""}"#;
    for request in [r#""postData": {"text": null}"#, r#""bodySize": 71"#, r#""postData": {"text": "", "_file": "x"}"#] {
        let told = happenings(request, stream);
        let lost = told.iter().any(|what| matches!(what, Happening::Lost { from: Some(Side::Client), bytes: 71, .. }));
        assert!(lost, "{request}: {told:?}");
    }
}

#[test]
fn an_aborted_stream_was_closed_by_the_client() {
    let request = r#""postData": {"text": "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\"}"}"#;
    let by = |response: &str| {
        let told = happenings(request, response);
        told.into_iter().find_map(|what| match what {
            Happening::CarrierClosed { by, .. } => Some(by),
            _ => None,
        })
    };
    let aborted = r#""_failureText": "net::ERR_ABORTED", "content": {"size": -1, "mimeType": "#;
    assert_eq!(by(&format!(r#"{aborted}"text/event-stream"}}"#)), Some(Party::Client));
    // A page that does not read the empty body of a finished response looks the same.
    assert_eq!(by(&format!(r#"{aborted}"x-unknown"}}"#)), Some(Party::Server));
}

/// A HAR of two exchanges: the answer to `initialize`, and the one to what the client asked next.
fn two(first: &str, second: &str) -> String {
    let entry = |number: usize, method: &str, content: &str| {
        format!(
            r#"{{"startedDateTime": "2026-11-18T05:24:0{number}.274Z", "time": 2, "request": {{"method": "POST",
            "url": "http://h/mcp", "headers": [{{"name": "mcp-session-id", "value": "s"}}],
            "postData": {{"text": "{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"{method}\"}}"}}}},
            "response": {{"status": 200, "headers": [], "content": {{"mimeType": "application/json"{content}}}}}}}"#
        )
    };
    let (first, second) = (entry(0, "initialize", first), entry(1, "tools/list", second));
    format!(r#"{{"log": {{"version": "1.2", "entries": [{first}, {second}]}}}}"#)
}

fn import(text: String) -> crate::error::Result<Collected> {
    let mut collected = Collected::default();
    let input = Input::from_reader("x.har", Box::new(std::io::Cursor::new(text.into_bytes())), None).expect("readable");
    read(input, &Options::default(), &mut 1, &mut collected).map(|_| collected)
}

#[test]
fn without_any_body_of_a_response_no_answer_is_missing() {
    let lost = |text: String| {
        let events = import(text).expect("a HAR").events;
        let lost = events.iter().filter(|event| matches!(event.what, What::Happening(Happening::Lost { .. })));
        let noted = events.iter().any(|event| {
            matches!(&event.what, What::Happening(Happening::Note { text }) if text.starts_with("response bodies are not"))
        });
        (lost.count(), noted)
    };
    assert_eq!(lost(two("", "")), (2, true));
    assert_eq!(lost(two(r#", "size": 0"#, r#", "size": 0, "text": """#)), (2, true));
    let answer = r#", "text": "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}""#;
    assert_eq!(lost(two(answer, "")), (0, false), "this one was held, and the other had none");
}

#[test]
fn a_har_recorded_without_content_is_named_as_that() {
    let text = two(r#", "size": 9"#, "").replace("mcp-session-id", "x").replace("\"text\"", "\"other\"");
    let refused = import(text).expect_err("nothing in it").to_string();
    assert!(refused.contains("recorded without content"), "{refused}");
}
