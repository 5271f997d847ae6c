//! What goes into a store comes out of it, whatever the way in and whoever else is using the file.

use std::ops::ControlFlow;

use super::*;
use crate::event::{
    Bodies, Collected, Event, Happening, How, Knows, Party, Sample, Session, SessionKey, Side, Sink, Source, Span,
    What, stream_of,
};
use crate::rpc::{Id, Kind, Marks, Message, Oddity, Unreadable};
use crate::wire::Fault;

fn session(key: SessionKey, name: &str) -> Session {
    Session {
        key,
        name: name.to_string(),
        source: Source::Import("plain".to_string()),
        target: "server --flag".to_string(),
        started_at: 1_700_000_000_000_000,
        knows: Knows { ends: false, ..Knows::ALL },
    }
}

/// Tells messages to a sink, one body after another on each side's stream.
struct Teller<'a> {
    sink: &'a mut dyn Sink,
    key: SessionKey,
    seq: u64,
    ends: [u64; 2],
}

impl<'a> Teller<'a> {
    fn new(sink: &'a mut dyn Sink, key: SessionKey) -> Teller<'a> {
        sink.session(&session(key, &format!("s{key}")));
        Teller { sink, key, seq: 0, ends: [0; 2] }
    }

    fn happens(&mut self, what: What) {
        self.seq += 1;
        let at = 1_700_000_000_000_000 + self.seq as i64 * 1000;
        self.sink.event(Event { session: self.key, seq: self.seq, at, carrier: None, what });
    }

    fn says(&mut self, from: Side, kind: Kind, id: Option<&str>, method: Option<&str>, marks: &str, body: &str) {
        let stream = stream_of(from);
        self.sink.bytes(self.key, stream, body.as_bytes());
        self.sink.bytes(self.key, stream, b"\n");
        let start = self.ends[stream as usize];
        self.ends[stream as usize] += body.len() as u64 + 1;
        let message = Message {
            kind,
            id: id.map(Id::from_raw),
            method: method.map(Into::into),
            marks: Marks::from_json(marks),
            ..Message::unreadable(Unreadable::BadJson)
        };
        self.happens(What::Message { from, message, body: Span { stream, start, len: body.len() as u64 } });
    }
}

fn everything(sink: &mut dyn Sink, key: SessionKey) {
    let mut teller = Teller::new(sink, key);
    teller.happens(What::Happening(Happening::Opened { pid: Some(7) }));
    for id in ["0", "-7", "\"7\"", "1.0", "null", "18446744073709551616", "true", "\"a\\\"\u{e9}\""] {
        teller.says(Side::Client, Kind::Request, Some(id), Some("tools/call"), r#"{"name":"dig"}"#, "{\"x\": \"é\"}");
        teller.says(Side::Server, Kind::Result, Some(id), None, "", "{}");
    }
    teller.says(Side::Server, Kind::Notification, None, Some("a/b"), "", "{\"n\":1}");
    teller.says(Side::Server, Kind::Error, Some("3"), None, r#"{"code":-32601}"#, "{}");
    for reason in Unreadable::ALL {
        teller.says(Side::Client, Kind::Unreadable(reason), None, None, "", "oops");
    }
    let mut message = Message::unreadable(Unreadable::BadJson);
    message.kind = Kind::Request;
    message.params_print = u64::MAX - 3;
    message.batch_index = Some(4);
    message.oddities.add(Oddity::NoVersion);
    teller.happens(What::Message { from: Side::Server, message, body: Span::default() });
    for fault in Fault::ALL {
        teller.happens(What::Fault { from: Side::Client, fault, bytes: Span { stream: 0, start: 2, len: 3 } });
    }
    teller.happens(What::Stderr { bytes: Span { stream: 2, start: 0, len: 0 } });
    for happening in [
        Happening::Closed { from: Side::Client, by: Party::Client, how: How::Eof },
        Happening::Exited { code: Some(3), signal: None },
        Happening::Lost { from: None, events: 2, bytes: 9, why: "disk".to_string() },
        Happening::Sample(Sample { rss_bytes: 5, ..Sample::default() }),
        Happening::CarrierHead { status: 200, headers: vec![("a".to_string(), "b".to_string())] },
        Happening::Note { text: "né".to_string() },
    ] {
        teller.happens(What::Happening(happening));
    }
}

fn events_of(store: &Store, number: u32) -> Vec<Event> {
    let mut events = Vec::new();
    let mut keep = |event: Event| {
        events.push(event);
        ControlFlow::Continue(())
    };
    store.for_each_event(number, &mut keep).expect("a readable session");
    events
}

#[test]
fn every_kind_of_event_comes_back_as_it_went_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut wanted = Collected::default();
    everything(&mut wanted, 1);
    let mut writer = Store::in_memory().writer();
    everything(&mut writer, 1);
    let mut bulk = Bulk::create(&folder.path().join("bulk.db")).expect("a new store");
    everything(&mut bulk, 1);
    for store in [writer.finish().expect("written"), bulk.finish().expect("written")] {
        assert_eq!(events_of(&store, 1), wanted.events);
        let recorded = store.find_session("last").expect("one session");
        assert_eq!(recorded.session, wanted.sessions[0]);
        assert_eq!((recorded.events, recorded.last_at), (wanted.events.len() as u64, wanted.events.last().unwrap().at));
        let mut bodies = store.bodies();
        for event in wanted.events.clone() {
            if let Some(span) = event.span().filter(|span| span.stream < 2) {
                assert_eq!(bodies.read(1, span, 1000), wanted.read(1, span, 1000), "{event:?}");
                assert_eq!(bodies.read(1, span, 2), wanted.read(1, span, 2));
            }
        }
        assert_eq!(bodies.read(1, Span { stream: 0, start: 1 << 40, len: 1 }, 10), None);
        assert_eq!(bodies.read(9, Span { stream: 0, start: 0, len: 1 }, 10), None);
    }
}

#[test]
fn sessions_are_found_by_number_by_name_and_as_the_last() {
    let mut writer = Store::in_memory().writer();
    for key in [5, 9, 12] {
        everything(&mut writer, key);
    }
    let store = writer.finish().expect("written");
    let numbers: Vec<_> = store.sessions().expect("a list").iter().map(Recorded::number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(store.find_session("s9").expect("by name").number(), 2);
    assert_eq!(store.find_session("last").expect("the last").number(), 3);
    assert_eq!(store.find_session("1").expect("by number").session.name, "s5");
    assert!(store.find_session("none").is_err());
    assert_eq!(events_of(&store, 2).len(), events_of(&store, 3).len());
    let mut after = 0;
    store
        .for_each_event_after(2, 10, &mut |event| {
            after += 1;
            assert!(event.seq > 10 && event.session == 2);
            if after == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .expect("readable");
    assert_eq!(after, 3);
}

#[test]
fn a_body_over_several_blocks_is_put_together_for_us_and_for_sqlite3_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let mut writer = Store::open(&path).expect("a store").writer().commit_when_told();
    writer.session(&session(1, "long"));
    let body: String = (0..5000).map(|n| format!("{n}é\0|")).collect();
    let (mut from, mut parts) = (0, 0);
    while from < body.len() {
        let to = (from + 7001).min(body.len());
        writer.bytes(1, 0, &body.as_bytes()[from..to]);
        writer.commit().expect("written");
        (from, parts) = (to, parts + 1);
    }
    let span = Span { stream: 0, start: 3, len: body.len() as u64 - 5 };
    let message = Message::unreadable(Unreadable::StrayText);
    writer.event(Event {
        session: 1,
        seq: 1,
        at: 1_700_000_000_000_000,
        carrier: None,
        what: What::Message { from: Side::Client, message, body: span },
    });
    let store = writer.finish().expect("written");
    assert_eq!(store.query("SELECT count(*) FROM blocks").unwrap()[0][0], Some(parts.to_string()));
    let wanted = &body.as_bytes()[3..body.len() - 2];
    assert_eq!(store.bodies().read(1, span, usize::MAX).as_deref(), Some(wanted));
    let seen = store.query("SELECT hex(body) FROM messages").unwrap()[0][0].clone().unwrap();
    assert!(seen == wanted.iter().map(|byte| format!("{byte:02X}")).collect::<String>());
    assert_eq!(store.tail(1).unwrap(), writer::Tail { last_seq: 1, streams: vec![(0, body.len() as u64)] });
}

#[test]
fn the_views_pair_both_ways_by_kind_and_again_when_an_id_comes_back() {
    let mut writer = Store::in_memory().writer();
    let mut teller = Teller::new(&mut writer, 1);
    use Kind::{Error, Notification, Request};
    let (client, server) = (Side::Client, Side::Server);
    teller.says(client, Request, Some("1"), Some("tools/call"), r#"{"name":"dig"}"#, "{}"); // 1
    teller.says(server, Request, Some("1"), Some("roots/list"), "", "{}"); // 2
    teller.says(client, Request, Some("\"1\""), Some("ping"), "", "{}"); // 3
    teller.says(server, Kind::Result, Some("1"), None, "", "{}"); // 4 answers 1
    teller.says(client, Error, Some("1"), None, r#"{"code":-32601}"#, "{}"); // 5 answers 2
    teller.says(client, Request, Some("1"), Some("again"), "", "{}"); // 6
    teller.says(client, Notification, None, Some("notifications/cancelled"), r#"{"request-id":"1"}"#, "{}"); // 7 names 3
    teller.says(client, Notification, None, Some("$/cancelRequest"), r#"{"id":1}"#, "{}"); // 8 names 6
    teller.says(client, Notification, None, Some("$/cancelRequest"), r#"{"id":99}"#, "{}"); // 9
    teller.says(server, Kind::Result, Some("1"), None, "", "{}"); // 10 answers 6
    let store = writer.finish().expect("written");
    let text = |rows: Vec<Vec<Option<String>>>| -> Vec<String> {
        let cell = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_string());
        rows.into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
    };
    let exchanges = store.query(
        "SELECT asked_seq, asker, id, id_kind, generation, method, tool, answered_seq, outcome, error_code \
         FROM exchanges ORDER BY asked_seq",
    );
    assert_eq!(
        text(exchanges.unwrap()),
        [
            "1 client 1 number 1 tools/call dig 4 result -",
            "2 server 1 number 1 roots/list - 5 error -32601",
            "3 client \"1\" string 1 ping - - unanswered -",
            "6 client 1 number 2 again - 10 result -",
        ]
    );
    assert_eq!(text(store.query("SELECT asked_seq FROM unanswered").unwrap()), ["3"]);
    let cancels = store.query("SELECT seq, target_id, target_method, asked_seq, fate FROM cancels ORDER BY seq");
    assert_eq!(text(cancels.unwrap()), ["7 \"1\" ping 3 unanswered", "8 1 again 6 answered", "9 99 - - unknown"]);
    let messages = store.query("SELECT seq, time, sender, kind, id_kind, tool FROM messages WHERE seq = 1");
    assert_eq!(text(messages.unwrap()), ["1 2023-11-14T22:13:20.001 client request number dig"]);
}

#[cfg(unix)]
#[test]
fn files_are_for_the_users_eyes_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new/deep/store.db");
    let mut writer = Store::open(&path).expect("a store").writer();
    everything(&mut writer, 1);
    writer.commit().expect("written");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(Path::new(&format!("{}{ending}", path.display()))), 0o600, "{ending}");
    }
}

fn refusal(path: &Path) -> String {
    Store::open(path).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn what_is_not_our_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(refusal(folder.path()).contains("it is a folder"));
    let path = folder.path().join("text");
    let text = "this is no database at all, ".repeat(100);
    fs::write(&path, &text).unwrap();
    assert!(refusal(&path).contains("not a database"), "{}", refusal(&path));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let path = folder.path().join("foreign.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a); PRAGMA user_version = 1").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(refusal(&path).contains("another program"), "{}", refusal(&path));
    assert!(fs::read(&path).unwrap() == before);
    let path = folder.path().join("later.db");
    drop(Store::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 4711).unwrap();
    assert!(refusal(&path).contains("use a newer rpctap"), "{}", refusal(&path));
    assert!(Store::open_readonly(&path).is_err() && Store::open_readonly(&folder.path().join("none")).is_err());
}

#[test]
fn several_first_starts_and_a_reader_share_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    std::thread::scope(|scope| {
        for key in 1..=4 {
            let path = &path;
            scope.spawn(move || {
                let mut writer = Store::open(path).expect("a store").writer();
                for part in 0..5 {
                    everything(&mut writer, key * 10 + part);
                    writer.commit().expect("written");
                }
                let reader = Store::open_readonly(path).expect("a reader");
                assert!(reader.sessions().expect("a list").len() >= 5);
            });
        }
    });
    let store = Store::open_readonly(&path).expect("a reader");
    let sessions = store.sessions().expect("a list");
    assert_eq!(sessions.len(), 20);
    let mut wanted = Collected::default();
    everything(&mut wanted, 1);
    for recorded in sessions {
        assert_eq!(recorded.events, wanted.events.len() as u64);
        let first = events_of(&store, recorded.number());
        assert!(first.iter().zip(&wanted.events).all(|(a, b)| a.what == b.what));
    }
    assert_eq!(store.integrity().unwrap(), "ok");
}

#[test]
fn a_load_that_could_not_be_written_is_written_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let mut writer = Store::open(&path).expect("a store").writer();
    writer.patience(Duration::from_millis(1)).unwrap();
    everything(&mut writer, 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(writer.commit().is_err() && writer.commit().is_err());
    everything(&mut writer, 2);
    assert!(writer.commit().is_err());
    other.execute_batch("ROLLBACK").unwrap();
    let store = writer.finish().expect("written at last");
    assert_eq!(events_of(&store, 1).len(), events_of(&store, 2).len());
    assert_eq!(store.query("SELECT count(*) FROM methods").unwrap()[0][0].as_deref(), Some("2"));
}

#[test]
fn an_unfinished_bulk_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let mut bulk = Bulk::create(&path).expect("a new store");
    everything(&mut bulk, 1);
    drop(bulk);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// One session after the other, then two that take turns, and a row that is longer than a page.
fn in_order_then_not(sink: &mut dyn Sink) {
    everything(sink, 1);
    let says = |sink: &mut dyn Sink, session: SessionKey, seq: u64| {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m{}\",\"params\":[{seq}]}}\n", seq % 3);
        let (from, stream) = (Side::Client, stream_of(Side::Client));
        sink.bytes(session, stream, body.repeat(3).as_bytes());
        let mut message = Message::unreadable(Unreadable::BadJson);
        (message.kind, message.method) = (Kind::Notification, Some(format!("m{}", seq % 3).into()));
        let what = match seq % 1_000 {
            7 => What::Happening(Happening::Note { text: "n\u{e9}".repeat(20_000) }),
            _ => What::Message { from, message, body: Span { stream, start: seq * 3, len: 40 } },
        };
        sink.event(Event { session, seq, at: 1_700_000_000_000_000 + seq as i64, carrier: None, what });
    };
    sink.session(&session(2, "s2"));
    (1..=17_000).for_each(|seq| says(sink, 2, seq));
    for key in [3, 4] {
        sink.session(&session(key, "taking turns"));
    }
    for seq in 1..=9_000 {
        [3, 4].into_iter().for_each(|key| says(sink, key, seq));
    }
}

#[test]
fn a_new_store_is_what_it_would_be_had_sqlite_written_every_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = |store: Store| {
        assert_eq!(store.integrity().expect("checked"), "ok");
        let ask = |sql: &str| store.query(sql).expect(sql);
        let mut streams: Vec<(String, String)> = Vec::new();
        for mut block in
            ask("SELECT session || ' ' || stream, start, hex(bytes) FROM blocks ORDER BY session, stream, blocks.start")
        {
            let (of, start, bytes) = (block[0].take().unwrap(), block[1].take().unwrap(), block[2].take().unwrap());
            match streams.last_mut() {
                Some((known, all)) if *known == of => {
                    assert_eq!(all.len() / 2, start.parse::<usize>().unwrap());
                    all.push_str(&bytes);
                }
                _ => streams.push((of, bytes)),
            }
        }
        let rows = ["sessions ORDER BY id", "methods ORDER BY id", "events ORDER BY key"];
        (streams, rows.map(|rows| ask(&format!("SELECT * FROM {rows}"))))
    };
    let mut writer = Store::in_memory().writer();
    in_order_then_not(&mut writer);
    let mut bulk = Bulk::create(&folder.path().join("bulk.db")).expect("a new store");
    in_order_then_not(&mut bulk);
    let (rows, pages) = (contents(writer.finish().expect("written")), contents(bulk.finish().expect("written")));
    assert!(rows.0 == pages.0, "the bytes differ");
    assert!(rows.1 == pages.1, "the rows differ");
}
