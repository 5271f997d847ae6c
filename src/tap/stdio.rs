//! Between a client and the stdio server it believes it has started.
//!
//! Comes in: our own stdin, stdout and stderr, and a running child. Goes out: the same three streams, and everything
//! that happened on them on a tape, who ended what included. Ends when the child has ended and its output is out, or
//! when what it left behind has held the pipes without a word for the drain time.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;

use super::pump::{Ended, Progress, pump, widen};
use super::samples::sample;
use crate::error::{Doing, Result};
use crate::event::stdio::{END, END_STDERR, End, FROM_CLIENT, FROM_SERVER, FROM_STDERR, HAPPENING};
use crate::event::tape::Tape;
use crate::event::{Happening, How, Party, Side, Stamper};
use crate::peer::child::{Child, Exit, Pipes};

/// How often the tapped processes are looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// How often a drain looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long what was left behind gets between being asked to end and being ended.
const LAST_LOOKS: u32 = 30;

/// How a stdio tap is to behave.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How long, after the child's end, its pipes may stay open without a word.
    pub drain: Duration,
    pub samples: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Manner { drain: Duration::from_millis(500), samples: true }
    }
}

/// Our end of the three streams and how far they are.
struct Streams {
    tape: Arc<Tape>,
    stamper: Stamper,
    over: Mutex<Over>,
    changed: Condvar,
    out: Progress,
    err: Progress,
}

#[derive(Debug, Default, Clone, Copy)]
struct Over {
    input: bool,
    out: bool,
    err: bool,
}

/// Forwards between our own stdio and the child until it is over; gives how the child ended.
pub fn run(
    child: &Arc<Child>,
    pipes: Pipes,
    tape: &Arc<Tape>,
    stamper: Stamper,
    hurry: &AtomicBool,
    manner: Manner,
) -> Result<Exit> {
    let streams = Arc::new(Streams {
        tape: Arc::clone(tape),
        stamper,
        over: Mutex::new(Over { err: pipes.stderr.is_none(), ..Over::default() }),
        changed: Condvar::new(),
        out: Progress::default(),
        err: Progress::default(),
    });
    streams.note(HAPPENING, &Happening::Opened { pid: Some(child.pid()) });
    start("stdin", &streams, move |streams| streams.carry_input(File::from(OwnedFd::from(pipes.stdin))))?;
    start("stdout", &streams, move |streams| streams.carry_output(&File::from(OwnedFd::from(pipes.stdout))))?;
    if let Some(stderr) = pipes.stderr {
        start("stderr", &streams, move |streams| streams.carry_stderr(&File::from(OwnedFd::from(stderr))))?;
    }
    if manner.samples {
        let (streams, pid) = (Arc::clone(&streams), child.pid());
        let look = move || streams.sample_until_over(pid);
        thread::Builder::new().name("samples".to_string()).spawn(look).doing("starting a thread")?;
    }
    let exit = child.wait();
    streams.note(HAPPENING, &Happening::Exited { code: exit.code, signal: exit.signal });
    streams.drain(child, manner.drain, hurry);
    streams.close_what_is_open();
    Ok(exit)
}

fn start(name: &str, streams: &Arc<Streams>, work: impl FnOnce(&Streams) + Send + 'static) -> Result<()> {
    let streams = Arc::clone(streams);
    let work = move || work(&streams);
    thread::Builder::new().name(name.to_string()).spawn(work).map(drop).doing("starting a thread")
}

impl Streams {
    fn carry_input(&self, to: File) {
        widen(&to);
        let ours = own(0);
        let ended = pump(&ours, &to, &self.tape, FROM_CLIENT, self.stamper, &Progress::default());
        // Like everything else an end is noted before it is passed on, since what comes of it may come at once.
        self.end(|over| &mut over.input, Side::Client, ended);
        // The client's end of input is the child's: half of the conversation may go on for long.
        drop(to);
        if ended == Ended::Refused {
            hand_back(0);
        }
    }

    fn carry_output(&self, from: &File) {
        widen(from);
        let ours = own(1);
        let ended = pump(from, &ours, &self.tape, FROM_SERVER, self.stamper, &self.out);
        self.end(|over| &mut over.out, Side::Server, ended);
        hand_back(1);
    }

    fn carry_stderr(&self, from: &File) {
        let ours = own(2);
        if pump(from, &ours, &self.tape, FROM_STDERR, self.stamper, &self.err) == Ended::Refused {
            // Nobody reads our stderr any more; the child's is still worth keeping.
            if let Ok(nothing) = File::options().write(true).open("/dev/null") {
                pump(from, &nothing, &self.tape, FROM_STDERR, self.stamper, &self.err);
            }
        }
        self.end_stderr();
        self.changed.notify_all();
    }

    fn end(&self, which: impl Fn(&mut Over) -> &mut bool, from: Side, ended: Ended) {
        let party = |side: Side| match side {
            Side::Client => Party::Client,
            Side::Server => Party::Server,
        };
        let (by, how) = match ended {
            Ended::Eof => (party(from), How::Eof),
            Ended::Broken => (party(from), How::Error),
            Ended::Refused => (party(from.other()), How::Reset),
        };
        let mut over = self.lock();
        if !std::mem::replace(which(&mut over), true) {
            self.note(END, &End { from, by, how });
        }
        drop(over);
        self.changed.notify_all();
    }

    /// The child is dead. What it wrote is still in the pipes; what it left behind may hold them open.
    fn drain(&self, child: &Child, patience: Duration, hurry: &AtomicBool) {
        let looks = (patience.as_millis() / LOOK_EVERY.as_millis()).max(1) as u32;
        if self.quiet(looks, hurry) && !hurry.load(Ordering::Relaxed) && child.has_left_behind() {
            child.signal_left_behind(Signal::SIGTERM);
            self.quiet(LAST_LOOKS, hurry);
            if !self.outputs_over() {
                child.signal_left_behind(Signal::SIGKILL);
                self.quiet(LAST_LOOKS, hurry);
            }
        }
    }

    /// Waits until the outputs are over (`false`) or have been silent for so many looks (`true`). A client that is
    /// slow to take what the child wrote is not silence.
    fn quiet(&self, looks: u32, hurry: &AtomicBool) -> bool {
        let (mut silent, mut seen) = (0, 0);
        let mut over = self.lock();
        while !(over.out && over.err) {
            if hurry.load(Ordering::Relaxed) || silent >= looks {
                return true;
            }
            over = self.changed.wait_timeout(over, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            let bytes = self.out.bytes() + self.err.bytes();
            let waiting = (over.out || self.out.is_reading()) && (over.err || self.err.is_reading());
            silent = if waiting && bytes == seen { silent + 1 } else { 0 };
            seen = bytes;
        }
        false
    }

    fn outputs_over(&self) -> bool {
        let over = self.lock();
        over.out && over.err
    }

    fn end_stderr(&self) {
        let mut over = self.lock();
        if !std::mem::replace(&mut over.err, true) {
            self.tape.append(END_STDERR, 0, self.stamper.now(), &[]);
        }
    }

    fn close_what_is_open(&self) {
        self.end_stderr();
        let mut over = self.lock();
        if !std::mem::replace(&mut over.out, true) {
            self.note(END, &End { from: Side::Server, by: Party::Tap, how: How::Timeout });
        }
        if !std::mem::replace(&mut over.input, true) {
            self.note(END, &End { from: Side::Client, by: Party::Server, how: How::Eof });
        }
    }

    fn sample_until_over(&self, pid: u32) {
        let mut over = self.lock();
        loop {
            drop(over);
            match sample(pid) {
                Some(sample) => self.note(HAPPENING, &Happening::Sample(sample)),
                None => return,
            }
            over = self.lock();
            let running = |over: &mut Over| !(over.out && over.input);
            over =
                self.changed.wait_timeout_while(over, SAMPLE_EVERY, running).unwrap_or_else(PoisonError::into_inner).0;
            if !running(&mut over) {
                return;
            }
        }
    }

    fn note(&self, kind: u8, what: &impl Serialize) {
        if let Ok(text) = serde_json::to_vec(what) {
            self.tape.append(kind, 0, self.stamper.now(), &text);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Over> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of our own three streams. It stays open when this value goes.
fn own(number: RawFd) -> ManuallyDrop<File> {
    // SAFETY: descriptors 0 to 2 are open for the life of the process; the standard library sees to it.
    ManuallyDrop::new(unsafe { File::from_raw_fd(number) })
}

/// Closes one of our own streams for the peer, and leaves nothing behind that a later `open` could be mistaken for.
fn hand_back(number: RawFd) {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        // SAFETY: puts /dev/null in the place of a descriptor that is ours.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&nothing), number) };
    }
}
