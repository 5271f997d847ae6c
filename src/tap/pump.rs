//! One direction of one stream: read, copy to the tape, write on.
//!
//! Comes in: two file descriptors and a tape. Goes out: what ended the stream. Plain blocking calls: the thread that
//! reads is the thread that writes, so that a byte is out before anything else looks at it, and a reader that is slow
//! slows the sender as if nobody stood between.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::event::Stamper;
use crate::event::tape::Tape;

/// What one read takes at most: with pipes of [`PIPE_BYTES`] a third more bandwidth than 64 K.
const CHUNK_BYTES: usize = 256 * 1024;

#[cfg(target_os = "linux")]
const PIPE_BYTES: i32 = 1024 * 1024;

/// What ended a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The sender closed its end.
    Eof,
    /// Reading failed.
    Broken,
    /// The receiver takes no more.
    Refused,
}

/// What a pump is doing, for those who wait for it.
#[derive(Debug, Default)]
pub struct Progress {
    state: AtomicU8,
    bytes: AtomicU64,
}

const READING: u8 = 0;
const WRITING: u8 = 1;

impl Progress {
    /// It waits for the sender, and has passed on this much.
    pub fn is_reading(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READING
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Forwards until the stream ends. What was read is on the tape also when it could not be passed on.
pub fn pump(mut from: &File, to: &File, tape: &Tape, kind: u8, stamper: Stamper, progress: &Progress) -> Ended {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let len = match from.read(&mut chunk) {
            Ok(0) => return Ended::Eof,
            Ok(len) => len,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            // Somebody else made the shared descriptor non-blocking. It is not ours to change back.
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                wait_for(from.as_fd(), PollFlags::POLLIN);
                continue;
            }
            Err(_) => return Ended::Broken,
        };
        progress.state.store(WRITING, Ordering::Relaxed);
        // The copy comes first only because an answer could overtake it on the tape; waking comes after.
        let wake = tape.note(kind, 0, &stamper, &chunk[..len]);
        let written = write_on(to, &chunk[..len]);
        if wake {
            tape.tell();
        }
        progress.bytes.fetch_add(len as u64, Ordering::Relaxed);
        progress.state.store(READING, Ordering::Relaxed);
        if written.is_err() {
            return Ended::Refused;
        }
    }
}

fn write_on(mut to: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => bytes = &bytes[len..],
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => wait_for(to.as_fd(), PollFlags::POLLOUT),
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

fn wait_for(file: BorrowedFd<'_>, flags: PollFlags) {
    let _ = poll(&mut [PollFd::new(file, flags)], PollTimeout::NONE);
}

/// Makes a pipe of ours roomy. Best effort: the system may refuse, and files are no pipes.
#[cfg(target_os = "linux")]
pub fn widen(pipe: &impl AsRawFd) {
    // SAFETY: sets a property of a descriptor that is open as long as the borrow lasts.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
}

#[cfg(not(target_os = "linux"))]
pub fn widen(_: &impl AsRawFd) {}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;
    use crate::event::tape::records;

    fn pipe() -> (File, File) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)))
    }

    fn on_tape(tape: &Tape) -> Vec<u8> {
        let (mut raw, mut found) = (Vec::new(), Vec::new());
        while tape.next(&mut raw).unwrap().is_some() {
            found.extend(records(&raw).flat_map(|record| record.bytes.to_vec()));
        }
        found
    }

    #[test]
    fn bytes_pass_unchanged_also_through_descriptors_that_do_not_block() {
        let ((from, mut source), (mut sink, to)) = (pipe(), pipe());
        for file in [&from, &to] {
            let flags = nix::fcntl::OFlag::O_NONBLOCK;
            nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
        }
        let tape = Tape::new(None);
        let text: Vec<u8> = (0..300_000u32).map(|n| (n % 253) as u8).collect();
        let (sent, other) = (text.clone(), Arc::clone(&tape));
        let pumping = std::thread::spawn(move || pump(&from, &to, &other, 0, Stamper::start(), &Progress::default()));
        let sending = std::thread::spawn(move || source.write_all(&sent));
        let mut got = Vec::new();
        sink.read_to_end(&mut got).unwrap();
        sending.join().unwrap().unwrap();
        assert_eq!(pumping.join().unwrap(), Ended::Eof);
        assert!(got == text && on_tape(&tape) == text);
    }

    #[test]
    fn what_the_receiver_refused_is_on_the_tape() {
        let ((from, mut source), (sink, to)) = (pipe(), pipe());
        drop(sink);
        source.write_all(b"nobody listens").unwrap();
        let tape = Tape::new(None);
        assert_eq!(pump(&from, &to, &tape, 0, Stamper::start(), &Progress::default()), Ended::Refused);
        assert_eq!(on_tape(&tape), b"nobody listens");
    }
}
