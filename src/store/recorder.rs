//! The one thread that owns the store while a tap runs.
//!
//! Comes in: a tape. Goes out: rows, committed several times in each tenth of a second under load. A store that
//! refuses for a while (locked, no space) makes the tape spill; it is asked again and the spool is taken in when it
//! gives way, or by a later start. A store that cannot be used at all switches the recording off. Either way the
//! user is told once and the traffic never notices.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::missing::{Missing, Reserve};
use super::refusal::Refusal;
use super::spooled::{Revive, take_in_left_behind};
use super::{Store, Writer};
use crate::error::{Doing, Result};
use crate::event::redact::Redacting;
use crate::event::tape::{Lost, Spill, Tape, Transcriber, records, transcribe};
use crate::event::{Session, SessionKey, Sink};

/// How long records gather before they are written: within the 50 ms that may be lost to a kill, and seldom enough
/// that a commit on the only core is not felt by one message in a hundred.
const GATHER: Duration = Duration::from_millis(40);

/// More than this in one [`GATHER`] is a rush: a dozen megabytes a second, ten thousand small exchanges.
const RUSH_BYTES: usize = 512 * 1024;

/// How far the recorder stands back when a core is short: those who forward come first.
#[cfg(target_os = "linux")]
const STANDS_BACK: i32 = 2;

/// How long an idle recorder sleeps; news wake it.
const IDLE: Duration = Duration::from_secs(60);

/// How long a commit waits for another user of the file before the tape begins to spill.
const PATIENCE: Duration = Duration::from_millis(200);

/// While the store refuses: how often the tape is put on disk, and every how many rounds the store is asked again.
const DOWN_ROUND: Duration = Duration::from_millis(20);
const ROUNDS_PER_TRY: u32 = 10;
const PATIENCE_WHEN_DOWN: Duration = Duration::from_millis(5);

/// The user hears of a refusal that lasts this many tries (about a second).
const TRIES_BEFORE_TELLING: u32 = 4;

/// How long the end of the tap waits for a store that refuses: clients kill what has not ended after two seconds.
const ROUNDS_AT_END: u32 = 50;

/// What is written at the top of a spool, so that a later start knows what to make of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Heading {
    /// Which transcriber reads it: `stdio` or `http`.
    pub kind: String,
    /// The store's number for the session, once it has one.
    pub number: Option<u32>,
    /// The session of a tap that has only one.
    pub session: Option<Session>,
    /// Nobody but the process that wrote it can read it.
    pub veiled: bool,
    /// Whatever else that transcriber must know.
    pub setup: Option<serde_json::Value>,
}

impl Heading {
    /// Where the tape of this process spills to: beside the store.
    pub fn spill(&self, store: &Path) -> Spill {
        let mut path = store.as_os_str().to_owned();
        let started_at = self.session.as_ref().map_or(0, |session| session.started_at);
        path.push(format!(".spool-{}-{started_at}", std::process::id()));
        Spill { path: path.into(), header: self.to_text(), veiled: self.veiled }
    }

    fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Everything a recorder needs.
pub struct Recording {
    pub store: PathBuf,
    pub tape: Arc<Tape>,
    pub transcriber: Box<dyn Transcriber>,
    pub heading: Heading,
    /// The session whose number goes into the heading.
    pub session: SessionKey,
    /// Take secrets out before anything is kept (see `event::redact`).
    pub redact: bool,
    pub revive: Revive,
    /// How much of a rush may wait on the disk as it came, to be read and written up when there is time for it: for
    /// a tap whose traffic would feel the work.
    pub backlog_bytes: u64,
    /// Says a line to the user.
    pub tell: Box<dyn Fn(&str) + Send>,
}

/// How a recording ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    pub lost: Lost,
    /// Where the rest waits for the next start, and how many bytes.
    pub left: Option<(PathBuf, u64)>,
    /// The store's number for the session.
    pub number: Option<u32>,
    /// The user has already heard that something is missing, or that something waits.
    pub told_of_loss: bool,
    pub told_of_wait: bool,
}

pub struct Recorder {
    thread: JoinHandle<Ending>,
    tape: Arc<Tape>,
}

impl Recorder {
    pub fn start(recording: Recording) -> Result<Recorder> {
        let tape = Arc::clone(&recording.tape);
        let thread = thread::Builder::new()
            .name("recorder".to_string())
            .spawn(move || {
                let _guard = Guard(Arc::clone(&recording.tape));
                stand_back();
                Work::new(recording).run()
            })
            .doing("starting the recorder")?;
        Ok(Recorder { thread, tape })
    }

    /// Closes the tape, writes what is on it and tells how it went. A store that refuses is not waited for long.
    pub fn finish(self) -> Ending {
        self.tape.close();
        self.thread.join().unwrap_or_default()
    }
}

/// On Linux priorities belong to threads; elsewhere they would slow the whole process.
#[cfg(target_os = "linux")]
fn stand_back() {
    // SAFETY: changes the priority of the calling thread only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, STANDS_BACK) };
}

#[cfg(not(target_os = "linux"))]
fn stand_back() {}

/// Should the recorder itself ever break down, the traffic must not feel a tape that nobody reads.
struct Guard(Arc<Tape>);

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.switch_off();
        }
    }
}

/// The way into the store, with or without the redactor before it.
enum Door {
    Plain(Box<Writer>),
    Redacting(Box<Redacting<Writer>>),
}

impl Door {
    fn writer(&mut self) -> &mut Writer {
        match self {
            Door::Plain(writer) => writer,
            Door::Redacting(redacting) => redacting.inner(),
        }
    }

    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Door::Plain(writer) => writer.as_mut(),
            Door::Redacting(redacting) => redacting.as_mut(),
        }
    }
}

struct Work {
    recording: Recording,
    door: Option<Door>,
    /// How often in a row the store has refused.
    tries: u32,
    /// Bytes of the stretch it refused that are safe in the spool.
    kept: u64,
    /// Bytes of it that are only in memory.
    in_hand: u64,
    /// Why they are.
    not_kept: String,
    /// What the store said last when it refused.
    refusal: String,
    reserve: Option<Reserve>,
    told: bool,
    told_of_loss: bool,
}

impl Work {
    fn new(recording: Recording) -> Work {
        Work {
            recording,
            door: None,
            tries: 0,
            kept: 0,
            in_hand: 0,
            not_kept: String::new(),
            refusal: String::new(),
            reserve: None,
            told: false,
            told_of_loss: false,
        }
    }

    fn run(mut self) -> Ending {
        let tape = Arc::clone(&self.recording.tape);
        let mut raw = Vec::new();
        let (mut rounds, mut rounds_at_end, mut rush) = (0u32, 0, false);
        loop {
            let down = self.tries > 0;
            if down {
                tape.spill_now();
                thread::sleep(DOWN_ROUND);
                rounds += 1;
                rounds_at_end += u32::from(tape.is_closed());
                if rounds_at_end > ROUNDS_AT_END {
                    break;
                }
                if !rounds.is_multiple_of(ROUNDS_PER_TRY) {
                    continue;
                }
            } else if self.door.is_some() {
                tape.wait(GATHER, IDLE, rush);
                rush = self.in_a_rush(&tape) && tape.set_aside(&mut raw).is_ok();
                if rush {
                    continue;
                }
            }
            match self.step(&tape, &mut raw) {
                Ok(()) => {
                    self.recovered(&tape);
                    if tape.is_closed() && tape.waiting() == 0 {
                        break;
                    }
                }
                Err(refusal) if refusal.passing => self.refused(&tape, &refusal),
                Err(refusal) => {
                    (self.recording.tell)(&format!("{refusal}; traffic goes on, nothing is recorded"));
                    tape.switch_off();
                    return Ending { lost: tape.lost(), ..Ending::default() };
                }
            }
        }
        self.end(&tape, &mut raw)
    }

    /// Whether more comes than can be written up without being felt, and there is still room to let it wait.
    fn in_a_rush(&self, tape: &Tape) -> bool {
        let most = self.recording.backlog_bytes;
        most > 0 && !tape.is_closed() && tape.buffered() >= RUSH_BYTES && tape.waiting() < most
    }

    /// Takes what is on the tape at the moment into the store.
    fn step(&mut self, tape: &Tape, raw: &mut Vec<u8>) -> std::result::Result<(), Refusal> {
        if self.door.is_none() {
            self.open()?;
        }
        let Some(door) = &mut self.door else { return Ok(()) };
        door.writer().try_commit()?;
        (self.kept, self.in_hand) = (0, 0);
        loop {
            let Some(door) = &mut self.door else { return Ok(()) };
            let Some(stretch) = tape.next(raw).map_err(Refusal::from)? else { return Ok(()) };
            transcribe(raw, self.recording.transcriber.as_mut(), door.sink());
            if let Some((spool, _)) = tape.spool() {
                door.writer().note_taken(&spool, self.recording.session, stretch.end);
            }
            if let Err(refusal) = door.writer().try_commit() {
                // When the disk refuses it too it is still in memory, and tried again.
                self.kept = match tape.keep(stretch, raw) {
                    Ok(()) => stretch.end - stretch.start,
                    Err(cause) => {
                        self.not_kept = format!("there is no room beside it either ({cause})");
                        0
                    }
                };
                self.in_hand = raw.len() as u64 - self.kept.min(raw.len() as u64);
                return Err(refusal);
            }
            tape.done(stretch.end);
            if self.recording.heading.number.is_none()
                && let Some(number) = door.writer().number(self.recording.session)
            {
                self.recording.heading.number = Some(number);
                tape.set_spill_header(self.recording.heading.to_text());
            }
            if !stretch.spooled || self.in_a_rush(tape) {
                return Ok(());
            }
        }
    }

    fn open(&mut self) -> std::result::Result<(), Refusal> {
        let patience = if self.tries > 0 { PATIENCE_WHEN_DOWN } else { PATIENCE };
        let store = Store::try_open(&self.recording.store, patience)?;
        let writer = store.writer().commit_when_told();
        self.door = Some(match self.recording.redact {
            false => Door::Plain(Box::new(writer)),
            true => Door::Redacting(Box::new(Redacting::new(writer))),
        });
        self.reserve = Reserve::set_aside(&self.recording.store);
        // What an earlier tap could not write; trouble with it must not touch this recording.
        let _ = take_in_left_behind(&self.recording.store, &self.recording.revive);
        Ok(())
    }

    fn refused(&mut self, tape: &Tape, refusal: &Refusal) {
        self.tries += 1;
        self.refusal = refusal.to_string();
        tape.set_healthy(false);
        self.be_patient(PATIENCE_WHEN_DOWN);
        if self.tries == TRIES_BEFORE_TELLING && !self.told {
            self.told = true;
            tape.spill_now();
            let lost = tape.lost().why;
            let why = if lost.is_empty() { &self.not_kept } else { &lost };
            let rest = match tape.spool() {
                Some((_, path)) if why.is_empty() => {
                    format!("the recording waits in {} and is taken in later", path.display())
                }
                _ => {
                    self.told_of_loss = true;
                    format!("the recording will have a gap: {why}")
                }
            };
            (self.recording.tell)(&format!("{refusal}; traffic goes on, {rest}"));
        }
    }

    fn recovered(&mut self, tape: &Tape) {
        if self.tries > 0 {
            self.tries = 0;
            tape.set_healthy(true);
            self.be_patient(PATIENCE);
        }
    }

    fn be_patient(&mut self, patience: Duration) {
        if let Some(door) = &mut self.door {
            let _ = door.writer().patience(patience);
        }
    }

    fn end(mut self, tape: &Tape, raw: &mut Vec<u8>) -> Ending {
        let mut safe = self.tries == 0;
        if let Some(Door::Redacting(redacting)) = &mut self.door {
            redacting.finish();
            safe &= redacting.inner().try_commit().is_ok();
        }
        let mut ending = Ending {
            lost: tape.lost(),
            left: None,
            number: self.recording.heading.number,
            told_of_loss: self.told_of_loss,
            told_of_wait: self.told,
        };
        if safe {
            if let (Some((spool, _)), Some(door)) = (tape.spool(), &mut self.door) {
                tape.remove_spool();
                let _ = door.writer().forget_spool(&spool);
            }
            return ending;
        }
        tape.spill_now();
        let veiled = self.recording.heading.veiled;
        let why = format!("the store refused until the end: {}", self.refusal);
        let mut missing = Missing::default();
        // What is safe in the spool is taken from there by the next start.
        let mut in_hand = Missing::default();
        if let Some(door) = &mut self.door {
            door.writer().give_up(&mut in_hand);
        }
        if self.in_hand > 0 {
            ending.lost.records += 1;
            ending.lost.bytes += self.in_hand;
            ending.lost.why.clone_from(&why);
            missing = in_hand;
        }
        let mut left = 0;
        while let Ok(Some(stretch)) = tape.next(raw) {
            // A veiled spool is unreadable once we are gone.
            if stretch.spooled && !veiled {
                left += stretch.end - stretch.start;
            } else {
                count_lost(raw, &mut ending.lost, &why);
                transcribe(raw, self.recording.transcriber.as_mut(), &mut missing);
            }
        }
        self.reserve = None;
        if let Some(door) = &mut self.door
            && ending.lost.records > 0
        {
            // Where not even that can be written, the user has heard of it, and that must do.
            let _ = door.writer().tell_missing(missing, &why);
        }
        match tape.spool() {
            Some((_, path)) if left > 0 || self.kept > 0 => ending.left = Some((path, left + self.kept)),
            Some(_) => tape.remove_spool(),
            None => {}
        }
        ending
    }
}

fn count_lost(raw: &[u8], lost: &mut Lost, why: &str) {
    for record in records(raw) {
        lost.records += 1;
        lost.bytes += record.bytes.len() as u64;
    }
    lost.why = why.to_string();
}
