//! How fast messages are cut and read, against a bare split into lines and against serde_json, in one run.
//!
//! `cargo bench --bench scan [-- MESSAGES]`. Prints a table of ratios. Rounds are short, many and
//! interleaved, and the best of each counts, so that a busy machine disturbs all alike or not at all.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rpctap::event::{Event, Scribe, Session, SessionKey, Side, Sink, StreamId};
use rpctap::rpc::Scanner;
use rpctap::wire::lines::Lines;
use serde::Deserialize;
use serde::de::IgnoredAny;

const ROUNDS: usize = 200;
/// As much as a reader hands over at once.
const PIECE: usize = 256 * 1024;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a serde_json::value::RawValue>,
    method: Option<&'a str>,
    #[allow(dead_code)]
    params: Option<IgnoredAny>,
    #[allow(dead_code)]
    result: Option<IgnoredAny>,
    #[allow(dead_code)]
    error: Option<IgnoredAny>,
}

/// Counts what comes, so that nothing is thrown away unseen.
#[derive(Default)]
struct Counting {
    bytes: usize,
    events: usize,
}

impl Sink for Counting {
    fn session(&mut self, _: &Session) {}

    fn bytes(&mut self, _: SessionKey, _: StreamId, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    fn event(&mut self, event: Event) {
        self.events += 1;
        black_box(&event);
    }
}

/// Calls and answers of about 400 bytes, as MCP has them.
fn conversation(messages: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let words = "the quick brown fox jumps over the lazy dog and looks at the moon ";
    for number in 0..messages / 2 {
        let from = number % 40;
        text.extend_from_slice(
            format!(
                concat!(
                    r#"{{"jsonrpc":"2.0","id":{0},"method":"tools/call","params":{{"_meta":{{"progressToken":{0}}},"#,
                    r#""name":"search_{1}","arguments":{{"query":"{2}","limit":{1},"filters":[{{"field":"date","op":"gt","value":1700000000}},"#,
                    r#"{{"field":"lang","op":"eq","value":"en"}}],"cursor":null,"path":"/home/user/project/src/module_{1}/file.rs","deep":{{"a":[1,2,3,4.5],"b":true}}}}}}}}"#,
                    "\n"
                ),
                number,
                from,
                &words[from..]
            )
            .as_bytes(),
        );
        text.extend_from_slice(
            format!(
                concat!(
                    r#"{{"jsonrpc":"2.0","id":{0},"result":{{"content":[{{"type":"text","text":"{1}\n{1}\n{1}\n{1} ({2})"}}],"#,
                    r#""isError":false,"structuredContent":{{"count":{2},"items":["one","two"]}}}}}}"#,
                    "\n"
                ),
                number, words, from
            )
            .as_bytes(),
        );
    }
    text
}

fn main() {
    let messages = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(5_000);
    let text = conversation(messages);
    // Lines are found beforehand where finding them is not the matter.
    let mut lines = Vec::new();
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', &text) {
        lines.push(&text[from..end]);
        from = end + 1;
    }
    let split = || memchr::memchr_iter(b'\n', &text).count();
    let cut = || {
        let (mut framer, mut count) = (Lines::default(), 0);
        for piece in text.chunks(PIECE) {
            framer.feed(piece, &mut |piece: rpctap::wire::Piece<'_>| {
                count += usize::from(matches!(piece, rpctap::wire::Piece::End { .. }))
            });
        }
        count
    };
    let scanned = || {
        let (mut scanner, mut found, mut count) = (Scanner::new(), Vec::new(), 0);
        for line in &lines {
            scanner.push(line);
            scanner.finish(&mut found);
            count += found.len();
            found.clear();
        }
        count
    };
    let written = || {
        let (mut scribe, mut sink) = (Scribe::new(1), Counting::default());
        for piece in text.chunks(PIECE) {
            scribe.bytes(Side::Client, 0, piece, &mut sink);
        }
        assert_eq!(sink.bytes, text.len());
        sink.events
    };
    let typed = || {
        let mut count = 0;
        for line in &lines {
            if let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) {
                count += 1;
                black_box((envelope.id, envelope.method));
            }
        }
        count
    };
    let works: [(&str, &dyn Fn() -> usize); 5] = [
        ("split at line ends", &split),
        ("wire::lines", &cut),
        ("rpc::Scanner", &scanned),
        ("event::Scribe: cut, scan, number, hand over", &written),
        ("serde_json, typed envelope, IgnoredAny", &typed),
    ];
    let mut best = [Duration::MAX; 5];
    for _ in 0..ROUNDS {
        for ((name, work), best) in works.iter().zip(&mut best) {
            let start = Instant::now();
            let count = black_box(work());
            *best = start.elapsed().min(*best);
            assert_eq!(count, messages, "{name} saw every message");
        }
    }
    println!("{} messages, {} bytes, mean {}", messages, text.len(), text.len() / messages);
    println!("{:<44}{:>10}{:>10}{:>12}{:>10}", "", "ms", "MB/s", "ns/message", "x typed");
    for ((name, _), time) in works.iter().zip(best) {
        println!(
            "{name:<44}{:>10.1}{:>10.0}{:>12.0}{:>10.2}",
            time.as_secs_f64() * 1e3,
            text.len() as f64 / 1e6 / time.as_secs_f64(),
            time.as_nanos() as f64 / messages as f64,
            time.as_secs_f64() / best[4].as_secs_f64(),
        );
    }
}
