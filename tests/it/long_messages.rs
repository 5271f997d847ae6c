//! Messages longer than memory should be: what each stream holds must not grow with them.
//!
//! Peak memory is that of a whole process, so the work is done in a child: this very test, called by its name.

use std::process::Command;

use rpctap::event::{Event, Scribe, Session, SessionKey, Side, Sink, StreamId, What};
use rpctap::rpc::{Id, Kind};

const CHILD: &str = "RPCTAP_LONG_MESSAGE_CHILD";
/// Far below the 64 MiB that a tap may use above its idle size; the limits of one stream add up to much less.
const MOST_KIB: u64 = 8 * 1024;

#[derive(Default)]
struct Counting {
    bytes: u64,
    events: Vec<Event>,
}

impl Sink for Counting {
    fn session(&mut self, _: &Session) {}

    fn bytes(&mut self, _: SessionKey, _: StreamId, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// One GiB when asked for; else enough to show, the less so where every byte has to be looked at.
fn message_bytes(kind_of_body: &str) -> u64 {
    match kind_of_body {
        _ if std::env::var_os("RPCTAP_FULL").is_some() => 1 << 30,
        "string" => 64 << 20,
        _ => 16 << 20,
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells the peak of a process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// One message of the wanted length, with its id at the very end.
fn feed_one(framed: bool, kind_of_body: &str) {
    let before = peak_kib();
    let (filler, open, close): (&[u8], &str, &str) = match kind_of_body {
        "string" => {
            (&[b'x'; 65536], "{\"jsonrpc\":\"2.0\",\"method\":\"big\",\"params\":{\"name\":\"", "\"},\"id\":\"last\"}")
        }
        "items" => (
            b"[1,{\"a\":\"b c\\n\"}],",
            "{\"jsonrpc\":\"2.0\",\"method\":\"big\",\"params\":[",
            "null],\"id\":\"last\"}",
        ),
        _ => (b"[", "{\"jsonrpc\":\"2.0\",\"method\":\"big\",\"params\":[", ""),
    };
    let filler: Vec<u8> = filler.iter().copied().cycle().take(65536 / filler.len() * filler.len()).collect();
    let times = message_bytes(kind_of_body) / filler.len() as u64;
    let length = open.len() as u64 + close.len() as u64 + times * filler.len() as u64;
    let mut sink = Counting::default();
    let mut scribe = Scribe::new(1);
    if framed {
        scribe.bytes(Side::Client, 0, format!("Content-Length: {length}\r\n\r\n").as_bytes(), &mut sink);
    }
    scribe.bytes(Side::Client, 0, open.as_bytes(), &mut sink);
    for _ in 0..times {
        scribe.bytes(Side::Client, 0, &filler, &mut sink);
    }
    scribe.bytes(Side::Client, 0, close.as_bytes(), &mut sink);
    if !framed {
        scribe.bytes(Side::Client, 0, b"\n", &mut sink);
    }
    let grown = peak_kib() - before;
    assert!(grown <= MOST_KIB, "{kind_of_body}, framed {framed}: {grown} KiB for one message of {length} bytes");
    assert_eq!(sink.events.len(), 1);
    let What::Message { message, body, .. } = &sink.events[0].what else { panic!("no message") };
    assert_eq!(body.len, length);
    assert!(sink.bytes >= length);
    if close.is_empty() {
        assert!(matches!(message.kind, Kind::Unreadable(_)), "brackets that never close");
    } else {
        assert_eq!((message.kind, message.method()), (Kind::Request, "big"));
        assert_eq!(message.id, Some(Id::Text("last".into())));
    }
}

#[test]
fn memory_does_not_grow_with_a_message() {
    if let Some(kind) = std::env::var_os(CHILD) {
        let kind = kind.into_string().expect("a word");
        let (framing, body) = kind.split_once(' ').expect("two words");
        return feed_one(framing == "framed", body);
    }
    for kind in ["lines string", "framed string", "framed items", "lines brackets"] {
        let output = Command::new(std::env::current_exe().expect("our own path"))
            .args(["long_messages::memory_does_not_grow_with_a_message", "--exact", "--nocapture"])
            .env(CHILD, kind)
            .output()
            .expect("the child runs");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && told.contains("1 passed"),
            "{kind}:\n{told}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
