//! `rpctap proxy` as a process: the line that says where it listens, the store, the signals.

use super::*;
use std::process::{Child, Command, Stdio};

struct Running {
    child: Child,
    address: SocketAddr,
    talk: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(upstream: SocketAddr, store: &std::path::Path, more: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rpctap"))
            .args(["proxy", "--upstream", &format!("http://{upstream}"), "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut talk = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        talk.read_line(&mut line).unwrap();
        let address = line.strip_prefix("rpctap: listening on http://").and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Running { child, address, talk }
    }

    fn post(&self, body: &str) -> (String, String) {
        let mut line = Line::to(self.address);
        let length = body.len();
        line.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        line.message()
    }

    /// Asks it to end; gives its exit code and what else it said.
    fn terminate(mut self) -> (Option<i32>, String) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let mut said = String::new();
        self.talk.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answering() -> Upstream {
    Upstream::start(|mut line| {
        while !line.message().0.is_empty() {
            line.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n{RESULT}"
            ));
        }
    })
}

#[test]
fn what_passed_is_in_the_store_after_sigterm() {
    let upstream = answering();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let running = Running::start(upstream.address, &store, &["--name", "mine"]);
    for _ in 0..3 {
        assert_eq!(running.post(CALL).1, RESULT);
    }
    assert_eq!(running.terminate(), (Some(0), String::new()));
    let store = rpctap::store::Store::open_readonly(&store).unwrap();
    let found = store.find_session("mine").unwrap();
    let mut messages = 0;
    store
        .for_each_event(found.number(), &mut |event| {
            messages += usize::from(event.message().is_some());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(messages, 6);
}

#[test]
fn a_store_that_cannot_be_used_does_not_stop_traffic() {
    let upstream = answering();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    std::fs::write(&store, "this is no database, and longer than the header of one would be, by far and for sure")
        .unwrap();
    let running = Running::start(upstream.address, &store, &[]);
    for _ in 0..3 {
        assert_eq!(running.post(CALL).1, RESULT);
    }
    let (code, said) = running.terminate();
    assert_eq!(code, Some(0));
    assert!(said.contains("traffic goes on"), "{said:?}");
}

#[test]
fn an_open_stream_holds_up_the_end_only_so_long() {
    let upstream = Upstream::start(|mut line| {
        line.message();
        line.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n");
        line.gone();
    });
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(upstream.address, &folder.path().join("store.db"), &["--drain-seconds", "0"]);
    let mut client = Line::to(running.address);
    client.send("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    client.head();
    assert_eq!(running.terminate().0, Some(0));
}

#[test]
fn a_wrong_upstream_is_one_line_and_exit_code_2() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_rpctap")).args(["proxy", "--upstream", "localhost:80"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("write http://host:port"), "{said}");
}
