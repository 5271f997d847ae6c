//! Replays with processes and sockets: the recorded server to real clients, the recorded client to servers of every kind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};

use crate::tapped::*;

const TALK: &str = r#"// rpctap recording: for tests
0ms   -> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
5ms   <- {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
6ms   -> {"jsonrpc":"2.0","method":"notifications/initialized"}
10ms  -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}
12ms  <- {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"first"}]}}
13ms  -> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add"}}
14ms  <- {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"second"}]}}
15ms  -> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hang"}}
16ms  -> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":4}}}
17ms  <- {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}
18ms  -> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}
900ms |client closed|
"#;

fn talk(folder: &Path) -> PathBuf {
    let path = folder.join("talk.transcript");
    std::fs::write(&path, TALK).expect("written");
    path
}

const QUICK: [&str; 8] =
    ["--pace", "instant", "--answer-limit", "1500ms", "--hang-after", "150ms", "--ignore", "/result/serverInfo"];

fn play(recording: &Path, options: &[&str], server: &[&str]) -> (Output, String, Duration) {
    let started = Instant::now();
    let mut command = rpctap();
    command.args(["replay", "client"]).arg(recording).args(options);
    if !server.is_empty() {
        command.arg("--").args(server);
    }
    let output = command.stdin(Stdio::null()).output().expect("rpctap runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text, started.elapsed())
}

#[test]
fn a_recording_played_against_itself_is_the_same_every_time() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    let server = [env!("CARGO_BIN_EXE_rpctap"), "replay", "server", recording.to_str().expect("a path")];
    let rounds = if std::env::var_os("RPCTAP_FULL").is_some() { 100 } else { 5 };
    let mut texts = std::collections::HashSet::new();
    for _ in 0..rounds {
        let (output, text, _) = play(&recording, &QUICK, &server);
        assert_eq!(output.status.code(), Some(0), "{text}");
        texts.insert(text);
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    let (output, text, _) = play(&recording, &[&QUICK[..], &["--json"]].concat(), &server);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((json["verdict"].as_str(), json["requests"].as_u64()), (Some("same"), Some(5)));
    // A fault on top shows as a divergence, lifecycle first.
    let faulty = [&server[..], &["--fault", "tools/call(add): error=-32000"]].concat();
    let (output, text, _) = play(&recording, &QUICK, &faulty);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1 tools/call (add): was answered, is answered with an error"), "{text}");
    assert!(text.contains("\n- ") && text.contains("\n+ "), "{text}");
}

#[test]
fn a_leak_is_repeated_and_grows_or_does_not() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    let server =
        [env!("CARGO_BIN_EXE_rpctap"), "replay", "server", recording.to_str().expect("a path"), "--unmatched", "hang"];
    let options = [&QUICK[..], &["--times", "5", "--expect", "no-growth"]].concat();
    let (output, text, _) = play(&recording, &options, &server);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("open requests: 1 after round 1, 5 after round 5 (+1.00 a round): it piles up"), "{text}");
    assert!(text.contains("memory of the server"), "{text}");
}

#[test]
fn servers_that_end_flood_say_nonsense_or_nothing_get_a_clear_line() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    let quick = ["--pace", "instant", "--answer-limit", "200ms", "--hang-after", "100ms"];
    for (server, code, word) in [
        (vec!["true"], 2, "exited with code 0 before it said anything"),
        (vec!["sh", "-c", "echo 'no such module' >&2; exit 3"], 2, "no such module"),
        (vec!["sleep", "60"], 1, "is left hanging"),
        (vec!["sh", "-c", "yes '{\"jsonrpc\":\"2.0\",\"method\":\"x\"}'"], 1, "flood limit"),
        (vec!["sh", "-c", "while read -r line; do echo hello; done"], 1, "is left hanging"),
        (vec!["cat"], 1, "diverged"),
        (vec!["/no/such/program"], 2, "starting the server /no/such/program"),
        (
            vec!["sh", "-c", "read -r line; echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}'; kill -9 $$"],
            1,
            "was ended by signal 9",
        ),
    ] {
        let (output, text, took) = play(&recording, &quick, &server);
        assert_eq!(output.status.code(), Some(code), "{server:?}: {text}");
        assert!(text.contains(word), "{server:?}: {text}");
        assert!(took < Duration::from_secs(20), "{server:?} took {took:?}");
    }
    let gap = place.folder.path().join("gap.transcript");
    std::fs::write(&gap, TALK.replace("10ms  ->", "8ms |lost 3 from server|\n10ms  ->")).expect("written");
    let (_, text, _) = play(&gap, &quick, &["cat"]);
    assert!(text.contains("gap"), "{text}");
    let (output, text, _) = play(Path::new("/no/such/recording"), &quick, &["cat"]);
    assert_eq!(output.status.code(), Some(2), "{text}");
}

fn replay_server(recording: &Path, options: &[&str]) -> Command {
    let mut command = rpctap();
    command.args(["replay", "server"]).arg(recording).args(options);
    command
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_real_client_talks_to_the_recorded_server() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    runtime().block_on(async {
        let command = tokio::process::Command::from(replay_server(&recording, &[]));
        let transport = TokioChildProcess::new(command).expect("it starts");
        let client = ().serve(transport).await.expect("a handshake");
        for text in ["first", "second", "second"] {
            let answer = client.call_tool(CallToolRequestParams::new("add")).await.expect("an answer");
            assert!(format!("{answer:?}").contains(text), "{answer:?}");
        }
        let unknown = client.call_tool(CallToolRequestParams::new("adder")).await.expect_err("not on record");
        assert!(format!("{unknown:?}").contains("/params/name"), "{unknown:?}");
        let hung =
            tokio::time::timeout(Duration::from_millis(100), client.call_tool(CallToolRequestParams::new("hang")));
        assert!(hung.await.is_err(), "what hung hangs");
        client.cancel().await.expect("closed");
    });
}

struct Listening {
    child: Child,
    url: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(recording: &Path) -> Listening {
    let mut command = replay_server(recording, &["--listen", "127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr"));
    stderr.read_line(&mut line).expect("a line");
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let url = line.trim().rsplit(' ').next().expect("an address").to_string();
    Listening { child, url }
}

#[test]
fn the_recorded_server_speaks_streamable_http_to_both() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    let server = listen(&recording);
    runtime().block_on(async {
        let transport = StreamableHttpClientTransport::from_uri(server.url.clone());
        let client = ().serve(transport).await.expect("a handshake");
        for text in ["first", "second"] {
            let answer = client.call_tool(CallToolRequestParams::new("add")).await.expect("an answer");
            assert!(format!("{answer:?}").contains(text), "{answer:?}");
        }
        let hung =
            tokio::time::timeout(Duration::from_millis(100), client.call_tool(CallToolRequestParams::new("hang")));
        assert!(hung.await.is_err(), "what hung hangs");
    });
    // Each session has its own place in the recording.
    for _ in 0..2 {
        let (output, text, _) = play(&recording, &[&QUICK[..], &["--url", &server.url]].concat(), &[]);
        assert_eq!(output.status.code(), Some(0), "{text}");
    }
    let url = server.url.clone();
    drop(server);
    let (output, text, _) = play(&recording, &[&QUICK[..], &["--url", &url]].concat(), &[]);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cannot be reached"), "{text}");
}

#[test]
fn what_is_not_on_record_is_forwarded_to_a_real_server() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    runtime().block_on(async {
        let mut command = replay_server(&recording, &["--unmatched", "forward", "--"]);
        command.args(crate::peer::command("mcp"));
        let transport = TokioChildProcess::new(tokio::process::Command::from(command)).expect("it starts");
        let client = ().serve(transport).await.expect("a handshake");
        let answer = client.call_tool(CallToolRequestParams::new("add")).await.expect("recorded");
        assert!(format!("{answer:?}").contains("first"), "{answer:?}");
        let answer = client.call_tool(CallToolRequestParams::new("adder")).await.expect("forwarded");
        assert!(format!("{answer:?}").contains('3'), "{answer:?}");
        client.cancel().await.expect("closed");
    });
}

#[test]
fn events_come_back_without_loss_and_other_formats_can_be_read_again() {
    let place = Place::new();
    let recording = talk(place.folder.path());
    let run = |args: &[&str]| {
        let mut command = rpctap();
        let done = command
            .args(args)
            .env("RPCTAP_STORE", place.store())
            .current_dir(place.folder.path())
            .output()
            .expect("it runs");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    };
    let path = recording.to_str().expect("a path");
    run(&["export", path, "--output", "first.jsonl"]);
    run(&["import", "first.jsonl"]);
    run(&["export", "last", "--output", "second.jsonl"]);
    let lines = |name: &str| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(place.folder.path().join(name)).expect("readable");
        let value = |line: &str| {
            let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            value.as_object_mut().expect("an object").remove("session");
            value
        };
        text.lines().map(value).collect()
    };
    let (first, second) = (lines("first.jsonl"), lines("second.jsonl"));
    let events = |lines: &[serde_json::Value]| -> Vec<serde_json::Value> {
        lines.iter().filter(|line| line.get("seq").is_some()).cloned().collect()
    };
    assert!(events(&first).len() >= 13);
    assert_eq!(events(&first), events(&second));
    assert_eq!(first, second);
    for (format, file) in [("har", "talk.har"), ("lsp-trace", "talk.log")] {
        run(&["export", path, "--format", format, "--output", file]);
        let again = run(&["export", file]);
        let calls =
            again.lines().filter(|line| line.contains("\"method\":\"tools/call\"") && line.contains("\"seq\"")).count();
        assert_eq!(calls, 4, "{format}: {again}");
        let answers = again.lines().filter(|line| line.contains("\"kind\":\"result\"")).count();
        assert_eq!(answers, 3, "{format}: {again}");
    }
}

const MODERN: &str = r#"// rpctap recording: no handshake, and closing is the cancel
0ms   #1 |opened POST /mcp|
0ms   #1 -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
5ms   #1 <- {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}
6ms   #1 |closed by server|
10ms  #2 |opened POST /mcp|
10ms  #2 -> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
40ms  #2 |closed by client|
50ms  #3 |opened POST /mcp|
50ms  #3 -> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
55ms  #3 <- {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","content":[]}}
56ms  #3 |closed by server|
"#;

#[test]
fn a_closed_exchange_is_played_by_closing_and_over_stdio_by_a_cancel() {
    let place = Place::new();
    let recording = place.folder.path().join("modern.transcript");
    std::fs::write(&recording, MODERN).expect("written");
    let server = listen(&recording);
    let (output, text, _) = play(&recording, &[&QUICK[..], &["--json", "--url", &server.url]].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("gave-up-waiting"), "{text}");
    let log = place.folder.path().join("heard.txt");
    let script =
        format!("tee '{}' | '{}' replay server '{}'", log.display(), env!("CARGO_BIN_EXE_rpctap"), recording.display());
    let (output, text, _) = play(&recording, &QUICK, &["sh", "-c", &script]);
    let heard = std::fs::read_to_string(&log).expect("readable");
    assert!(heard.contains(r#""method":"notifications/cancelled","params":{"requestId":2}"#), "{heard}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
}

const EDITOR: &str = r#"// rpctap recording: a language server
0ms   -> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"rootUri":"file:///x","capabilities":{}}}
5ms   <- {"jsonrpc":"2.0","id":1,"result":{"capabilities":{"hoverProvider":true}}}
6ms   -> {"jsonrpc":"2.0","method":"initialized","params":{}}
7ms   <- {"jsonrpc":"2.0","id":1,"method":"window/workDoneProgress/create","params":{"token":"made-by-server-1"}}
8ms   -> {"jsonrpc":"2.0","id":1,"result":null}
10ms  -> {"jsonrpc":"2.0","id":2,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///x/a.rs"},"position":{"line":1,"character":2}}}
20ms  -> {"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}
25ms  <- {"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"request cancelled"}}
30ms  -> {"jsonrpc":"2.0","id":3,"method":"shutdown"}
35ms  <- {"jsonrpc":"2.0","id":3,"result":null}
36ms  -> {"jsonrpc":"2.0","method":"exit"}
40ms  |closed|
40ms  |exit 0|
"#;

#[test]
fn language_servers_are_framed_as_they_must_be() {
    let place = Place::new();
    let recording = place.folder.path().join("editor.transcript");
    std::fs::write(&recording, EDITOR).expect("written");
    let log = place.folder.path().join("heard.txt");
    let script =
        format!("tee '{}' | '{}' replay server '{}'", log.display(), env!("CARGO_BIN_EXE_rpctap"), recording.display());
    let (output, text, _) = play(&recording, &QUICK, &["sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(std::fs::read_to_string(&log).expect("readable").starts_with("Content-Length: "));
    let many = [&QUICK[..], &["--times", "3"]].concat();
    let hangs = format!("'{}' replay server '{}' --unmatched hang", env!("CARGO_BIN_EXE_rpctap"), recording.display());
    let (_, text, _) = play(&recording, &many, &["sh", "-c", &hangs]);
    assert!(text.contains("open requests: 0 after round 1, 0 after round 3"), "{text}");
}
