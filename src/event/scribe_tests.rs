use super::*;
use crate::event::{Bodies, CLIENT_STREAM, Collected};
use crate::rpc::{Id, Kind, Unreadable};
use crate::wire::Fault;

fn text_of(collected: &mut Collected, event: usize) -> String {
    let span = collected.events[event].span().unwrap();
    String::from_utf8(collected.read(7, span, 1 << 20).unwrap().into_owned()).unwrap()
}

#[test]
fn a_conversation_is_numbered_and_every_event_points_at_its_bytes() {
    let mut scribe = Scribe::new(7);
    let mut all = Collected::default();
    scribe.happening(1, None, Happening::Opened { pid: Some(4) }, &mut all);
    scribe.bytes(Side::Client, 2, b"\n{\"id\":1,\"meth", &mut all);
    scribe.bytes(Side::Server, 3, b"Content-Length: 17\r\n\r\n{\"id\":1", &mut all);
    scribe.bytes(Side::Client, 4, b"od\":\"a\"}\r\n[{\"id\":2,\"method\":\"b\"},{\"method\":\"c\"}]\n", &mut all);
    scribe.bytes(Side::Server, 5, b",\"result\":2}oops\nCon", &mut all);
    scribe.stderr(6, b"line one\nline", &mut all);
    scribe.end(Side::Server, 7, Party::Server, How::Eof, &mut all);
    scribe.end_stderr(8, &mut all);
    let seqs: Vec<u64> = all.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=all.events.len() as u64).collect::<Vec<_>>());
    let told: Vec<String> = (0..all.events.len())
        .map(|at| match &all.events[at].what.clone() {
            What::Message { from, message, .. } => {
                format!("{} {:?} {} {}", from.arrow(), message.kind, message.method(), text_of(&mut all, at))
            }
            What::Fault { fault, .. } => format!("{} {:?}", fault.name(), text_of(&mut all, at)),
            What::Stderr { .. } => format!("stderr {}", text_of(&mut all, at)),
            What::Happening(happening) => format!("{happening:?}").split(' ').next().unwrap().to_string(),
        })
        .collect();
    assert_eq!(
        told,
        [
            "Opened",
            "-> Request a {\"id\":1,\"method\":\"a\"}",
            "-> Request b [{\"id\":2,\"method\":\"b\"},{\"method\":\"c\"}]",
            "-> Notification c [{\"id\":2,\"method\":\"b\"},{\"method\":\"c\"}]",
            "<- Unreadable(BadJson)  {\"id\":1,\"result\":",
            "wrong-length \"2}oops\\n\"",
            "stderr line one",
            "garbage \"Con\"",
            "Closed",
            "stderr line",
        ]
    );
    assert_eq!(scribe.framing(Side::Client), Some(Framing::Lines));
    assert_eq!(scribe.framing(Side::Server), Some(Framing::ContentLength));
    assert_eq!(all.events[1].at, 4, "a message happens when its last byte comes");
}

#[test]
fn bodies_that_come_in_parts_lie_whole() {
    let mut scribe = Scribe::new(7);
    let mut all = Collected::default();
    let long = format!("{{\"id\":1,\"result\":\"{}\"}}", "x".repeat(3 * LONGEST_HELD_BODY_BYTES));
    let first = scribe.begin_body(Side::Server, Some(3));
    let second = scribe.begin_body(Side::Server, Some(4));
    for part in long.as_bytes().chunks(1000) {
        scribe.body_part(first, part, &mut all);
    }
    scribe.body_part(second, b"{\"method\":", &mut all);
    scribe.body(Side::Server, 1, Some(5), b"{\"id\":9,\"result\":1}", &mut all);
    scribe.body_part(second, b"\"m\"}", &mut all);
    scribe.end_body(first, 2, &mut all);
    scribe.end_body(second, 3, &mut all);
    scribe.end_body(second, 4, &mut all);
    assert_eq!(all.events.len(), 3);
    assert_eq!(text_of(&mut all, 0), "{\"id\":9,\"result\":1}");
    assert_eq!(text_of(&mut all, 1), long);
    assert_eq!(text_of(&mut all, 2), "{\"method\":\"m\"}");
    let carriers: Vec<Option<u64>> = all.events.iter().map(|event| event.carrier).collect();
    assert_eq!(carriers, [Some(5), Some(3), Some(4)]);
    assert_eq!(all.events[1].span().unwrap().stream, FIRST_CARRIER_STREAM);
    let cut = scribe.begin_body(Side::Client, None);
    scribe.body_part(cut, b"{\"id\":1,\"method\":\"m\",\"params\":{", &mut all);
    scribe.end_cut_body(cut, 5, &mut all);
    assert_eq!(all.events[3].message().unwrap().1.kind, Kind::Request);
    scribe.cut_body(Side::Client, 6, None, b"{\"id\":1,\"me", &mut all);
    assert_eq!(all.events[4].message().unwrap().1.kind, Kind::Unreadable(Unreadable::Truncated));
}

#[test]
fn a_session_can_be_taken_up_again_in_the_middle_of_a_message() {
    let stored = b"{\"id\":1,\"method\":\"a\"}\n{\"id\":2,\"met";
    let mut all = Collected::default();
    all.streams.insert((7, CLIENT_STREAM), stored.to_vec());
    let mut scribe = Scribe::resume(7, 41);
    scribe.resume_stream(CLIENT_STREAM, 22);
    scribe.recall(CLIENT_STREAM, 1, &stored[22..], &mut all);
    scribe.bytes(Side::Client, 2, b"hod\":\"b\"}\n", &mut all);
    assert_eq!(all.events.len(), 1);
    assert_eq!(all.events[0].seq, 42);
    assert_eq!(all.events[0].message().unwrap().1.id, Some(Id::Int(2)));
    assert_eq!(text_of(&mut all, 0), "{\"id\":2,\"method\":\"b\"}");
}

#[test]
fn a_torn_message_is_kept_with_its_fault() {
    let mut scribe = Scribe::new(7);
    let mut all = Collected::default();
    scribe.bytes(Side::Server, 1, b"{\"id\":1,\"res", &mut all);
    scribe.end(Side::Server, 2, Party::Server, How::Reset, &mut all);
    assert!(matches!(all.events[0].what, What::Fault { fault: Fault::NoFinalNewline, .. }));
    assert_eq!(all.events[1].message().unwrap().1.kind, Kind::Unreadable(Unreadable::BadJson));
    assert_eq!(
        all.events[2].what,
        What::Happening(Happening::Closed { from: Side::Server, by: Party::Server, how: How::Reset })
    );
}
