use super::*;
use crate::event::Side;
use crate::event::{Collected, Event, SERVER_STREAM, Sink, Span, What};
use crate::rpc::{Message, Unreadable};

fn recorded(raw: &str) -> String {
    let out = Redactor::for_recording().body(raw.as_bytes());
    assert_eq!(out.len(), raw.len(), "the length of {raw} changed: {}", String::from_utf8_lossy(&out));
    String::from_utf8(out).expect("text stays text")
}

#[test]
fn json_stays_json_and_keeps_its_length() {
    let raw = r#"{"jsonrpc":"2.0","id":"alice-1","method":"tools/call","params":{"name":"login","arguments":{"password":"hunter2","pin_token":"a\/b\u002dc d","apiKey":["one-key","two-key"],"note":"token=abc123 at /home/alice/x"},"_meta":{"progressToken":"ghost"}}}"#;
    let out = recorded(raw);
    for secret in ["hunter2", "one-key", "two-key", "abc123", "/home/alice", r"a\/b"] {
        assert!(!out.contains(secret), "{secret} in {out}");
    }
    let value: serde_json::Value = serde_json::from_str(&out).expect("valid JSON");
    assert_eq!(value["id"], "alice-1");
    assert_eq!(value["method"], "tools/call");
    assert_eq!(value["params"]["_meta"]["progressToken"], "ghost");
}

#[test]
fn equal_values_stay_equal_however_they_are_written() {
    let mut redactor = Redactor::for_recording();
    let value = |raw: &str, redactor: &mut Redactor| -> serde_json::Value {
        serde_json::from_slice(&redactor.body(raw.as_bytes())).expect("valid JSON")
    };
    let plain = value(r#"{"api_key":"abc/def-ghi0123456789xyz"}"#, &mut redactor);
    let escaped = value(r#"{"api_key":"abc\/def\u002dghi0123456789xyz"}"#, &mut redactor);
    let bearer = value(r#"{"authorization":"Bearer abc/def-ghi0123456789xyz"}"#, &mut redactor);
    let text = value(r#"{"text":"api_key=abc/def-ghi0123456789xyz done"}"#, &mut redactor);
    let hidden = plain["api_key"].as_str().expect("a string").to_string();
    assert_ne!(hidden, "abc/def-ghi0123456789xyz");
    assert_eq!(escaped["api_key"], hidden.as_str());
    assert_eq!(bearer["authorization"], format!("Bearer {hidden}"));
    assert_eq!(text["text"], format!("api_key={hidden} done"));
    let other = value(r#"{"api_key":"abc/def-ghi0123456789xyZ"}"#, &mut redactor);
    assert_ne!(other["api_key"], hidden.as_str());
}

#[test]
fn progress_tokens_are_kept_where_they_pair_and_only_there() {
    let kept = r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"work-1","value":{"kind":"end"}}}"#;
    assert_eq!(recorded(kept), kept);
    let kept = r#"{"jsonrpc":"2.0","params":{"token":"work-1","value":{"kind":"end"}},"method":"$/progress"}"#;
    assert_eq!(recorded(kept), kept);
    let login = r#"{"jsonrpc":"2.0","method":"auth/login","params":{"token":"work-1"}}"#;
    assert!(!recorded(login).contains("work-1"));
}

#[test]
fn pairs_of_name_and_value_trees_and_schemas() {
    let out = recorded(
        r#"{"headers":[{"name":"Cookie","value":"sid=1234"},{"name":"Accept","value":"*/*"}],"h":[["x-api-key","k-77"]],"credentials":{"who":"bob-x","n":{"z":"deep-y"}},"properties":{"password":{"type":"string"}}}"#,
    );
    for secret in ["sid=1234", "k-77", "bob-x", "deep-y"] {
        assert!(!out.contains(secret), "{secret} in {out}");
    }
    assert!(out.contains(r#""*/*""#) && out.contains(r#""password":{"type":"string"}"#), "{out}");
}

#[test]
fn fixtures_are_numbered_and_repeatable() {
    let raw = br#"{"a":{"token":"one"},"b":{"token":"two"},"c":"token=one","d":"/home/alice/x by alice"}"#;
    let once = Redactor::for_fixtures().body(raw);
    assert_eq!(once, Redactor::for_fixtures().body(raw));
    assert_eq!(
        String::from_utf8(once).unwrap(),
        r#"{"a":{"token":"redacted-1"},"b":{"token":"redacted-2"},"c":"token=redacted-1","d":"/home/user-1/x by user-1"}"#
    );
}

#[test]
fn broken_json_and_plain_text_lose_their_secrets_too() {
    for raw in [
        r#"{"password":"hunter2-abc"#,
        r#"{password: hunter2-abc}"#,
        r#"{"a":"b" password=hunter2-abc "#,
        r#"starting with --password hunter2-abc now"#,
        r#"{"text":"{\"password\":\"hunter2-abc\"}"}"#,
        r#"{"text":"{\"inner\":\"{\\\"password\\\":\\\"hunter2-abc\\\"}\"}"}"#,
    ] {
        assert!(!recorded(raw).contains("hunter2-abc"), "{raw} gave {}", recorded(raw));
    }
    let mut deep = "[".repeat(5000);
    deep.push_str(r#"{"password":"hunter2-abc"}, "sk-ant-api03-abcdefghijklmnopqrst""#);
    let out = recorded(&deep);
    assert!(!out.contains("sk-ant") && !out.contains("hunter2"));
}

#[test]
fn every_cut_of_a_stream_gives_the_same_redacted_stream() {
    let frames = [
        r#"{"id":1,"result":{"token":"s3cret-one","x":"ghp_0123456789abcdefghijABCDEFGHIJ456789"}}"#,
        "plain password=hunter2-abc",
    ];
    for piece in [1, 2, 3, 7, 50, 1000] {
        let mut sink = Redacting::new(Collected::default());
        let mut offset = 0u64;
        for frame in frames {
            let line = format!("{frame}\n");
            for chunk in line.as_bytes().chunks(piece) {
                sink.bytes(1, SERVER_STREAM, chunk);
            }
            let body = Span { stream: SERVER_STREAM, start: offset, len: frame.len() as u64 };
            let message = Message::unreadable(Unreadable::StrayText);
            sink.event(Event {
                session: 1,
                seq: 1,
                at: 0,
                carrier: None,
                what: What::Message { from: Side::Server, message, body },
            });
            offset += line.len() as u64;
        }
        let kept = sink.into_inner();
        let stream = &kept.streams[&(1, SERVER_STREAM)];
        assert_eq!(stream.len() as u64, offset);
        let text = String::from_utf8_lossy(stream);
        for secret in ["s3cret-one", "ghp_", "hunter2"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(text.contains("{\"id\":1,\"result\":{\"token\":\""), "{text}");
    }
}

#[test]
fn a_gigantic_body_is_redacted_in_windows() {
    let secret = "sk-proj-0123456789abcdefghijklmnop";
    let mut body = String::from(r#"{"id":1,"result":{"text":""#);
    let mut planted = 0;
    while body.len() < 7 * 1024 * 1024 {
        body.push_str(&"lorem ipsum dolor sit amet ".repeat(37 + planted % 11));
        body.push_str(secret);
        body.push(' ');
        planted += 1;
    }
    body.push_str(r#"","password":"hunter2-abc"}}"#);
    let mut sink = Redacting::new(Collected::default());
    for chunk in body.as_bytes().chunks(65_536) {
        sink.bytes(1, SERVER_STREAM, chunk);
        let held: usize = sink.waiting.values().map(|waiting| waiting.bytes.len()).sum();
        assert!(held <= 3 * 1024 * 1024, "{held} bytes wait");
    }
    let kept = sink.into_inner();
    let stream = &kept.streams[&(1, SERVER_STREAM)];
    assert_eq!(stream.len(), body.len());
    assert!(planted > 1000);
    assert_eq!(memchr::memmem::find(stream, b"sk-proj"), None);
    assert_eq!(memchr::memmem::find(stream, b"hunter2"), None);
}
