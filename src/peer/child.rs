//! A program started by us: its three pipes, its process group, its end.
//!
//! Comes in: a command line, as the user wrote it. Goes out: the pipes and a [`Child`] that can be signalled and
//! waited for. The child leads a process group of its own, so that what it leaves behind can be found, and (on
//! Linux) it dies with the thread that started it: start it from the main thread.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, pthread_sigmask};
use nix::unistd::{Pid, getpid, getppid, setpgid};

/// How a program is to be started.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    pub command: Vec<OsString>,
    pub folder: Option<PathBuf>,
    pub variables: Vec<(OsString, OsString)>,
    /// Let stderr through untouched instead of giving us its pipe.
    pub inherit_stderr: bool,
}

/// Why it was not started.
#[derive(Debug)]
pub enum NotStarted {
    /// There is no such command (exit 127, as in a shell).
    NotFound(io::Error),
    /// It is there and cannot be run (exit 126).
    NotRunnable(io::Error),
}

/// A running program.
pub struct Child {
    pid: Pid,
    /// Held while signalling, so that a number that has been given to somebody else is never signalled.
    ended: Mutex<bool>,
}

pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: Option<ChildStderr>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Exit {
    /// What we exit with to end as it did: its own code, or 128 and the signal.
    pub fn as_code(self) -> u8 {
        match (self.code, self.signal) {
            (Some(code), _) => code as u8,
            (None, Some(signal)) => (128 + signal) as u8,
            (None, None) => 1,
        }
    }
}

impl Launch {
    pub fn start(&self) -> Result<(Child, Pipes), NotStarted> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(NotStarted::NotFound(io::Error::other("no command was given")));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if self.inherit_stderr { Stdio::inherit() } else { Stdio::piped() });
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let parent = getpid();
        // SAFETY: between fork and exec only calls that are safe there are made: setpgid, prctl, sigmask, getppid.
        unsafe {
            command.pre_exec(move || {
                setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
                die_with_parent();
                if getppid() != parent {
                    return Err(io::Error::other("the tap is gone"));
                }
                // We block signals to wait for them; the child must not inherit that.
                pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
                Ok(())
            });
        }
        let mut started = command.spawn().map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => NotStarted::NotFound(cause),
            _ => NotStarted::NotRunnable(cause),
        })?;
        let pid = Pid::from_raw(started.id() as i32);
        match (started.stdin.take(), started.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                Ok((Child { pid, ended: Mutex::new(false) }, Pipes { stdin, stdout, stderr: started.stderr.take() }))
            }
            _ => Err(NotStarted::NotRunnable(io::Error::other("its pipes are missing"))),
        }
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent() {
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() {}

impl Child {
    pub fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// Waits for the end of the program itself; what it started may live on.
    pub fn wait(&self) -> Exit {
        wait_without_reaping(self.pid);
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let mut status = 0;
        // SAFETY: a plain wait for our own child.
        while unsafe { libc::waitpid(self.pid.as_raw(), &raw mut status, 0) } < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Exit { code: None, signal: None };
            }
        }
        if libc::WIFSIGNALED(status) {
            Exit { code: None, signal: Some(libc::WTERMSIG(status)) }
        } else {
            Exit { code: Some(libc::WEXITSTATUS(status)), signal: None }
        }
    }

    /// Signals the program. `false` when it has ended.
    pub fn signal(&self, signal: Signal) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        !*ended && kill(self.pid, signal).is_ok()
    }

    /// Signals everything in its process group. `false` when the program has ended.
    pub fn signal_group(&self, signal: Signal) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        !*ended && killpg(self.pid, signal).is_ok()
    }

    /// Signals what the program left behind in its group, if anything. A group's number is not given away while it
    /// has members.
    pub fn signal_left_behind(&self, signal: Signal) -> bool {
        killpg(self.pid, signal).is_ok()
    }

    pub fn has_left_behind(&self) -> bool {
        killpg(self.pid, None).is_ok()
    }
}

fn wait_without_reaping(pid: Pid) {
    // SAFETY: an all-zero siginfo is what waitid expects to fill.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: waits for our own child and leaves it to be reaped.
    while unsafe { libc::waitid(libc::P_PID, pid.as_raw() as libc::id_t, &raw mut info, flags) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn launch(command: &[&str]) -> Launch {
        Launch { command: command.iter().map(Into::into).collect(), ..Launch::default() }
    }

    #[test]
    fn pipes_work_and_the_end_is_told() {
        let (child, mut pipes) = launch(&["sh", "-c", "read x; echo got $x; exit 7"]).start().expect("a shell");
        pipes.stdin.write_all(b"this\n").unwrap();
        let mut out = String::new();
        pipes.stdout.read_to_string(&mut out).unwrap();
        assert_eq!((out.as_str(), child.wait()), ("got this\n", Exit { code: Some(7), signal: None }));
        assert!(!child.signal(Signal::SIGTERM), "the dead are not signalled");
    }

    #[test]
    fn a_signal_reaches_it_and_shows_in_its_end() {
        let (child, _pipes) = launch(&["sleep", "100"]).start().expect("sleep");
        assert!(child.signal(Signal::SIGTERM));
        let exit = child.wait();
        assert_eq!((exit, exit.as_code()), (Exit { code: None, signal: Some(15) }, 143));
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        assert!(matches!(launch(&["no-such-command-anywhere"]).start(), Err(NotStarted::NotFound(_))));
        assert!(matches!(launch(&["/dev/null"]).start(), Err(NotStarted::NotRunnable(_))));
        assert!(matches!(launch(&[]).start(), Err(NotStarted::NotFound(_))));
    }
}
