//! cli: argv → calls, exit code.
//!
//! One file per command: its arguments, its help and a `run` that reads as a table of contents. The only room
//! that prints, and the only one that knows all the others; nobody uses it. Exit codes: 0 clean, 1 findings,
//! 2 trouble; a tap ends as its child did.

pub mod analyze;
pub mod chart;
mod counted;
pub mod evidence;
pub mod explain;
pub mod export;
pub mod fixture;
pub mod formats;
pub mod import;
pub mod judging;
pub mod limits;
pub mod open;
pub mod place;
pub mod proxy;
pub mod record;
pub mod recording;
pub mod replay;
mod replayed;
pub mod revive;
pub mod rules;
pub mod sessions;
pub mod show;
pub mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Result;

#[derive(Parser)]
#[command(name = "rpctap", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// To add a command: its file, a variant here, a line in [`Cli::run`].
#[derive(Subcommand)]
enum Command {
    Analyze(Box<analyze::Analyze>),
    Chart(Box<chart::Chart>),
    Proxy(proxy::Proxy),
    Import(import::Import),
    Formats(formats::Formats),
    Record(record::Record),
    Sessions(sessions::Sessions),
    Show(show::Show),
    Rules(rules::Rules),
    Explain(explain::Explain),
    /// Play a recording to a live server, or be the recorded server
    Replay(replay::Replay),
    /// Cut a regression fixture out of a finding: a small recording and a test that runs as it is
    Fixture(fixture::FixtureArgs),
    /// Write a session for other tools, or as event lines that come back without loss
    Export(export::Export),
}

impl Cli {
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Analyze(command) => command.run(),
            Command::Chart(command) => command.run(),
            Command::Proxy(command) => command.run(),
            Command::Import(command) => command.run(),
            Command::Formats(command) => command.run(),
            Command::Record(command) => command.run(),
            Command::Sessions(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Rules(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Replay(command) => command.run(),
            Command::Fixture(command) => command.run(),
            Command::Export(command) => command.run(),
        }
    }
}

/// Data goes to stdout; that nobody reads it any more is no trouble of ours.
pub(crate) fn print(text: &str) -> Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
