//! `rpctap show`: the conversation, as a transcript.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::open::{self, Place, Reader, RecordingArgs};
use super::place::StorePlace;
use super::sessions::{open_with_spools, quietly, time};
use crate::error::Result;
use crate::event::{Bodies, Event, Happening, Micros, Session, Side, What, transcript};
use crate::report::safe::{safe, safe_bytes};
use crate::rpc::Id;

/// A body printed whole stops here; the store has the rest.
const LONGEST_BODY_BYTES: usize = 1024 * 1024;

/// Show a conversation as a transcript
#[derive(Args)]
pub struct Show {
    #[command(flatten)]
    place: StorePlace,

    /// A session by number or name, `last`, or a recording file
    #[arg(value_name = "SESSION", default_value = "last")]
    session: String,

    /// Print every body whole, as it came
    #[arg(long)]
    bodies: bool,

    /// Print the number of each event, by which reports name it
    #[arg(long)]
    numbers: bool,

    /// Print what the tapped process used, too
    #[arg(long)]
    samples: bool,

    /// Only messages of this method, and the answers to them
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,

    #[command(flatten)]
    recording: RecordingArgs,
}

impl Show {
    pub fn run(self) -> Result<ExitCode> {
        let out = BufWriter::new(io::stdout().lock());
        let mut printer = Printer { show: &self, out, origin: 0, asked: HashSet::new(), trouble: Ok(()) };
        let path = Path::new(&self.session);
        if self.session == "-" || path.exists() {
            let wanted = matches!(Place::of(path), Place::Store(_)).then_some("last");
            open::read(&[PathBuf::from(path)], wanted, &self.recording.options(), &mut printer)?;
        } else {
            let store = open_with_spools(&self.place.path()?)?;
            store.find_session(&self.session)?;
            open::read_store(&store, Some(&self.session), &mut printer)?;
        }
        let trouble = printer.trouble.and(printer.out.flush());
        quietly(trouble)?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Printer<'a, W> {
    show: &'a Show,
    out: W,
    origin: Micros,
    /// Ids of the requests that were shown, while only one method is.
    asked: HashSet<(Side, Id)>,
    trouble: io::Result<()>,
}

impl<W: Write> Printer<'_, W> {
    fn wanted(&mut self, event: &Event) -> bool {
        if matches!(event.what, What::Happening(Happening::Sample(_))) {
            return self.show.samples;
        }
        let Some(method) = &self.show.method else { return true };
        let Some((from, message)) = event.message() else { return false };
        if message.method() == method {
            if let (true, Some(id)) = (message.is_request(), &message.id) {
                self.asked.insert((from, id.clone()));
            }
            return true;
        }
        let Some(id) = message.id.as_ref().filter(|_| message.is_response()) else { return false };
        self.asked.remove(&(from.other(), id.clone()))
    }

    fn tell(&mut self, event: &Event, bodies: &mut dyn Bodies) -> io::Result<()> {
        if self.show.numbers {
            write!(self.out, "{:>7}  ", event.seq)?;
        }
        writeln!(self.out, "{}", safe(&transcript::print(event, self.origin, bodies)))?;
        if self.show.bodies
            && let What::Message { body, .. } = &event.what
            && let Some(bytes) = bodies.read(event.session, *body, LONGEST_BODY_BYTES)
        {
            let cut = if (bytes.len() as u64) < body.len { "…" } else { "" };
            writeln!(self.out, "          {}{cut}", safe_bytes(&bytes))?;
        }
        Ok(())
    }
}

impl<W: Write> Reader for Printer<'_, W> {
    fn session(&mut self, session: &Session) {
        self.origin = session.started_at;
        self.asked.clear();
        if self.trouble.is_ok() {
            let started =
                if session.knows.times { format!(", {} UTC", time(session.started_at)) } else { String::new() };
            let (name, target) = (safe(&session.name), safe(&session.target));
            self.trouble = writeln!(self.out, "# session {}: {name}, {target}{started}", session.key);
        }
    }

    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        if self.trouble.is_ok() && self.wanted(event) {
            self.trouble = self.tell(event, bodies);
        }
    }
}
