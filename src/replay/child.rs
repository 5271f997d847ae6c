//! A server started for a replay, spoken to over its stdin and stdout.
//!
//! One thread reads, one writes, one waits for its end; what they hear goes through one bounded queue, so that a
//! server that floods is slowed down and one that does not read cannot stop us. It runs in a process group of its
//! own, and the whole group is ended with it.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Heard, HeardWhat, Peer};
use crate::error::{Doing, Error, Result};
use crate::event::Sample;
use crate::event::stamper::Stamper;
use crate::wire::Framing;

/// 256 chunks of 64 KiB may wait for us: enough to read ahead, too little to fill memory.
const QUEUE_CHUNKS: usize = 256;
/// How long the stderr of a server that has ended may take to drain.
const LAST_WORDS: Duration = Duration::from_millis(300);
const CHUNK_BYTES: usize = 64 * 1024;

/// Between asking a server to end and ending it by force.
const END_PATIENCE: Duration = Duration::from_millis(300);

pub struct ChildPeer {
    pid: u32,
    framing: Framing,
    input: Option<Sender<Vec<u8>>>,
    heard: Receiver<Heard>,
    exited: bool,
}

impl ChildPeer {
    pub fn start(command: &[OsString], framing: Framing, stamper: Stamper) -> Result<ChildPeer> {
        let Some((program, args)) = command.split_first() else {
            return Err(Error::new("starting the server: no command was given; put it after --"));
        };
        let mut builder = Command::new(program);
        builder.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut builder, 0);
        let mut child = builder.spawn().doing(format!("starting the server {}", program.to_string_lossy()))?;
        let (sender, heard) = sync_channel(QUEUE_CHUNKS);
        let (input, to_write) = channel::<Vec<u8>>();
        if let Some(mut stdin) = child.stdin.take() {
            thread::spawn(move || {
                // A server that has gone away is noticed by the one who waits for its end.
                while let Ok(bytes) = to_write.recv() {
                    if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
                        break;
                    }
                }
            });
        }
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || {
                forward(stdout, &sender, stamper, HeardWhat::Bytes);
                let _ = sender.send(Heard { at: stamper.now(), what: HeardWhat::Closed });
            });
        }
        let words = child.stderr.take().map(|stderr| {
            let sender = sender.clone();
            thread::spawn(move || forward(stderr, &sender, stamper, HeardWhat::Stderr))
        });
        let pid = child.id();
        thread::spawn(move || wait(child, words, &sender, stamper));
        Ok(ChildPeer { pid, framing, input: Some(input), heard, exited: false })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }
}

fn forward(mut from: impl Read, to: &SyncSender<Heard>, stamper: Stamper, what: fn(Vec<u8>) -> HeardWhat) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(len) => {
                let heard = Heard { at: stamper.now(), what: what(chunk[..len].to_vec()) };
                if to.send(heard).is_err() {
                    return;
                }
            }
        }
    }
}

fn wait(mut child: Child, words: Option<thread::JoinHandle<()>>, to: &SyncSender<Heard>, stamper: Stamper) {
    let status = child.wait();
    // Its last words come before the news of its end, unless something it started holds the pipe.
    let until = Instant::now() + LAST_WORDS;
    while words.as_ref().is_some_and(|words| !words.is_finished()) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    #[cfg(unix)]
    let signal = status.as_ref().ok().and_then(std::os::unix::process::ExitStatusExt::signal);
    #[cfg(not(unix))]
    let signal = None;
    let code = status.ok().and_then(|status| status.code());
    let _ = to.send(Heard { at: stamper.now(), what: HeardWhat::Exited { code, signal } });
}

impl Peer for ChildPeer {
    fn send(&mut self, body: &[u8]) -> Option<u64> {
        if let Some(input) = &self.input {
            let _ = input.send(self.framing.wrap(body));
        }
        None
    }

    fn hear(&mut self, wait: Duration) -> Option<Heard> {
        let heard = self.heard.recv_timeout(wait).ok()?;
        self.exited |= matches!(heard.what, HeardWhat::Exited { .. });
        Some(heard)
    }

    fn close(&mut self) {
        self.input = None;
    }

    fn end(&mut self) {
        self.input = None;
        #[cfg(unix)]
        {
            use nix::sys::signal::{Signal, killpg};
            let group = nix::unistd::Pid::from_raw(self.pid as i32);
            if !self.exited {
                let _ = killpg(group, Signal::SIGTERM);
                let until = Instant::now() + END_PATIENCE;
                while !self.exited && Instant::now() < until {
                    self.hear(until.saturating_duration_since(Instant::now()));
                }
            }
            // Also what it has left behind.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    #[cfg(target_os = "linux")]
    fn usage(&self) -> Option<Sample> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line[name.len()..].split_whitespace().next()?.parse::<u64>().ok()
        };
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, |entries| entries.count() as u64);
        Some(Sample {
            rss_bytes: field("VmRSS:")? * 1024,
            threads: field("Threads:").unwrap_or(0),
            files,
            processes: 1,
            ..Sample::default()
        })
    }
}

impl Drop for ChildPeer {
    fn drop(&mut self) {
        self.end();
    }
}
