//! `rpctap export`: a session for other tools, or as event lines that come back without loss.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::open::{self, Place, Reader};
use super::place::StorePlace;
use crate::error::{Doing, Result};
use crate::event::line::LineWriter;
use crate::event::{Bodies, Event, Session, Sink, Span, StreamId};
use crate::import::{self, Input, Options};
use crate::report::export::{har, lsp_trace};
use crate::store::Store;

#[derive(Args)]
pub struct Export {
    /// The session: its number or name in the store, `last`, or a recording file
    session: String,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Events)]
    format: Format,
    /// Where to write it [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    place: StorePlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// rpctap's event lines; `rpctap import` takes them back without loss
    Events,
    /// HTTP Archive 1.2
    Har,
    /// VS Code's language server trace
    LspTrace,
}

impl Export {
    pub fn run(self) -> Result<ExitCode> {
        let mut out = self.output()?;
        match self.format {
            Format::Events => return self.events(out),
            Format::Har => put(&mut out, &har::write(&super::recording::load(&self.place, &self.session)?))?,
            Format::LspTrace => put(&mut out, &lsp_trace::write(&super::recording::load(&self.place, &self.session)?))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn output(&self) -> Result<Box<dyn Write>> {
        Ok(match &self.output {
            Some(path) => Box::new(BufWriter::new(File::create(path).doing(format!("writing {}", path.display()))?)),
            None => Box::new(BufWriter::new(std::io::stdout())),
        })
    }

    /// Straight through, so that the length of a session does not matter.
    fn events(&self, out: Box<dyn Write>) -> Result<ExitCode> {
        let mut writer = LineWriter::new(out);
        let path = Path::new(&self.session);
        let is_file = self.session == "-" || path.is_file();
        if is_file && !super::recording::has_heading(path) && matches!(Place::of(path), Place::Recording(_)) {
            let mut next_key = 1;
            import::read(Input::open(path)?, &Options::default(), &mut next_key, &mut writer)?;
        } else if is_file && super::recording::has_heading(path) {
            let kept = super::recording::collect(&self.place, &self.session)?;
            let mut passing = Passing { writer: &mut writer, written: Default::default() };
            let mut bodies = kept.clone();
            kept.sessions.iter().for_each(|session| passing.session(session));
            kept.events.iter().for_each(|event| passing.event(event, &mut bodies));
        } else {
            let (store, wanted) = match is_file {
                true => (Store::open_readonly(path)?, "last"),
                false => (Store::open_readonly(&self.place.path()?)?, self.session.as_str()),
            };
            let mut passing = Passing { writer: &mut writer, written: Default::default() };
            open::read_store(&store, Some(wanted), &mut passing)?;
        }
        match writer.finish() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).doing("writing the events"),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).doing("writing the export"),
        _ => Ok(()),
    }
}

/// Writes the bytes of each stream as far as the next event points into it, then the event.
struct Passing<'a, W: Write> {
    writer: &'a mut LineWriter<W>,
    written: std::collections::HashMap<StreamId, u64>,
}

/// A long body is read and written in pieces of this size.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;

impl<W: Write> Reader for Passing<'_, W> {
    fn session(&mut self, session: &Session) {
        self.written.clear();
        self.writer.session(session);
    }

    fn event(&mut self, event: &Event, bodies: &mut dyn Bodies) {
        if let Some(span) = event.span() {
            let end = span.start.saturating_add(span.len);
            let written = self.written.entry(span.stream).or_default();
            while *written < end {
                let len = (end - *written).min(PIECE_BYTES);
                let piece = Span { stream: span.stream, start: *written, len };
                // What a store does not hold any more keeps its length, so that the rest stays in its place.
                let bytes = bodies.read(event.session, piece, PIECE_BYTES as usize).unwrap_or_default();
                self.writer.bytes(event.session, span.stream, &bytes);
                let missing = len as usize - bytes.len().min(len as usize);
                if missing > 0 {
                    self.writer.bytes(event.session, span.stream, &vec![b' '; missing]);
                }
                *written += len;
            }
        }
        self.writer.event(event.clone());
    }
}
