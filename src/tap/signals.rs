//! Signals for the tap are signals for its child.
//!
//! They are blocked everywhere and waited for by one thread, which passes each on once. A signal somebody sent to the
//! tap goes to the child alone, as it would have without us; one that the terminal sent to the whole foreground group
//! goes to the child's whole group, which the terminal did not reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::error::{Doing, Result};
use crate::peer::child::Child;

const PASSED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

fn set() -> SigSet {
    PASSED_ON.into_iter().collect()
}

/// Holds them back in this thread and all that it starts. Before the child is started, so that none is missed.
pub fn hold_back() -> Result<()> {
    set().thread_block().doing("holding signals back")
}

/// Passes signals on for the rest of the process's life. One that finds the child dead means that we should hurry.
pub fn pass_on(child: Arc<Child>, hurry: Arc<AtomicBool>) -> Result<()> {
    let listen = move || {
        while let Some((signal, from_terminal)) = next() {
            let reached = if from_terminal { child.signal_group(signal) } else { child.signal(signal) };
            if !reached && matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT) {
                hurry.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::Builder::new().name("signals".to_string()).spawn(listen).map(drop).doing("listening for signals")
}

#[cfg(target_os = "linux")]
fn next() -> Option<(Signal, bool)> {
    let set = set();
    loop {
        // SAFETY: an all-zero siginfo is what sigwaitinfo expects to fill.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live values of the right type.
        let number = unsafe { libc::sigwaitinfo(set.as_ref(), &raw mut info) };
        if number > 0 {
            return Signal::try_from(number).ok().map(|signal| (signal, info.si_code == libc::SI_KERNEL));
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn next() -> Option<(Signal, bool)> {
    set().wait().ok().map(|signal| (signal, true))
}
