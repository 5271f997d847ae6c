//! Small traces and what must be read in them.

use crate::event::{Collected, Event, Happening, Micros, Side, What};
use crate::import::{Input, Options, read};
use crate::rpc::Kind;

const PING: &str = r#"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"#;
const PONG: &str = r#"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"#;

fn import(text: &str) -> Collected {
    import_as("trace", text)
}

fn import_as(name: &str, text: &str) -> Collected {
    let mut collected = Collected::default();
    let bytes = text.as_bytes().to_vec();
    let input = Input::from_reader(name, Box::new(std::io::Cursor::new(bytes)), None).expect("readable");
    assert_eq!(read(input, &Options::default(), &mut 1, &mut collected).expect("a trace"), "strace");
    collected
}

fn told(collected: &Collected) -> Vec<(Side, Kind, Micros)> {
    let messages = collected.events.iter().filter_map(|event| Some((event.at, event.message()?)));
    messages.map(|(at, (from, message))| (from, message.kind, at % 1_000_000_000)).collect()
}

fn notes(collected: &Collected) -> String {
    let note = |event: &Event| match &event.what {
        What::Happening(Happening::Note { text }) => Some(text.clone()),
        _ => None,
    };
    collected.events.iter().filter_map(note).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_write_is_told_when_it_began() {
    let collected = import(&format!(
        "7 1794978000.000001 write(1, \"{PING}\", 41 <unfinished ...>\n\
         8 1794978000.000003 read(0, \"{PONG}\", 8192) = 37 <0.000001>\n\
         7 1794978000.000005 <... write resumed>) = 41\n"
    ));
    assert_eq!(told(&collected), [(Side::Server, Kind::Request, 1), (Side::Client, Kind::Result, 4)]);
    let lost = |collected: &Collected| {
        collected.events.iter().any(|event| matches!(event.what, What::Happening(Happening::Lost { .. })))
    };
    assert!(!lost(&collected));
    let short = import(&format!(
        "7 1794978000.000001 write(1, \"{PING}\", 41 <unfinished ...>\n\
         7 1794978000.000005 <... write resumed>) = -1 EPIPE (Broken pipe)\n"
    ));
    assert!(lost(&short), "bytes that did not leave are no traffic");
}

#[test]
fn a_read_that_waited_came_when_the_next_line_was_written() {
    let collected = import(&format!(
        "7 1794978000.000010 read(0, \"{PING}\", 8192) = 41\n7 1794978003.000000 write(1, \"{PONG}\", 37) = 37\n"
    ));
    assert_eq!(told(&collected), [(Side::Client, Kind::Request, 3_000_000), (Side::Server, Kind::Result, 3_000_000)]);
    assert!(notes(&collected).contains("strace -T"));
}

#[test]
fn times_since_the_line_before_are_added_up() {
    let collected = import(&format!(
        "7      0.000100 close(3) = 0\n\
         7      0.000020 read(0, \"{PING}\", 8192) = 41 <0.000003>\n\
         7      2.000000 write(1, \"{PONG}\", 37) = 37 <0.000003>\n"
    ));
    assert_eq!(told(&collected), [(Side::Client, Kind::Request, 123), (Side::Server, Kind::Result, 2_000_120)]);
    assert!(collected.sessions[0].knows.times && notes(&collected).contains("without a date"));
}

#[test]
fn children_and_the_client_are_no_part_of_it() {
    let collected = import(&format!(
        "strace: Process 7 attached\nstrace: Process 8 attached\nstrace: Process 9 attached\n\
         [pid 9] 1794978000.000001 read(0, \"3.11.7\\n\", 4096) = 7 <0.000001>\n\
         [pid 9] 1794978000.000003 read(0, \"\", 4096) = 0 <0.000001>\n\
         [pid 7] 1794978000.000010 read(0, \"{PING}\", 8192) = 41 <0.000001>\n\
         [pid 8] 1794978000.000020 write(1, \"git version 2\\n\", 14) = 14 <0.000001>\n\
         [pid 7] 1794978000.000030 write(1, \"{PONG}\", 37) = 37 <0.000001>\n"
    ));
    assert_eq!(told(&collected).len(), 2);
    assert!(!collected.events.iter().any(|event| matches!(event.what, What::Fault { .. })));
    assert!(!collected.events.iter().any(|event| matches!(event.what, What::Happening(Happening::Closed { .. }))));
    assert!(notes(&collected).contains("what 2 other processes"), "{}", notes(&collected));
}

#[test]
fn a_socket_carries_both_ways() {
    for (ask, answer) in [
        (
            format!("recvfrom(0, \"{PING}\", 8192, 0, NULL, NULL) = 41"),
            format!("sendto(0, \"{PONG}\", 37, 0, NULL, 0) = 37"),
        ),
        (format!("read(1<socket:[7]>, \"{PING}\", 8192) = 41"), format!("write(1<socket:[7]>, \"{PONG}\", 37) = 37")),
        (
            format!("read(0<UNIX-STREAM:[7->8]>, \"{PING}\", 9) = 41"),
            format!("write(0<UNIX-STREAM:[7->8]>, \"{PONG}\", 37) = 37"),
        ),
    ] {
        let collected =
            import(&format!("7 1794978000.000001 {ask} <0.000001>\n7 1794978000.000005 {answer} <0.000001>\n"));
        let kinds: Vec<(Side, Kind)> = told(&collected).into_iter().map(|(from, kind, _)| (from, kind)).collect();
        assert_eq!(kinds, [(Side::Client, Kind::Request), (Side::Server, Kind::Result)], "{ask}");
    }
    let terminal = import(&format!("7 read(0, \"{PING}\", 99) = 41\n7 write(0, \"{PONG}\", 37) = 37\n"));
    assert_eq!(told(&terminal).len(), 1, "who writes to its own input is no server");
}

#[test]
fn one_file_of_several_threads_is_a_part() {
    let text =
        format!("1794978000.000001 read(0, \"{PING}\", 99) = 41\n1794978000.000002 write(1, \"{PONG}\", 37) = 37\n");
    let lost = |name: &str| {
        let events = import_as(name, &text).events;
        events.iter().filter(|event| matches!(event.what, What::Happening(Happening::Lost { from: None, .. }))).count()
    };
    assert_eq!((lost("traces/tr.7096"), lost("traces/tr.txt")), (2, 0));
}

#[test]
fn that_texts_were_cut_is_noted_with_the_way_out() {
    let cut = r#"7 1794978000.000001 read(0, "{\"jsonrpc\":\"2.0\",\"id\":1,\"met"..., 8192) = 41 <0.000001>"#;
    let noted = notes(&import(&format!("{cut}\n{cut}\n")));
    assert!(noted.contains("2 texts were cut by strace: -s 1000000"), "{noted}");
}
