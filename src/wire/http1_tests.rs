use super::*;

fn read_pieces(mut http: Http1, pieces: &[&[u8]]) -> Vec<String> {
    let (mut told, mut body) = (Vec::new(), Vec::new());
    let mut hear = |one: Told<'_>| match one {
        Told::Body(part) | Told::Raw(part) => body.extend_from_slice(part),
        Told::Head(head) => match &head.start {
            Start::Request { method, target } => told.push(format!("{method} {target}")),
            Start::Response { status, .. } => told.push(status.to_string()),
        },
        Told::End { whole } => {
            told.push(format!("{}{:?}", if whole { "" } else { "torn " }, String::from_utf8_lossy(&body)));
            body.clear();
        }
        other => told.push(format!("{other:?}")),
    };
    for piece in pieces {
        http.feed(piece, &mut hear);
    }
    http.finish(&mut hear);
    if !body.is_empty() {
        told.push(format!("raw {:?}", String::from_utf8_lossy(&body)));
    }
    told
}

fn read(new: impl Fn() -> Http1, text: &str) -> Vec<String> {
    let text = text.as_bytes();
    let whole = read_pieces(new(), &[text]);
    for at in 0..=text.len() {
        assert_eq!(read_pieces(new(), &[&text[..at], &text[at..]]), whole, "cut at {at}");
    }
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(read_pieces(new(), &single), whole);
    whole
}

fn requests(text: &str) -> Vec<String> {
    read(Http1::requests, text)
}

fn responses(methods: &[&str], text: &str) -> Vec<String> {
    let new = || {
        let mut http = Http1::responses();
        for method in methods {
            http.asked(method);
        }
        http
    };
    read(new, text)
}

#[test]
fn requests_follow_one_another() {
    let text = "\r\nPOST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}GET /mcp HTTP/1.1\nHost: a\n\nDELETE * HTTP/1.0\r\n\r\n";
    assert_eq!(requests(text), ["POST /mcp", "\"{}\"", "GET /mcp", "\"\"", "DELETE *", "\"\""]);
}

#[test]
fn chunks_are_joined_and_trailers_told() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5;name=\"v\"\r\nhello\r\n00A \r\n wide worl\r\n1\r\nd\r\n0\r\nX-Sum: 1\r\nX-B: c\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        responses(&["POST", "POST"], text),
        ["200", "Trailers([(\"X-Sum\", \"1\"), (\"X-B\", \"c\")])", "\"hello wide world\"", "202", "\"\"",]
    );
}

#[test]
fn some_responses_have_no_body_whatever_they_say() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\nHTTP/1.1 404 No\r\n\r\nuntil the end";
    assert_eq!(
        responses(&["HEAD", "GET", "GET", "GET"], text),
        ["100", "200", "\"\"", "204", "\"\"", "304", "\"\"", "404", "\"until the end\""]
    );
}

#[test]
fn an_upgrade_ends_the_http() {
    let text = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\u{1}raw\r\n\r\n";
    assert_eq!(responses(&["GET"], text), ["101", "Upgraded", "raw \"\\u{1}raw\\r\\n\\r\\n\""]);
    let text = "HTTP/1.1 200 OK\r\n\r\ntunnel";
    assert_eq!(responses(&["CONNECT"], text), ["200", "Upgraded", "raw \"tunnel\""]);
    let mut told = Vec::new();
    let mut http = Http1::requests();
    http.feed(b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n\x81", &mut |one| told.push(format!("{one:?}")));
    http.upgrade(&mut |one| told.push(format!("{one:?}")));
    http.feed(b"\x02", &mut |one| told.push(format!("{one:?}")));
    assert_eq!(told[1..], ["End { whole: true }", "Upgraded", "Raw([129])", "Raw([2])"]);
}

#[test]
fn what_two_readers_may_read_differently_is_told() {
    let head = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
    let next = "GET /next HTTP/1.1\r\n\r\n";
    let both = head("Content-Length: 5\r\nTransfer-Encoding: chunked") + "1\r\nx\r\n0\r\n\r\n" + next;
    assert_eq!(requests(&both), ["POST /", "Fault(AmbiguousLength)", "\"x\"", "GET /next", "\"\""]);
    let same = head("Content-Length: 1\r\nContent-Length: 1, 1") + "x" + next;
    assert_eq!(requests(&same), ["POST /", "\"x\"", "GET /next", "\"\""]);
    for fields in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: +1",
        "Content-Length: 99999999999999999999999",
        "Content-Length:",
    ] {
        let text = head(fields) + "x\n" + next;
        assert_eq!(requests(&text), ["POST /", "Fault(BadLength)", "torn \"\"", "GET /next", "\"\""], "{fields}");
    }
    let unclear = head("Transfer-Encoding: chunked, gzip") + "x\n" + next;
    assert_eq!(requests(&unclear), ["POST /", "Fault(AmbiguousLength)", "torn \"\"", "GET /next", "\"\""]);
}

#[test]
fn the_place_is_found_again() {
    let next = "HTTP/1.1 204 No Content\r\n\r\n";
    for (text, fault) in [
        ("garbage\nmore garbage\n".to_string(), "Fault(BadHead)"),
        ("HTTP/1.1 OK\r\n\r\n".to_string(), "Fault(BadHead)"),
        ("HTTP/1.1 200 OK\r\nno field here\r\n\r\n".to_string(), "Fault(BadHead)"),
    ] {
        assert_eq!(responses(&[], &(text.clone() + next)), [fault, "204", "\"\""], "{text:?}");
    }
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for bad in ["xyz\r\n", "-1\r\n", "\r\n", "12345678901234567\r\n", "1\r\nxy\r\n"] {
        let told = responses(&[], &format!("{chunked}{bad}{next}"));
        assert_eq!(told[1], "Fault(BadChunk)", "{bad:?}");
        assert_eq!(told[3..], ["204", "\"\""], "{bad:?}");
    }
    assert_eq!(
        responses(&[], &format!("{chunked}{next}")),
        ["200", "Fault(BadChunk)", "torn \"\"", "204", "\"\""],
        "a line that begins a message where a chunk should be"
    );
}

#[test]
fn ends_within_a_message_are_told() {
    assert_eq!(
        requests("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"),
        ["POST /", "Fault(CutShort)", "torn \"ab\""]
    );
    assert_eq!(requests("POST / HTT"), ["Fault(CutShort)"]);
    assert_eq!(requests(""), Vec::<String>::new());
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    assert_eq!(responses(&[], chunked), ["200", "Fault(CutShort)", "torn \"abc\""]);
}

#[test]
fn heads_and_lines_are_bounded() {
    for start in ["GET / HTTP/1.1\r\nX: ", "GET /", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"] {
        let is_request = start.starts_with("GET");
        let mut http = if is_request { Http1::requests() } else { Http1::responses() };
        let mut faults = 0;
        let mut hear = |one: Told<'_>| faults += usize::from(matches!(one, Told::Fault(_)));
        http.feed(start.as_bytes(), &mut hear);
        for _ in 0..300 {
            http.feed(&[b'x'; 1000], &mut hear);
            assert!(http.held.len() <= LONGEST_HEAD_BYTES);
        }
        http.feed(b"\n\r\nHTTP/1.1 200 OK\r\n\r\n", &mut hear);
        assert_eq!(faults, 1, "{start}");
    }
}

#[test]
fn holes_in_a_body_keep_the_place() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789HTTP/1.1 204 No\r\n\r\n";
    let told = |hole: std::ops::Range<usize>| {
        let mut told = Vec::new();
        let mut hear = |one: Told<'_>| match one {
            Told::Head(head) => told.push(format!("{:?}", head.start)),
            other => told.push(format!("{other:?}")),
        };
        let mut http = Http1::responses();
        http.feed(&text[..hole.start], &mut hear);
        http.gap(hole.len() as u64, &mut hear);
        http.feed(&text[hole.end..], &mut hear);
        told
    };
    let inside = told(42..45);
    assert!(inside.contains(&"End { whole: false }".to_string()), "{inside:?}");
    assert!(inside.last().unwrap().contains("whole: true"), "{inside:?}");
    let across = told(45..58);
    assert_eq!(across.iter().filter(|one| one.starts_with("End")).count(), 1, "{across:?}");
}

#[test]
fn fields_are_found_in_any_case() {
    let head = Head::read(b"GET /a b HTTP/1.1\r\nmcp-SESSION-id:  x y \r\nFolded: a\r\n  b\r\n\r\n").unwrap();
    assert_eq!(head.start, Start::Request { method: "GET".into(), target: "/a b".into() });
    assert_eq!(head.field("Mcp-Session-Id"), Some("x y"));
    assert_eq!(head.field("folded"), Some("a b"));
    assert_eq!(head.field("other"), None);
}
