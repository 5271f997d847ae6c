//! `rpctap show`: the conversation, as a transcript.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::limits::LimitArgs;
use super::open::{self, Place, Reader, RecordingArgs};
use super::place::StorePlace;
use super::sessions::{open_with_spools, quietly, time};
use crate::error::{Error, Result};
use crate::event::{Bodies, Event, Happening, Micros, Session, SessionKey, Side, What, transcript};
use crate::finding::{Analyzer, Options};
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

    /// Only the events that prove this finding, by its number in `rpctap analyze`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    finding: Option<u64>,

    #[command(flatten)]
    recording: RecordingArgs,

    #[command(flatten)]
    limits: LimitArgs,
}

impl Show {
    pub fn run(self) -> Result<ExitCode> {
        let proof = match self.finding {
            Some(number) => Some(self.proof(number)?),
            None => None,
        };
        let out = BufWriter::new(io::stdout().lock());
        let asked = HashSet::new();
        let mut printer =
            Printer { show: &self, out, origin: 0, asked, proof, begun: 0, telling: false, trouble: Ok(()) };
        self.read(&mut printer)?;
        let trouble = printer.trouble.and(printer.out.flush());
        quietly(trouble)?;
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self, reader: &mut dyn Reader) -> Result<()> {
        let path = Path::new(&self.session);
        if self.session == "-" || path.exists() {
            let wanted = matches!(Place::of(path), Place::Store(_)).then_some("last");
            open::read(&[PathBuf::from(path)], wanted, &self.recording.options(), reader)?;
        } else {
            let store = open_with_spools(&self.place.path()?)?;
            store.find_session(&self.session)?;
            open::read_store(&store, Some(&self.session), reader)?;
        }
        Ok(())
    }

    /// Judges what is to be shown, to know which events prove the finding of this number.
    fn proof(&self, number: u64) -> Result<Proof> {
        if self.session == "-" {
            return Err(Error::new(
                "a finding is judged first and shown then: save the recording to a file and name it",
            ));
        }
        let mut judge = Judge { options: self.limits.options(), running: Vec::new(), places: HashMap::new() };
        self.read(&mut judge)?;
        let mut most = 0;
        for (place, analyzer) in judge.running.into_iter().enumerate() {
            let judged = analyzer.finish(None);
            most = most.max(judged.findings.len());
            if let Some(finding) = judged.findings.get(number as usize - 1) {
                let heading = format!(
                    "# finding {number}: {} ({}, fault: {}): {}",
                    finding.rule.name,
                    finding.severity.name(),
                    finding.fault.name(),
                    finding.sentence()
                );
                let cut = (finding.count as usize > finding.subjects.len()).then_some(finding.count);
                return Ok(Proof { place, heading, events: finding.events.iter().copied().collect(), cut });
            }
        }
        Err(Error::new(format!("there is no finding {number} in it: it has {most}; `rpctap analyze` numbers them")))
    }
}

/// The events of one finding, and in which of the sessions they are.
struct Proof {
    place: usize,
    heading: String,
    events: HashSet<u64>,
    /// How many cases there are, where not all are kept.
    cut: Option<u64>,
}

/// Judges each session on the way past.
struct Judge {
    options: Options,
    running: Vec<Analyzer>,
    places: HashMap<SessionKey, usize>,
}

impl Reader for Judge {
    fn session(&mut self, session: &Session) {
        self.places.insert(session.key, self.running.len());
        self.running.push(Analyzer::new(session, &self.options));
    }

    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        if let Some(place) = self.places.get(&event.session) {
            self.running[*place].event(event, bodies);
        }
    }
}

struct Printer<'a, W> {
    show: &'a Show,
    out: W,
    origin: Micros,
    /// Ids of the requests that were shown, while only one method is.
    asked: HashSet<(Side, Id)>,
    /// Only the events of a finding.
    proof: Option<Proof>,
    begun: usize,
    telling: bool,
    trouble: io::Result<()>,
}

impl<W: Write> Printer<'_, W> {
    fn wanted(&mut self, event: &Event) -> bool {
        if let Some(proof) = &self.proof {
            return self.telling && proof.events.contains(&event.seq);
        }
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
        self.telling = self.proof.as_ref().is_none_or(|proof| proof.place == self.begun);
        self.begun += 1;
        if self.trouble.is_ok() && self.telling {
            let started =
                if session.knows.times { format!(", {} UTC", time(session.started_at)) } else { String::new() };
            let (name, target) = (safe(&session.name), safe(&session.target));
            self.trouble = writeln!(self.out, "# session {}: {name}, {target}{started}", session.key);
            if let (Some(proof), Ok(())) = (&self.proof, &self.trouble) {
                let more = match proof.cut {
                    Some(count) => format!(" (the first of {count} cases)"),
                    None => String::new(),
                };
                self.trouble = writeln!(self.out, "{}{more}", safe(&proof.heading));
            }
        }
    }

    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        if self.trouble.is_ok() && self.wanted(event) {
            self.trouble = self.tell(event, bodies);
        }
    }
}
