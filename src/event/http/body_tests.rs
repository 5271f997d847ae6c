//! Bodies of all kinds, and what is kept of them.

use super::tests::*;
use super::*;
use crate::event::Event;

#[test]
fn what_is_no_rpc_leaves_no_body_and_in_a_browsers_log_no_trace() {
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    for only_rpc in [false, true] {
        let mut desk = Desk::new(only_rpc);
        desk.ask(1, "POST", "/token", &[form], "grant_type=code&client_secret=hush");
        desk.answer(1, 200, &[JSON], r#"{"access_token":"hush-hush"}"#);
        desk.ask(2, "POST", "/register", &[JSON], r#"{"client_name":"x"}"#);
        desk.answer(2, 201, &[JSON], r#"{"client_secret":"hush"}"#);
        desk.ask(3, "GET", "/", &[], "").answer(3, 200, &[("Content-Type", "text/html")], "<html>hush</html>");
        desk.ask(4, "POST", "/rpc", &[JSON], &call(1)).answer(
            4,
            401,
            &[("Content-Type", "text/plain")],
            "log in first",
        );
        let kept = format!("{:?}", desk.kept)
            + &String::from_utf8_lossy(&desk.kept.streams.values().flatten().copied().collect::<Vec<u8>>());
        assert!(!kept.contains("hush"), "{kept}");
        let told = desk.told(1);
        assert!(told.iter().any(|line| line.ends_with("note the refusal says: log in first")), "{told:?}");
        assert_eq!(told.iter().any(|line| line.contains("/token")), !only_rpc);
        assert_eq!(desk.scribe.passed_over(), if only_rpc { 3 } else { 0 });
    }
}

#[test]
fn compressed_bodies_are_read_and_bombs_are_told() {
    use std::io::Write;
    let pack = |text: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    };
    let mut desk = Desk::new(false);
    let gzip = ("Content-Encoding", "gzip");
    desk.ask(1, "POST", "/rpc", &[JSON], &call(1)).head(1, 200, &[JSON, gzip]);
    desk.take(1, HttpHappening::ResponseBody(&pack(result(1).as_bytes()))).done(1);
    desk.ask(2, "POST", "/rpc", &[JSON], &call(2)).head(2, 200, &[JSON, gzip]);
    let mut bomb = br#"{"jsonrpc":"2.0","id":2,"result":""#.to_vec();
    bomb.resize(40 * 1024 * 1024, b'a');
    desk.take(2, HttpHappening::ResponseBody(&pack(&bomb))).done(2);
    desk.ask(3, "POST", "/rpc", &[JSON], &call(3)).answer(3, 200, &[JSON, ("Content-Encoding", "br")], "xyz");
    let told = desk.told(1);
    assert!(told.contains(&"1 <- 1 result".to_string()));
    assert!(told.iter().any(|line| line.starts_with("2 lost a gzip body that inflates")), "{told:?}");
    // It was sent as a whole; only we did not read it.
    assert!(told.contains(&"2 <- 2 result".to_string()), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("3 lost a body coded as br")), "{told:?}");
    desk.ask(4, "POST", "/rpc", &[JSON], &call(4)).answer(4, 200, &[JSON, gzip], &result(4));
    assert!(desk.told(1).contains(&"4 <- 4 result".to_string()), "{:?}", desk.told(1));
}

#[test]
fn below_a_refusal_only_messages_are_messages() {
    let mut desk = Desk::new(false);
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#;
    desk.ask(1, "POST", "/rpc", &[JSON], &call(1)).answer(1, 503, &[JSON], r#"{"detail":"busy"}"#);
    desk.ask(2, "POST", "/rpc", &[JSON], &call(2)).answer(2, 401, &[JSON], r#"{"error":"invalid_token"}"#);
    desk.ask(3, "POST", "/rpc", &[JSON], &call(3)).answer(3, 400, &[JSON], refusal);
    desk.ask(4, "POST", "/rpc", &[JSON], &call(4)).answer(4, 200, &[JSON], r#"{"detail":"busy"}"#);
    let told = desk.told(1);
    let said: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| line.contains("<-") || line.contains("note")).collect();
    assert_eq!(
        said,
        [
            "1 note the refusal says: {\"detail\":\"busy\"}",
            "2 note the refusal says: {\"error\":\"invalid_token\"}",
            "3 <- null error",
            "4 <-not-json-rpc",
        ]
    );
}

#[test]
fn a_mark_before_a_body_is_passed_over_and_wide_text_is_a_gap() {
    let mut desk = Desk::new(false);
    let marked = |text: &str| format!("\u{feff}{text}");
    desk.ask(1, "POST", "/mcp", &[JSON], &marked(&initialize(0)));
    desk.answer(1, 200, &[JSON, SESSION], &marked(&result(0)));
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "y".repeat(100_000));
    for (carrier, step) in [(2, 1000), (3, 200_000)] {
        desk.ask(carrier, "POST", "/mcp", &[JSON, SESSION], &call(1)).head(carrier, 200, &[JSON]);
        for part in marked(&long).as_bytes().chunks(step) {
            desk.take(carrier, HttpHappening::ResponseBody(part));
        }
        desk.done(carrier);
    }
    desk.ask(4, "POST", "/mcp", &[JSON, SESSION], &call(2)).head(4, 200, &[JSON]);
    let wide: Vec<u8> = result(2).encode_utf16().flat_map(u16::to_le_bytes).collect();
    desk.take(4, HttpHappening::ResponseBody(&wide)).done(4);
    let told = desk.told(1);
    let said: Vec<&str> = told
        .iter()
        .map(String::as_str)
        .filter(|line| line.contains("<-") || line.contains("->") || line.contains("lost"))
        .collect();
    assert_eq!(
        said,
        [
            "1 -> 0 initialize",
            "1 <- 0 result",
            "2 -> 1 tools/call",
            "2 <- 1 result",
            "3 -> 1 tools/call",
            "3 <- 1 result",
            "4 -> 2 tools/call",
            "4 lost a body in UTF-16 or UTF-32 cannot be read",
        ]
    );
}

#[test]
fn long_bodies_go_through_in_parts_and_torn_ones_are_kept() {
    let mut desk = Desk::new(false);
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":"{}"}}"#, "y".repeat(300_000));
    desk.take(1, HttpHappening::Request { client: "c", connection: 1, method: "POST", target: "/", fields: &[JSON] });
    for part in long.as_bytes().chunks(10_000) {
        desk.take(1, HttpHappening::RequestBody(part));
    }
    desk.take(1, HttpHappening::RequestEnd).head(1, 200, &[EVENTS]);
    let data = format!("data: {}\n\n", long.replace("\"method\":\"x\",\"params\"", "\"result\""));
    for part in data.as_bytes().chunks(9_999) {
        desk.take(1, HttpHappening::ResponseBody(part));
    }
    desk.say(1, "data: {\"jsonrpc\"").take(1, HttpHappening::Closed { by: Party::Server, how: How::Reset });
    assert_eq!(
        desk.told(1),
        ["opened", "1 POST /", "1 -> 1 x", "1 200", "1 stream", "1 <- 1 result", "1 server reset"]
    );
    let span = desk.kept.events.iter().find_map(Event::span).unwrap();
    assert_eq!(span.len as usize, long.len());
    // Half a JSON body is evidence too, no fault of who wrote it, and no answer.
    desk.ask(2, "POST", "/", &[JSON], &call(2)).head(2, 200, &[JSON]);
    desk.say(2, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"text\":\"half of");
    desk.take(2, HttpHappening::Closed { by: Party::Server, how: How::Reset });
    assert_eq!(desk.told(2)[1..], ["1 POST /", "1 -> 2 tools/call", "1 200", "1 <-truncated", "1 server reset"]);
}
