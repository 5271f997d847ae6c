//! `rpctap import FILE…`: keeps what logs tell in the store.
//!
//! A new store is filled in bulk, one that is there through its writer. A file the store already has (by its fingerprint)
//! is passed over, so that importing a folder again takes in only what is new.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::open::RecordingArgs;
use super::place::StorePlace;
use crate::error::{Error, Result};
use crate::event::redact::Redacting;
use crate::event::{Event, Happening, Losses, Session, SessionKey, Sink, StreamId, What};
use crate::import::input::{Counter, print_of};
use crate::import::{self, Input, Options, bare};
use crate::report::safe::safe;
use crate::store::{Bulk, Imported, Store};

/// Keep what log files tell in the store
///
/// The format of each file is recognised from its content; `rpctap formats` lists them. Compressed files (gzip, zstd) are
/// read as they are, `-` is standard input, and a folder means all files in it. A file the store already has is passed
/// over.
#[derive(Args)]
pub struct Import {
    /// Files or folders; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "client")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: StorePlace,
    #[command(flatten)]
    recording: RecordingArgs,
    /// What to call the sessions [default: after their file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Take secrets out before anything is kept
    #[arg(long)]
    redact: bool,
}

impl Import {
    pub fn run(self) -> Result<ExitCode> {
        let options = Options { name: self.name.clone(), ..self.recording.options() };
        let mut jobs: Vec<Job> = Vec::new();
        if let Some((client, server)) = &options.pair {
            jobs.push(Job { path: client.clone(), server: Some(server.clone()), of_folder: false });
        }
        for argument in &self.files {
            if let Some(line) = import::passed_over(argument) {
                eprintln!("rpctap: {}", safe(&line));
            }
            for path in import::files_of(argument)? {
                jobs.push(Job { of_folder: path != *argument, path, server: None });
            }
        }
        let path = self.place.path()?;
        self.place.make_folder(&path);
        let mut taking = Taking::begin(&path, self.redact)?;
        let mut failed = 0;
        let mut imported = 0;
        for job in &jobs {
            match taking.file(job, &options) {
                Ok(Done::Imported(line)) => {
                    imported += 1;
                    say(&line);
                }
                Ok(Done::Known(line)) => {
                    imported += 1;
                    say(&line);
                }
                Err(trouble) => {
                    eprintln!("rpctap: {}", safe(&trouble.to_string()));
                    failed += usize::from(!job.of_folder);
                }
            }
        }
        taking.finish(imported > 0)?;
        if imported == 0 && failed == 0 {
            return Err(Error::new("nothing was imported"));
        }
        Ok(if failed > 0 { ExitCode::from(2) } else { ExitCode::SUCCESS })
    }
}

struct Job {
    path: PathBuf,
    /// The other file of a pair.
    server: Option<PathBuf>,
    of_folder: bool,
}

enum Done {
    Imported(String),
    Known(String),
}

/// Where it all goes.
enum Taking {
    /// A store that is being made: what was taken in is remembered when it is whole.
    New { bulk: Box<Redactable<Bulk>>, sources: HashMap<String, Imported>, next_key: SessionKey },
    /// A store that is there; `None` only while a file is being written.
    There { store: Option<Store>, redact: bool },
}

impl Taking {
    fn begin(path: &Path, redact: bool) -> Result<Taking> {
        if path.exists() {
            return Ok(Taking::There { store: Some(Store::open(path)?), redact });
        }
        let bulk = Box::new(Redactable::new(Bulk::create(path)?, redact));
        Ok(Taking::New { bulk, sources: HashMap::new(), next_key: 1 })
    }

    /// Where the store has what has this fingerprint.
    fn with_print(&self, print: &str) -> Result<Option<Imported>> {
        match self {
            Taking::New { sources, .. } => Ok(sources.get(print).cloned()),
            Taking::There { store, .. } => store.as_ref().map_or(Ok(None), |store| store.source(print)),
        }
    }

    /// The file that has these bytes, where it was taken in before. The fingerprint is only made where a file of the
    /// same length is known.
    fn known(&self, path: &Path) -> Result<Option<Imported>> {
        let Ok(about) = std::fs::metadata(path) else { return Ok(None) };
        if !about.is_file() {
            return Ok(None);
        }
        let worth = match self {
            Taking::New { sources, .. } => sources.values().any(|source| source.bytes == about.len()),
            Taking::There { store, .. } => {
                store.as_ref().map_or(Ok(false), |store| store.has_source_of(about.len()))?
            }
        };
        if !worth {
            return Ok(None);
        }
        self.with_print(&print_of(path)?)
    }

    fn file(&mut self, job: &Job, options: &Options) -> Result<Done> {
        let name = job.path.display().to_string();
        let pair = match &job.server {
            Some(server) => Some(format!("{}+{}", print_of(&job.path)?, print_of(server)?)),
            None => None,
        };
        let known = match &pair {
            Some(print) => self.with_print(print)?,
            None => self.known(&job.path)?,
        };
        if let Some(known) = known {
            return Ok(already(&name, &known));
        }
        let input = Input::open(&job.path)?;
        let (print, size) = (input.print(), input.size());
        let progress = Progress::show(&name, input.counter(), size);
        let read = |sink: &mut dyn Sink, next_key: &mut SessionKey| -> Result<&'static str> {
            match &job.server {
                None => import::read(input, options, next_key, sink),
                Some(server) => {
                    bare::read_pair(input, Input::open(server)?, options, *next_key, sink)?;
                    *next_key += 1;
                    Ok("json-rpc")
                }
            }
        };
        let (format, first, last, (events, losses)) = match self {
            Taking::New { bulk, next_key, .. } => {
                let first = *next_key;
                let mut counting = Counting::new(&mut **bulk);
                let format = read(&mut counting, next_key)?;
                (format, first, *next_key - 1, (counting.events, counting.losses))
            }
            Taking::There { store, redact } => {
                let open = store.take().ok_or_else(|| Error::new("an earlier file broke the store's connection"))?;
                let mut writer = Redactable::new(open.writer(), *redact);
                let mut next_key = 1;
                let mut counting = Counting::new(&mut writer);
                let read = read(&mut counting, &mut next_key);
                let told = (counting.events, counting.losses);
                let mut writer = writer.into_inner();
                writer.commit()?;
                let number = |key: SessionKey| writer.number(key).unwrap_or(key);
                let (first, last) = (number(1), number(next_key - 1));
                *store = Some(writer.finish()?);
                (read?, first, last, told)
            }
        };
        progress.finish();
        let print = print.lock().map(|print| (print.text(), print.bytes())).unwrap_or_default();
        let print = (pair.unwrap_or(print.0), print.1);
        // What came through a pipe shows only now what it is.
        if let Some(known) = self.with_print(&print.0)?
            && let Taking::There { store: Some(store), .. } = self
        {
            store.take_back(first, last)?;
            return Ok(already(&name, &known));
        }
        let source = Imported {
            print: print.0,
            bytes: print.1,
            name: name.clone(),
            format: format.to_string(),
            first_session: first,
            last_session: last,
        };
        match self {
            Taking::New { sources, .. } => {
                sources.insert(source.print.clone(), source);
            }
            Taking::There { store, .. } => {
                if let Some(store) = store {
                    store.add_source(&source)?;
                }
            }
        }
        if !losses.is_empty() {
            eprintln!("rpctap: {}: not all of it could be read: {}", safe(&name), safe(&losses.words()));
        }
        let sessions = sessions_named(first, last);
        Ok(Done::Imported(format!("{name}: {events} events of {sessions}, read as {format}")))
    }

    fn finish(self, anything: bool) -> Result<()> {
        match self {
            Taking::New { bulk, sources, .. } => {
                let bulk = bulk.into_inner();
                if !anything {
                    // Dropped unfinished, it leaves no file behind.
                    return Ok(());
                }
                let store = bulk.finish()?;
                for source in sources.values() {
                    store.add_source(source)?;
                }
                Ok(())
            }
            Taking::There { .. } => Ok(()),
        }
    }
}

fn already(name: &str, known: &Imported) -> Done {
    Done::Known(format!("{name}: already imported ({})", sessions_named(known.first_session, known.last_session)))
}

fn sessions_named(first: SessionKey, last: SessionKey) -> String {
    if first == last { format!("session {first}") } else { format!("sessions {first} to {last}") }
}

fn say(line: &str) {
    // A reader that closed the pipe has seen enough; the import goes on.
    let _ = writeln!(io::stdout(), "{}", safe(line));
}

/// A sink with or without the filter before it.
enum Redactable<S: Sink> {
    Plain(S),
    Redacting(Redacting<S>),
}

impl<S: Sink> Redactable<S> {
    fn new(sink: S, redact: bool) -> Redactable<S> {
        if redact { Redactable::Redacting(Redacting::new(sink)) } else { Redactable::Plain(sink) }
    }

    fn into_inner(self) -> S {
        match self {
            Redactable::Plain(sink) => sink,
            Redactable::Redacting(sink) => sink.into_inner(),
        }
    }
}

impl<S: Sink> Sink for Redactable<S> {
    fn session(&mut self, session: &Session) {
        match self {
            Redactable::Plain(sink) => sink.session(session),
            Redactable::Redacting(sink) => sink.session(session),
        }
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        match self {
            Redactable::Plain(sink) => sink.bytes(session, stream, bytes),
            Redactable::Redacting(sink) => sink.bytes(session, stream, bytes),
        }
    }

    fn event(&mut self, event: Event) {
        match self {
            Redactable::Plain(sink) => sink.event(event),
            Redactable::Redacting(sink) => sink.event(event),
        }
    }

    fn over(&mut self, session: SessionKey) {
        match self {
            Redactable::Plain(sink) => sink.over(session),
            Redactable::Redacting(sink) => sink.over(session),
        }
    }
}

struct Counting<'a, S: Sink> {
    sink: &'a mut S,
    events: u64,
    losses: Losses,
}

impl<'a, S: Sink> Counting<'a, S> {
    fn new(sink: &'a mut S) -> Counting<'a, S> {
        Counting { sink, events: 0, losses: Losses::default() }
    }
}

impl<S: Sink> Sink for Counting<'_, S> {
    fn session(&mut self, session: &Session) {
        self.sink.session(session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.sink.bytes(session, stream, bytes);
    }

    fn event(&mut self, event: Event) {
        self.events += 1;
        if let What::Happening(Happening::Lost { why, .. }) = &event.what {
            self.losses.add(why);
        }
        self.sink.event(event);
    }

    fn over(&mut self, session: SessionKey) {
        self.sink.over(session);
    }
}

/// A bar with rate and time left, on a terminal and for files that take a while; nothing elsewhere.
pub struct Progress {
    shown: Option<(ProgressBar, Arc<AtomicBool>, JoinHandle<()>)>,
}

/// Shorter files are through before a bar could be read.
const WORTH_A_BAR_BYTES: u64 = 8 * 1024 * 1024;
const TICK: Duration = Duration::from_millis(100);

impl Progress {
    pub fn show(name: &str, read: Counter, size: Option<u64>) -> Progress {
        let worth = size.is_none_or(|size| size >= WORTH_A_BAR_BYTES);
        if !worth || !io::stderr().is_terminal() {
            return Progress { shown: None };
        }
        let bar = match size {
            Some(size) => ProgressBar::new(size),
            None => ProgressBar::new_spinner(),
        };
        let template = match size {
            Some(_) => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
            None => "{msg} {spinner} {bytes} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(safe(name).into_owned());
        let done = Arc::new(AtomicBool::new(false));
        let (ticking, seen) = (bar.clone(), done.clone());
        let ticker = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                ticking.set_position(read.load(Ordering::Relaxed));
                thread::park_timeout(TICK);
            }
        });
        Progress { shown: Some((bar, done, ticker)) }
    }

    pub fn finish(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some((bar, done, ticker)) = self.shown.take() {
            done.store(true, Ordering::Relaxed);
            ticker.thread().unpark();
            let _ = ticker.join();
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}
