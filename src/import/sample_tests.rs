//! Every sample, read as what it is, gives the events it must give.

use std::path::Path;

use super::*;
use crate::event::{Collected, Event, Happening, Micros, What};
use crate::rpc::Kind;

pub(super) fn read_sample(name: &str) -> (Collected, &'static str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name);
    let mut collected = Collected::default();
    let mut next_key = 1;
    let input = Input::open(&path).expect("the sample is there");
    let format = read(input, &Options::default(), &mut next_key, &mut collected).expect(name);
    (collected, format)
}

/// What one side of all sessions sent.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Sent {
    requests: usize,
    notifications: usize,
    results: usize,
    errors: usize,
    unreadable: usize,
}

fn sent(collected: &Collected, side: Side) -> Sent {
    let mut sent = Sent::default();
    for (from, message) in collected.events.iter().filter_map(Event::message) {
        if from == side {
            match message.kind {
                Kind::Request => sent.requests += 1,
                Kind::Notification => sent.notifications += 1,
                Kind::Result => sent.results += 1,
                Kind::Error => sent.errors += 1,
                Kind::Unreadable(_) => sent.unreadable += 1,
            }
        }
    }
    sent
}

fn happenings(collected: &Collected) -> Vec<&Happening> {
    let only = |event: &'_ Event| matches!(event.what, What::Happening(_));
    let found = collected.events.iter().filter(|event| only(event));
    found
        .filter_map(|event| if let What::Happening(happening) = &event.what { Some(happening) } else { None })
        .collect()
}

fn lost(collected: &Collected) -> Vec<String> {
    let mut lost = Vec::new();
    for happening in happenings(collected) {
        if let Happening::Lost { why, .. } = happening {
            lost.push(why.clone());
        }
    }
    lost
}

fn cancels(collected: &Collected) -> usize {
    let names = ["notifications/cancelled", "$/cancelRequest"];
    collected.events.iter().filter_map(Event::message).filter(|(_, m)| names.contains(&m.method())).count()
}

/// Times rise within a session, seq counts from 1, spans point into what came.
fn sound(collected: &Collected) {
    for session in &collected.sessions {
        let mut seq = 0;
        let mut last: Micros = i64::MIN;
        for event in collected.events.iter().filter(|event| event.session == session.key) {
            seq += 1;
            assert_eq!(event.seq, seq, "{}: events are numbered without gaps", session.name);
            assert!(event.at >= last, "{}: time goes back at event {seq}", session.name);
            last = event.at;
            if let Some(span) = event.span() {
                let held = collected.streams.get(&(session.key, span.stream)).map_or(0, Vec::len) as u64;
                assert!(span.start + span.len <= held, "{}: event {seq} points past its stream", session.name);
            }
        }
    }
}

struct Truth {
    sample: &'static str,
    format: &'static str,
    sessions: usize,
    client: Sent,
    server: Sent,
    cancels: usize,
}

const fn by(requests: usize, notifications: usize, results: usize, errors: usize) -> Sent {
    Sent { requests, notifications, results, errors, unreadable: 0 }
}

const TRUTHS: &[Truth] = &[
    Truth {
        sample: "r1-pysdk-1.29.0-pathB.ndjson",
        format: "ndjson",
        sessions: 1,
        client: by(54, 1, 0, 0),
        server: by(0, 0, 4, 0),
        cancels: 0,
    },
    Truth {
        sample: "r2-pysdk-2.3.0-pathB.ndjson",
        format: "ndjson",
        sessions: 1,
        client: by(54, 51, 0, 0),
        server: by(0, 0, 4, 0),
        cancels: 50,
    },
    Truth {
        sample: "r2-pysdk-client2.3.0-server1.29.0-pathB.ndjson",
        format: "ndjson",
        sessions: 1,
        client: by(54, 51, 0, 0),
        server: by(0, 0, 4, 50),
        cancels: 50,
    },
    Truth {
        sample: "r5-codex-0.128.0-cancel.ndjson",
        format: "ndjson",
        sessions: 1,
        client: by(4, 2, 0, 0),
        server: by(0, 29, 3, 0),
        cancels: 1,
    },
    Truth {
        sample: "r6-lsp-pyright.ndjson",
        format: "ndjson",
        sessions: 1,
        client: by(22, 15, 8, 0),
        server: by(8, 17, 9, 13),
        cancels: 12,
    },
    Truth {
        sample: "strace.txt",
        format: "strace",
        sessions: 1,
        client: by(7, 1, 0, 0),
        server: by(0, 0, 4, 0),
        cancels: 0,
    },
    Truth {
        sample: "lsp-trace-text.log",
        format: "lsp-trace",
        sessions: 1,
        client: by(6, 4, 2, 0),
        server: by(2, 0, 4, 2),
        cancels: 1,
    },
    Truth {
        sample: "lsp-trace-json.log",
        format: "lsp-trace-json",
        sessions: 1,
        client: by(6, 4, 2, 0),
        server: by(2, 0, 4, 2),
        cancels: 1,
    },
    Truth {
        sample: "neovim-lsp.log",
        format: "neovim",
        sessions: 1,
        client: by(4, 4, 0, 0),
        server: by(0, 11, 4, 0),
        cancels: 1,
    },
    Truth {
        sample: "r3-http-1.29.0-pathB.pcap",
        format: "pcap",
        sessions: 1,
        client: by(54, 1, 0, 0),
        server: by(0, 0, 4, 0),
        cancels: 0,
    },
    Truth {
        sample: "mitmproxy.har",
        format: "har",
        sessions: 1,
        client: by(7, 1, 0, 0),
        server: by(0, 0, 4, 0),
        cancels: 0,
    },
    Truth {
        sample: "playwright-sse.har",
        format: "har",
        sessions: 1,
        client: by(6, 2, 0, 0),
        server: by(0, 0, 5, 0),
        cancels: 1,
    },
    Truth {
        sample: "r3-first.pcapng",
        format: "pcap",
        sessions: 1,
        client: by(6, 1, 0, 0),
        server: by(0, 0, 3, 0),
        cancels: 0,
    },
    Truth {
        sample: "tshark.json",
        format: "tshark",
        sessions: 1,
        client: by(6, 1, 0, 0),
        server: by(0, 0, 3, 0),
        cancels: 0,
    },
    Truth {
        sample: "claude-desktop-whole.log",
        format: "claude-desktop",
        sessions: 2,
        client: by(5, 2, 0, 0),
        server: by(0, 0, 2, 1),
        cancels: 1,
    },
    Truth {
        sample: "claude-desktop-metadata.log",
        format: "claude-desktop",
        sessions: 1,
        client: by(4, 1, 0, 0),
        server: by(0, 0, 3, 0),
        cancels: 0,
    },
    Truth {
        sample: "claude-desktop-bare.log",
        format: "claude-desktop",
        sessions: 1,
        client: by(5, 1, 0, 0),
        server: by(0, 0, 3, 1),
        cancels: 0,
    },
    Truth {
        sample: "vscode-mcp.log",
        format: "vscode-mcp",
        sessions: 1,
        client: by(3, 2, 1, 0),
        server: by(1, 1, 2, 0),
        cancels: 1,
    },
    Truth {
        sample: "mcp-inspector.json",
        format: "mcp-inspector",
        sessions: 1,
        client: by(3, 1, 1, 0),
        server: by(1, 0, 2, 0),
        cancels: 0,
    },
    Truth {
        sample: "json-rpc.jsonl",
        format: "json-rpc",
        sessions: 1,
        client: by(2, 2, 1, 0),
        server: by(1, 1, 1, 0),
        cancels: 1,
    },
];

#[test]
fn samples_give_what_is_known_of_them() {
    let mut wrong = Vec::new();
    for truth in TRUTHS {
        let (collected, format) = read_sample(truth.sample);
        sound(&collected);
        let found = (format, collected.sessions.len(), sent(&collected, Side::Client), sent(&collected, Side::Server));
        let wanted = (truth.format, truth.sessions, truth.client, truth.server);
        if found != wanted || cancels(&collected) != truth.cancels || !lost(&collected).is_empty() {
            wrong.push(format!(
                "{}: found {found:?}, {} cancels, lost {:?}",
                truth.sample,
                cancels(&collected),
                lost(&collected)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_tool_dropped_or_got_wrong_is_told() {
    let (collected, format) = read_sample("mcpsnoop.jsonl");
    sound(&collected);
    assert_eq!(format, "mcpsnoop");
    assert_eq!(sent(&collected, Side::Client), by(3, 1, 0, 0));
    assert_eq!(sent(&collected, Side::Server), Sent { unreadable: 1, ..by(0, 0, 2, 0) });
    assert_eq!(lost(&collected), ["line 8: mcpsnoop dropped frames here (seq 8 to 9)"]);
}

#[test]
fn ends_are_told_where_the_log_has_them() {
    let (collected, _) = read_sample("strace.txt");
    let told: Vec<String> = happenings(&collected).iter().map(|what| format!("{what:?}")).collect();
    assert!(told[0].contains("Closed { from: Client, by: Client, how: Eof }"), "{told:?}");
    assert!(told[1].contains("Closed { from: Server, by: Server, how: Eof }"), "{told:?}");
    assert!(told[2].contains("Exited { code: Some(0)"), "{told:?}");
    let (collected, _) = read_sample("r1-pysdk-1.29.0-pathB.ndjson");
    let told: Vec<&str> = happenings(&collected)
        .iter()
        .map(|what| match what {
            Happening::Opened { .. } => "opened",
            Happening::Closed { .. } => "closed",
            Happening::Exited { code: Some(0), signal: None } => "exited",
            _ => "other",
        })
        .collect();
    assert_eq!(told, ["opened", "closed", "closed", "exited"]);
}

#[test]
fn what_a_format_cannot_know_is_said() {
    for (sample, payload, times, direction, ends) in [
        ("claude-desktop-bare.log", false, true, true, true),
        ("claude-desktop-whole.log", true, true, true, true),
        ("json-rpc.jsonl", true, false, false, false),
        ("mitmproxy.har", true, true, true, false),
        ("r1-pysdk-1.29.0-pathB.ndjson", true, true, true, true),
        ("neovim-lsp.log", true, true, true, false),
    ] {
        let (collected, _) = read_sample(sample);
        let knows = Knows { times, direction, ids: true, payload, ends };
        assert_eq!(collected.sessions[0].knows, knows, "{sample}");
    }
}

#[test]
fn stderr_in_a_log_stays_stderr() {
    let (collected, _) = read_sample("claude-desktop-whole.log");
    let stderr = collected.events.iter().filter(|event| matches!(event.what, What::Stderr { .. })).count();
    assert_eq!(stderr, 4);
    let (collected, _) = read_sample("strace.txt");
    let stderr = collected.events.iter().filter(|event| matches!(event.what, What::Stderr { .. })).count();
    assert_eq!(stderr, 6);
}

#[test]
fn every_sample_comes_back_from_event_lines_as_it_was() {
    for truth in TRUTHS {
        let (given, _) = read_sample(truth.sample);
        let mut writer = crate::event::line::LineWriter::new(Vec::new());
        for session in &given.sessions {
            writer.session(session);
        }
        for ((session, stream), bytes) in &given.streams {
            writer.bytes(*session, *stream, bytes);
        }
        for event in &given.events {
            writer.event(event.clone());
        }
        let text = writer.finish().expect("in memory");
        let mut again = Collected::default();
        let input = Input::from_reader("lines", Box::new(std::io::Cursor::new(text)), None).expect("readable");
        let format = read(input, &Options::default(), &mut 1, &mut again).expect(truth.sample);
        assert_eq!(format, "rpctap");
        assert_eq!(again, given, "{}", truth.sample);
    }
}

#[test]
fn unreadable_lines_are_counted_and_named() {
    let mut text = String::from(
        "{\"ts\": 1, \"dir\": \"c2s\", \"raw\": \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"method\\\":\\\"a\\\"}\\n\"}\n",
    );
    for _ in 0..200 {
        text.push_str("what is this\n");
    }
    text.push_str("{\"ts\": 2, \"dir\": \"s2c\", \"raw\": \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"result\\\":{}}\\n\"}\n{\"ts\": 3, \"dir\": \"up\", \"raw\": \"\"}\n");
    let mut collected = Collected::default();
    let input = Input::from_reader("log", Box::new(std::io::Cursor::new(text.into_bytes())), None).expect("readable");
    let options = Options { format: Some("ndjson".to_string()), ..Options::default() };
    read(input, &options, &mut 1, &mut collected).expect("readable");
    sound(&collected);
    let told = lost(&collected);
    assert_eq!(told[0], "line 2: not a JSON object");
    assert_eq!(told.last().map(String::as_str), Some("151 further places could not be read"));
    assert_eq!((sent(&collected, Side::Client).requests, sent(&collected, Side::Server).results), (1, 1));
}

#[test]
fn one_side_of_a_conversation_is_told_as_such() {
    let client = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\"}\n";
    let options = Options { direction: Some(Side::Client), ..Options::default() };
    let mut collected = Collected::default();
    let input = Input::from_reader("tee", Box::new(client.as_bytes()), None).expect("readable");
    read(input, &options, &mut 1, &mut collected).expect("readable");
    assert!(matches!(happenings(&collected).last(), Some(Happening::Lost { from: Some(Side::Server), .. })));
    assert_eq!(lost(&collected)[0], "what the server sent is not in this file");
}

#[test]
fn two_files_of_a_tee_are_one_conversation() {
    let client = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\"}\n";
    let server =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n";
    let input = |text: &'static str| Input::from_reader("tee", Box::new(text.as_bytes()), None).expect("readable");
    let mut collected = Collected::default();
    bare::read_pair(input(client), input(server), &Options::default(), 1, &mut collected).expect("readable");
    sound(&collected);
    let order: Vec<(Side, Kind)> =
        collected.events.iter().filter_map(Event::message).map(|(from, message)| (from, message.kind)).collect();
    assert_eq!(
        order,
        [
            (Side::Client, Kind::Request),
            (Side::Server, Kind::Result),
            (Side::Server, Kind::Request),
            (Side::Client, Kind::Result),
            (Side::Client, Kind::Request),
        ],
        "no answer stands before its request"
    );
    assert!(!collected.sessions[0].knows.times);
}
