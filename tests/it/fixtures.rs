//! A finding becomes a test: red on the server that has the bug, green on the one that has not.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use rmcp::model::{
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};

use crate::peer;
use crate::tapped::*;

/// A real MCP server (the official SDK). `work` tells its progress every 20 ms for four seconds; `hang` never
/// answers. The one that heeds cancellation stops working, and answers a hanging call with an error.
struct Worker {
    heeds: bool,
}

impl ServerHandler for Worker {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::default())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "work" => {
                let token = context.meta.get_progress_token();
                for step in 1..=200 {
                    if self.heeds && context.ct.is_cancelled() {
                        break;
                    }
                    if let Some(token) = &token {
                        let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
                        let _ = context.peer.notify_progress(progress).await;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "hang" if !self.heeds => std::future::pending().await,
            "hang" => return Err(ErrorData::internal_error("too slow", None)),
            _ => {}
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
    }
}

pub fn serve(heeds: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let out = tokio::net::unix::pipe::Sender::from_owned_fd(peer::real_stdout()).expect("a pipe");
        let (input, _) = rmcp::transport::stdio();
        let server = Worker { heeds }.serve((input, out)).await.expect("a client");
        let _ = server.waiting().await;
    });
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
"#;
const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

/// Records a conversation with the server that does not heed: `lines` other calls, a call of `work` that is
/// cancelled at its third progress and runs on, a call that hangs.
fn recorded(place: &Place, others: usize) {
    let mut tap = Tapped::start(record(&place.store(), &["--name", "leaky"], &peer::command("deaf")));
    tap.say(INITIALIZE);
    tap.hear();
    tap.say(INITIALIZED);
    for other in 0..others {
        tap.say(&call(100 + other, "add", ""));
        tap.hear();
    }
    tap.say(&call(7, "hang", ""));
    tap.say(&call(8, "work", r#","_meta":{"progressToken":"p-8"}"#));
    for _ in 0..3 {
        tap.hear();
    }
    tap.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":8}}\n");
    // What comes later than the race window (told to be 200 ms below) is no race.
    for _ in 0..25 {
        tap.hear();
    }

    tap.end();
}

fn call(id: usize, tool: &str, rest: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{{}}{rest}}}}}\n"
    )
}

fn run(command: &mut Command) -> (Output, String) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

fn fixture(place: &Place, output: &Path, options: &[&str], server: &[OsString]) -> (Output, String) {
    let mut command = rpctap();
    command.args(["fixture", "last", "--store"]).arg(place.store()).arg("--output").arg(output);
    run(command.args(options).arg("--").args(server))
}

fn file(folder: &Path, ending: &str) -> PathBuf {
    let found = std::fs::read_dir(folder).expect("a folder").filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = found.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The test in the shell, with another server than the one it was made for.
fn shell(script: &Path, server: &[OsString]) -> (Output, String) {
    let quoted: Vec<String> =
        server.iter().map(|word| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"))).collect();
    run(Command::new(script).env("RPCTAP", env!("CARGO_BIN_EXE_rpctap")).env("SERVER", quoted.join(" ")))
}

const LIMITS: [&str; 6] = ["--race-window", "200ms", "--deadline", "300ms", "--hang-after", "700ms"];

/// One recording serves all tests here: making it takes as long as the server's own drain.
fn shared() -> &'static Place {
    static SHARED: std::sync::OnceLock<Place> = std::sync::OnceLock::new();
    SHARED.get_or_init(|| {
        let place = Place::new();
        recorded(&place, 6);
        place
    })
}

#[test]
fn a_fixture_from_ignored_cancellation_fails_on_the_deaf_server_and_passes_on_the_heeding_one() {
    let place = shared();
    let folder = place.folder.path().join("ignored");
    let (output, text) = fixture(place, &folder, &[&LIMITS[..], &["--request", "8"]].concat(), &peer::command("deaf"));
    assert!(output.status.success(), "{text}");
    let recording = std::fs::read_to_string(file(&folder, ".transcript")).expect("readable");
    assert!(
        recording.contains("tools/call") && !recording.contains("\"add\"") && !recording.contains("\"hang\""),
        "{recording}"
    );
    assert!(recording.contains(r#""requestId":2"#), "ids are numbered anew: {recording}");
    std::fs::remove_dir_all(&folder).expect("removed");

    let (output, text) = fixture(place, &folder, &[&LIMITS[..], &["--all"]].concat(), &peer::command("deaf"));
    assert!(output.status.success(), "{text}");
    let script = file(&folder, "cancel_ignored.sh");
    let (deaf, text) = shell(&script, &peer::command("deaf"));
    assert_eq!(deaf.status.code(), Some(1), "{text}");
    assert!(text.contains("does not hold"), "{text}");
    let (heeding, text) = shell(&script, &peer::command("heeding"));
    assert_eq!(heeding.status.code(), Some(0), "{text}");
}

#[test]
fn a_fixture_from_a_hanging_call_fails_until_it_is_answered() {
    let place = shared();
    let folder = place.folder.path().join("hanging");
    let (output, text) = fixture(place, &folder, &[&LIMITS[..], &["--all"]].concat(), &peer::command("deaf"));
    assert!(output.status.success(), "{text}");
    let scripts = std::fs::read_dir(&folder).expect("a folder").filter_map(|entry| Some(entry.ok()?.path()));
    let mut hanging = scripts.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("tools_call_hang_no_") && name.ends_with(".sh")
    });
    let script = hanging.next().unwrap_or_else(|| panic!("no fixture for the hanging call: {text}"));
    let (deaf, text) = shell(&script, &peer::command("deaf"));
    assert_eq!(deaf.status.code(), Some(1), "{text}");
    let (heeding, text) = shell(&script, &peer::command("heeding"));
    assert_eq!(heeding.status.code(), Some(0), "{text}");
}

#[test]
fn shrinking_drops_what_the_finding_does_not_need() {
    let place = shared();
    let folder = place.folder.path().join("shrunk");
    let options = [&LIMITS[..], &["--finding", "1", "--shrink", "--pace", "instant"]].concat();
    let (output, text) = fixture(place, &folder, &options, &peer::command("deaf"));
    assert!(output.status.success(), "{text}");
    let told = text.lines().find(|line| line.contains(" messages → ")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<usize> = told.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 40 && numbers[1] < numbers[0], "{told}");
    let script = file(&folder, ".sh");
    assert_eq!(shell(&script, &peer::command("deaf")).0.status.code(), Some(1));
    assert_eq!(shell(&script, &peer::command("heeding")).0.status.code(), Some(0));
}

#[test]
fn the_test_runs_in_every_language() {
    let place = shared();
    let folder = place.folder.path().join("languages");
    let languages = ["--for", "shell", "--for", "rust", "--for", "pytest", "--for", "node"];
    let options = [&LIMITS[..], &["--request", "100", "--pace", "instant"], &languages].concat();
    let (output, text) = fixture(place, &folder, &options, &peer::command("deaf"));
    assert!(output.status.success(), "{text}");
    let rpctap = env!("CARGO_BIN_EXE_rpctap");
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let (sh, _) = run(Command::new(file(&folder, ".sh")).env("RPCTAP", rpctap));
    assert_eq!(sh.status.code(), Some(0));
    if installed("node") {
        let (node, text) = run(Command::new("node").arg("--test").arg(file(&folder, ".mjs")).env("RPCTAP", rpctap));
        assert_eq!(node.status.code(), Some(0), "{text}");
    }
    if installed("python3") {
        let python = file(&folder, ".py");
        let module = python.file_stem().expect("a name").to_string_lossy().into_owned();
        let call = format!("import {module}; {module}.{module}()");
        let (python, text) =
            run(Command::new("python3").args(["-c", &call]).current_dir(&folder).env("RPCTAP", rpctap));
        assert_eq!(python.status.code(), Some(0), "{text}");
    }
    let built = folder.join("built");
    let (rustc, text) =
        run(Command::new("rustc").args(["--test", "--edition", "2021", "-o"]).arg(&built).arg(file(&folder, ".rs")));
    assert!(rustc.status.success(), "{text}");
    let (rust, text) = run(Command::new(&built).env("RPCTAP", rpctap));
    assert_eq!(rust.status.code(), Some(0), "{text}");
}
