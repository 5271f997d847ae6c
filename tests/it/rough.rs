//! Rough input and long sessions: a finding or a fault, never a crash, never a wrong pairing, never more memory than
//! what is open.

use rpctap::event::transcript;
use rpctap::event::{Collected, Event, Knows, NoBodies, Scribe, Session, Side, Sink, Source, Span, What};
use rpctap::exchange::{Fact, Outcome};
use rpctap::finding::{Analyzer, Judged, Options};
use rpctap::rpc::{Id, Kind, Marks, Message, Name, Oddities};

fn session() -> Session {
    Session {
        key: 0,
        name: "rough".to_string(),
        source: Source::Stdio,
        target: String::new(),
        started_at: 0,
        knows: Knows::ALL,
    }
}

fn judge(collected: &Collected) -> (Judged, Vec<Fact>) {
    let mut analyzer = Analyzer::new(&collected.sessions[0], &Options::default());
    let mut facts = Vec::new();
    for event in &collected.events {
        analyzer.feed(event, |fact| facts.push(fact.clone()));
    }
    let judged = analyzer.finish_telling(None, |fact| facts.push(fact.clone()));
    (judged, facts)
}

/// The outcome of each request, by id as written.
fn outcomes(facts: &[Fact]) -> Vec<(String, Outcome)> {
    facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Exchange(exchange) => Some((exchange.id.to_string(), exchange.outcome)),
            _ => None,
        })
        .collect()
}

#[test]
fn broken_messages_give_findings_and_no_wrong_pairing() {
    let talk = transcript::parse(
        r#"
        protocol mcp-2025-11-25
        0ms   -> 1 tools/call {"name":"a"}
              -> 2 tools/call {"name":"b"}
              -> notifications/cancelled
              -> notifications/cancelled {"requestId":null}
              -> notifications/cancelled {"requestId":{"id":1}}
              -> notifications/cancelled {"requestId":[2]}
              -> notifications/cancelled "text"
              -> notifications/cancelled [1]
              <- {"jsonrpc":"2.0","id":{"id":1},"result":{}}
              <- {"jsonrpc":"2.0","id":true,"result":{}}
              <- {"jsonrpc":"2.0","id":[1],"error":{"code":1,"message":"x"}}
              <- 99 result
              <- {"jsonrpc":"2.0","result":{}}
              <- {"jsonrpc":"2.0","id":1,"id":99,"result":{}}
              <- {"id":2}
              <- raw {"jsonrpc":"2.0","id":1,"result":
              <- raw []
              <- raw 17
              -> {"jsonrpc":"2.0","id":{},"method":"tools/list"}
              -> {"jsonrpc":"2.0","id":true,"method":"tools/list"}
              -> {"jsonrpc":"2.0","id":3,"method":7}
              -> {"method":"tools/list","params":"text","id":4}
        2s    |closed|
        "#,
    )
    .expect("a conversation");
    let (judged, facts) = judge(&talk.collected);
    let found = outcomes(&facts);
    let of = |id: &str| found.iter().filter(|(known, _)| known == id).map(|(_, outcome)| *outcome).collect::<Vec<_>>();
    // No broken cancel cancelled anything, and no broken answer answered request 1.
    assert_eq!(of("1"), [Outcome::LostInShutdown], "{found:?}");
    // An id and nothing else closes its request, and is told.
    assert_eq!(of("2"), [Outcome::Answered]);
    let told: Vec<&str> = judged.findings.iter().map(|finding| finding.rule.name).collect();
    for rule in [
        "cancel-without-id",
        "response-unknown-id",
        "malformed-response",
        "duplicate-key",
        "unreadable-message",
        "invalid-id",
    ] {
        assert!(told.contains(&rule), "{rule} is missing: {told:?}");
    }
}

/// Any bytes at all, on both sides, in any pieces: judged without a panic, and the same for every split.
#[test]
fn any_bytes_are_judged_and_any_split_of_them_alike() {
    let seeds: &[&[u8]] = &[
        br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","task":{"taskId":"t","status":"working"}}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1},"task":{}}}"#,
        br#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t","value":{"kind":"begin"}}}"#,
        br#"{"jsonrpc":"2.0","id":"t","method":"window/workDoneProgress/create","params":{"token":"t"}}"#,
        br#"[{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"},{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":""}}]"#,
        br#"{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"s"}}"#,
        br#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
        br#"{"jsonrpc":"2.0","id":7,"method":"message/stream","params":{"message":{"taskId":"t"}}}"#,
        br#"{"jsonrpc":"2.0","id":7,"result":{"kind":"status-update","taskId":"t","status":{"state":"completed"},"final":true}}"#,
    ];
    let mut state = 42u64;
    let mut roll = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let rounds = if std::env::var_os("RPCTAP_FULL").is_some() { 20_000 } else { 300 };
    for round in 0..rounds {
        // A conversation of such messages, some of them damaged.
        let mut said: Vec<(Side, Vec<u8>)> = Vec::new();
        for _ in 0..12 {
            let mut line = seeds[roll(seeds.len())].to_vec();
            for _ in 0..roll(3) {
                let at = roll(line.len());
                match roll(3) {
                    0 => line[at] = b"\"{}[]:,01x\\n"[roll(10)],
                    1 => drop(line.drain(at..(at + roll(9)).min(line.len()))),
                    _ => line.insert(at, b"\"}{0]"[roll(5)]),
                }
                if line.is_empty() {
                    break;
                }
            }
            line.push(b'\n');
            said.push((if roll(2) == 0 { Side::Client } else { Side::Server }, line));
        }
        let record = |chunk: usize| {
            let mut collected = Collected::default();
            collected.session(&session());
            let mut scribe = Scribe::new(0);
            for (moment, (from, line)) in said.iter().enumerate() {
                for piece in line.chunks(chunk) {
                    scribe.bytes(*from, moment as i64 * 1000, piece, &mut collected);
                }
            }
            collected
        };
        let whole = judge(&record(1 << 20)).0;
        for chunk in [1, 7] {
            let split = judge(&record(chunk)).0;
            assert_eq!(whole.findings, split.findings, "round {round}, pieces of {chunk}");
            assert_eq!(whole.outcomes, split.outcomes, "round {round}, pieces of {chunk}");
        }
    }
}

fn message(kind: Kind, id: Option<Id>, method: Option<&Name>) -> Message {
    Message {
        kind,
        id,
        method: method.cloned(),
        marks: Marks::default(),
        oddities: Oddities::default(),
        params_print: 7,
        batch_index: None,
    }
}

fn event(seq: u64, at: i64, from: Side, message: Message) -> Event {
    let body = Span { stream: 0, start: seq * 100, len: 100 };
    Event { session: 0, seq, at, carrier: None, what: What::Message { from, message, body } }
}

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    status.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// Ten million messages with `RPCTAP_FULL=1`: memory holds what is open, never what has passed.
#[cfg(target_os = "linux")]
#[test]
fn memory_is_bounded_by_what_is_open() {
    let exchanges: u64 = if std::env::var_os("RPCTAP_FULL").is_some() { 5_000_000 } else { 150_000 };
    let methods: Vec<Name> = (0..50).map(|number| Name::from(format!("method/{number}"))).collect();
    let mut analyzer = Analyzer::new(&session(), &Options::default());
    let mut after_warming_up = 0;
    let mut seq = 0;
    let began = std::time::Instant::now();
    // A window of requests is always open; ids are numbers and texts, and every tenth is asked by the server.
    const WINDOW: u64 = 64;
    let id = |number: u64| match number % 3 {
        0 => Id::Text(format!("call-{number}").into()),
        _ => Id::Int(number as i64),
    };
    let asker = |number: u64| if number.is_multiple_of(10) { Side::Server } else { Side::Client };
    for number in 0..exchanges + WINDOW {
        let at = number as i64 * 100;
        if number < exchanges {
            seq += 1;
            let method = &methods[number as usize % methods.len()];
            let asked = message(Kind::Request, Some(id(number)), Some(method));
            analyzer.event(&event(seq, at, asker(number), asked), &mut NoBodies);
        }
        if number >= WINDOW {
            seq += 1;
            let answered = number - WINDOW;
            let answer = message(Kind::Result, Some(id(answered)), None);
            analyzer.event(&event(seq, at, asker(answered).other(), answer), &mut NoBodies);
        }
        // By then every ring is full.
        if number == 100_000 {
            after_warming_up = resident();
        }
    }
    let grown = resident().saturating_sub(after_warming_up);
    let judged = analyzer.finish(None);
    eprintln!("{seq} events, {} ns each with making them", began.elapsed().as_nanos() / u128::from(seq));
    assert_eq!(judged.requests(), exchanges);
    assert_eq!(judged.outcomes(Side::Client).get(Outcome::Answered), exchanges - exchanges.div_ceil(10));
    assert!(judged.findings.is_empty(), "{:?}", judged.findings);
    // Other tests run beside this one in the same process: the bound leaves room for them.
    assert!(grown < 64 << 20, "{exchanges} exchanges grew memory by {} KiB", grown >> 10);
}
