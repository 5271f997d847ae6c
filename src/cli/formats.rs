//! `rpctap formats`: what can be read, and what each format can know.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use crate::error::Result;
use crate::import::IMPORTERS;

/// List the log formats that can be read
#[derive(Args)]
pub struct Formats {}

impl Formats {
    pub fn run(self) -> Result<ExitCode> {
        let width = IMPORTERS.iter().map(|importer| importer.name().len()).max().unwrap_or(0);
        let mut out = io::stdout().lock();
        for importer in IMPORTERS {
            let knows = importer.knows();
            let missing: Vec<&str> = [
                (knows.times, "times"),
                (knows.direction, "direction"),
                (knows.ids, "ids"),
                (knows.payload, "payload"),
                (knows.ends, "ends"),
            ]
            .iter()
            .filter(|(known, _)| !known)
            .map(|(_, what)| *what)
            .collect();
            let lacks = if missing.is_empty() { String::new() } else { format!(" (without {})", missing.join(", ")) };
            let line = format!("{:width$}  {}{lacks}\n", importer.name(), importer.about());
            // A reader that has seen enough and closes the pipe is no trouble.
            if out.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
