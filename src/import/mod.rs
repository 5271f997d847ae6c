//! import: log file → events.
//!
//! Comes in: a file somebody sent, in one of many formats. Goes out: sessions and events, handed to a
//! [`Sink`](crate::event::Sink) through the same door as live traffic. An importer translates and never judges;
//! what its format cannot know it says in [`Knows`], and what it could not read it names with its line number.
//! Memory is bounded whatever the file's size: see the limits in [`input`] and [`lines`].

pub mod input;
pub mod lines;
pub mod reading;

mod ahead;
mod array;
pub mod bare;
mod claude;
pub mod devtools;
mod event_lines;
mod folder;
mod har;
mod inspector;
mod json;
mod lsp_trace;
mod lsp_trace_json;
mod lua;
mod mcpsnoop;
#[cfg(test)]
mod mutation_tests;
mod ndjson;
mod neovim;
mod packets;
mod plain;
pub mod print;
mod renumbering;
mod runs;
#[cfg(test)]
mod sample_tests;
mod strace;
mod time;
mod tshark;
mod vscode_mcp;

pub use folder::{files_of, passed_over};
pub use input::Input;
pub use reading::{Options, Reading};

use crate::error::{Error, Result};
use crate::event::{Knows, SessionKey, Side, Sink};

/// How sure an importer is that a file is its own: 0 is no, 100 is a signature that nothing else has.
pub type Sureness = u8;

/// Translates one format.
pub trait Importer: Sync {
    /// The name for `--format`.
    fn name(&self) -> &'static str;

    /// What it reads, in one line for people.
    fn about(&self) -> &'static str;

    /// What the format can know at its best; a file may know less.
    fn knows(&self) -> Knows;

    /// Looks at the first bytes of a file (already decompressed, at most [`input::HEAD_BYTES`]).
    fn recognise(&self, head: &[u8]) -> Sureness;

    /// Reads to the end. Fails only when the file cannot be read at all or holds nothing of the format; broken
    /// places within it are told as events.
    fn read(&self, reading: &mut Reading<'_>) -> Result<()>;
}

/// To add a format: its file, a `mod` line above, a line here, a sample and the events it must give.
pub const IMPORTERS: &[&dyn Importer] = &[
    &event_lines::EventLines,
    &ndjson::Ndjson,
    &bare::Bare,
    &mcpsnoop::Mcpsnoop,
    &strace::Strace,
    &lsp_trace::LspTrace,
    &lsp_trace_json::LspTraceJson,
    &neovim::Neovim,
    &claude::ClaudeDesktop,
    &vscode_mcp::VscodeMcp,
    &inspector::Inspector,
    &packets::Pcap,
    &har::Har,
    &tshark::Tshark,
    &devtools::AcpDevtools,
    &devtools::LspDevtools,
];

/// The importer of this name.
pub fn find(name: &str) -> Result<&'static dyn Importer> {
    IMPORTERS.iter().copied().find(|importer| importer.name() == name).ok_or_else(|| {
        let names: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name()).collect();
        Error::new(format!("there is no format `{name}`; known are: {}", names.join(", ")))
    })
}

/// The importer that recognises these first bytes best, if any does.
pub fn recognise(head: &[u8]) -> Option<&'static dyn Importer> {
    let mut best: Option<(&'static dyn Importer, Sureness)> = None;
    for importer in IMPORTERS {
        let sureness = importer.recognise(head);
        if sureness > best.map_or(0, |(_, sureness)| sureness) {
            best = Some((*importer, sureness));
        }
    }
    best.map(|(importer, _)| importer)
}

/// Reads one file into a sink with the importer the options name, or the one that recognises it. `next_key` is
/// the key of the next session, and moves on.
pub fn read(input: Input, options: &Options, next_key: &mut SessionKey, sink: &mut dyn Sink) -> Result<&'static str> {
    let name = input.name().to_string();
    let importer = match &options.format {
        Some(format) => find(format)?,
        None => recognise(input.head()).ok_or_else(|| not_recognised(&input))?,
    };
    let mut reading = Reading::new(input, importer, options, next_key, sink);
    importer.read(&mut reading).map_err(|cause| cause.while_doing(format!("reading {name} as {}", importer.name())))?;
    if !reading.told_anything() {
        return Err(Error::new(format!(
            "reading {name} as {}: {}; see `rpctap formats`, and `--format` to read it as another",
            importer.name(),
            reading.why_nothing()
        )));
    }
    Ok(importer.name())
}

fn not_recognised(input: &Input) -> Error {
    if input.head().is_empty() {
        return Error::new(format!("reading {}: the file is empty", input.name()));
    }
    Error::new(format!(
        "reading {}: no known format recognised in it; see `rpctap formats`, and name one with --format (--input-format for analyze and chart)",
        input.name()
    ))
}

/// The two words logs use for who spoke, in the many spellings seen.
pub(crate) fn side_of(word: &str) -> Option<Side> {
    match word {
        "c2s" | "client" | "client-to-server" | "client_to_server" | "client-server" | "->" | "C" | "c" => {
            Some(Side::Client)
        }
        "s2c" | "server" | "server-to-client" | "server_to_client" | "server-client" | "<-" | "S" | "s" => {
            Some(Side::Server)
        }
        _ => None,
    }
}
