//! Servers for the tests: this same binary, run again as one, so that nothing else need be installed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData};
use rmcp::model::{ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt};

const MODE: &str = "RPCTAP_TEST_PEER";

/// The command that runs a server of ours. The harness's own words go nowhere; descriptor 3 is the real stdout.
pub fn command(mode: &str) -> Vec<OsString> {
    let run = "exec env \"$1=$2\" \"$0\" --ignored --exact peer::serve --nocapture 3>&1 >/dev/null";
    let this = std::env::current_exe().expect("our own path").into_os_string();
    ["sh", "-c", run].into_iter().map(OsString::from).chain([this, MODE.into(), mode.into()]).collect()
}

/// Not a test: what [`command`] runs.
#[test]
#[ignore = "run by other tests, as a server"]
fn serve() {
    match std::env::var(MODE).as_deref() {
        Ok("echo") => echo(),
        Ok("mcp") => mcp(),
        Ok("deaf") => crate::fixtures::serve(false),
        Ok("heeding") => crate::fixtures::serve(true),
        other => panic!("there is no peer {other:?}"),
    }
    // The harness would write its verdict where our messages go.
    // SAFETY: ends the process at once, which is what we want.
    unsafe { libc::_exit(0) };
}

pub fn real_stdout() -> OwnedFd {
    // SAFETY: the shell that started us opened it, and nobody else here uses it.
    unsafe { OwnedFd::from_raw_fd(3) }
}

/// The answer the echo server gives to the request with this id.
pub fn answer(id: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"text\":\"{}\"}}}}\n", "r".repeat(250))
}

/// The request it answers.
pub fn request(id: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":{{\"text\":\"{}\"}}}}\n", "q".repeat(230))
}

/// Answers the n-th line with the n-th answer.
fn echo() {
    let mut input = BufReader::with_capacity(64 * 1024, std::io::stdin());
    let mut out = BufWriter::with_capacity(64 * 1024, File::from(real_stdout()));
    let mut line = Vec::new();
    let mut id = 0;
    while input.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        line.clear();
        id += 1;
        if out.write_all(answer(id).as_bytes()).is_err() {
            return;
        }
        // As real servers do: nothing is held back when nothing more is waiting.
        if input.buffer().is_empty() && out.flush().is_err() {
            return;
        }
    }
    let _ = out.flush();
}

/// A real MCP server (the official SDK): `add` answers, `hang` never does.
struct Adder;

impl ServerHandler for Adder {
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
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "hang" => std::future::pending().await,
            _ => Ok(CallToolResult::success(vec![ContentBlock::text("3")]).into()),
        }
    }
}

fn mcp() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let out = tokio::net::unix::pipe::Sender::from_owned_fd(real_stdout()).expect("a pipe");
        let (input, _) = rmcp::transport::stdio();
        let server = Adder.serve((input, out)).await.expect("a client");
        let _ = server.waiting().await;
    });
}
