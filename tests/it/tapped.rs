//! Runs `rpctap record` for a test, and reads what it kept.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rpctap::event::{Bodies, Event, Happening, SessionKey, Side, Span, StreamId, What};
use rpctap::store::Store;

/// How long a test waits for what must happen. Only a broken tap ever waits that long.
pub const LONG: Duration = Duration::from_secs(30);

pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }
}

/// A running tap.
pub struct Tapped {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<JoinHandle<String>>,
}

pub fn rpctap() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rpctap"))
}

/// `rpctap record --store STORE OPTIONS -- SERVER`, not yet started.
pub fn record(store: &Path, options: &[&str], server: &[OsString]) -> Command {
    let mut command = rpctap();
    command.arg("record").arg("--store").arg(store).args(options).arg("--").args(server);
    command
}

pub fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

pub fn sh(script: &str) -> Vec<OsString> {
    words(&["sh", "-c", script])
}

impl Tapped {
    pub fn start(mut command: Command) -> Tapped {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("rpctap starts");
        let mut stderr = child.stderr.take().expect("stderr");
        let reading = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Tapped {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(|out| BufReader::with_capacity(256 * 1024, out)),
            stderr: Some(reading),
            child,
        }
    }

    pub fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(text.as_bytes()).expect("the tap takes input");
    }

    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().expect("stdout is open").read_line(&mut line).expect("the tap gives output");
        line
    }

    /// Everything up to the end of stdout.
    pub fn hear_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.stdout.take().expect("stdout is open").read_to_end(&mut all).expect("the tap gives output");
        all
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: signals a child of ours that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Closes stdin, waits for the end: exit code (or 128 and the signal that ended the tap itself) and stderr.
    pub fn end(mut self) -> (i32, String) {
        drop(self.stdin.take());
        if self.stdout.is_some() {
            self.hear_all();
        }
        let status = self.child.wait().expect("the tap ends");
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let stderr = self.stderr.take().and_then(|reading| reading.join().ok()).unwrap_or_default();
        (code, stderr)
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something another process does.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < LONG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn events(store: &Store, session: SessionKey) -> Vec<Event> {
    let mut events = Vec::new();
    let mut keep = |event: Event| {
        events.push(event);
        ControlFlow::Continue(())
    };
    store.for_each_event(session, &mut keep).expect("a readable session");
    events
}

/// The last session of a store.
pub fn last(store: &Path) -> (Store, Vec<Event>) {
    let store = Store::open_readonly(store).expect("a store");
    let number = store.find_session("last").expect("a session").number();
    let events = events(&store, number);
    (store, events)
}

pub fn happenings(events: &[Event]) -> Vec<Happening> {
    let what = |event: &Event| match &event.what {
        What::Happening(Happening::Sample(_)) => None,
        What::Happening(happening) => Some(happening.clone()),
        _ => None,
    };
    events.iter().filter_map(what).collect()
}

pub fn messages(events: &[Event], from: Side) -> Vec<&Event> {
    events.iter().filter(|event| event.message().is_some_and(|(side, _)| side == from)).collect()
}

/// A whole stream as it was stored.
pub fn stream(store: &Store, session: SessionKey, stream: StreamId) -> Vec<u8> {
    let tail = store.tail(session).expect("a tail");
    let len = tail.streams.iter().find(|(known, _)| *known == stream).map_or(0, |(_, end)| *end);
    let span = Span { stream, start: 0, len };
    store.bodies().read(session, span, usize::MAX).expect("whole streams").into_owned()
}

pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

pub fn child_pid(events: &[Event]) -> u32 {
    let pid = happenings(events).into_iter().find_map(|happening| match happening {
        Happening::Opened { pid } => pid,
        _ => None,
    });
    pid.expect("the child's number was recorded")
}
