//! report: findings and series → bytes.
//!
//! Comes in: what was judged. Goes out: text for a person, JSON for a program, a page, Markdown, pictures. This
//! room decides about words and looks, never about verdicts, and prints nothing itself.

pub mod chart;
pub mod export;
pub mod growth_words;
pub mod html;
pub mod json;
pub mod markdown;
pub mod peers;
pub mod safe;
pub mod samples;
pub mod servers;
pub mod text;
pub mod words;

use crate::error::Result;
use crate::exchange::{Outcome, Series};
use crate::finding::Judged;
use chart::Rows;
use peers::Peers;

/// Everything a report tells.
pub struct Report {
    /// Where it was read from, for the commands that show more: a path, or nothing for the default store.
    pub source: Option<String>,
    /// Whether the source is a store: then sessions have numbers that `show` takes.
    pub is_store: bool,
    pub sessions: Vec<Told>,
    pub pool: Option<u64>,
    /// What the reader of the recording said: files left out, and why.
    pub remarks: Vec<String>,
}

/// One session, judged, with what its charts and tables need.
pub struct Told {
    /// Its place among the sessions that were read, from 0.
    pub place: usize,
    /// Its number in the store.
    pub number: Option<u32>,
    pub judged: Judged,
    pub rows: Rows,
    pub peers: Peers,
    leaked: u64,
    /// For each finding, in order: the events that prove it, as a transcript. Empty when nobody asked for them.
    pub transcripts: Vec<String>,
}

impl Told {
    pub fn new(number: Option<u32>, judged: Judged, rows: Rows, peers: Peers) -> Told {
        let leaked = judged.series.leaked_in_all();
        Told { place: 0, number, judged, rows, peers, leaked, transcripts: Vec::new() }
    }

    /// Drops what only charts need.
    pub fn forget_curves(&mut self) {
        self.judged.series = Series::default();
        self.rows = Rows::default();
    }

    /// Requests left hanging, of both sides.
    pub fn hanging(&self) -> u64 {
        self.judged.outcomes.iter().map(|outcomes| outcomes.sum(Outcome::was_left_hanging)).sum()
    }

    pub fn unresolved_cancels(&self) -> u64 {
        self.judged.cancels.unresolved()
    }

    pub fn leaked(&self) -> u64 {
        self.leaked
    }

    /// How `show` and `--session` call it.
    pub fn handle(&self) -> String {
        self.number.map_or_else(|| self.judged.session.name.clone(), |number| number.to_string())
    }
}

/// How the output is to look.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// A person looks at it on a terminal: tables, as wide as this.
    pub columns: Option<usize>,
    pub colour: bool,
}

impl Look {
    pub const PLAIN: Look = Look { columns: None, colour: false };
}

/// A form of report.
pub struct Format {
    /// As in `--format`.
    pub name: &'static str,
    pub about: &'static str,
    pub render: fn(&Report, Look) -> Result<String>,
}

/// To add a form: its file, a row here.
pub const FORMATS: &[Format] = &[
    Format { name: "text", about: "for a person at a terminal", render: text::render },
    Format { name: "json", about: "for a program; its shape has a version", render: json::render },
    Format { name: "markdown", about: "for pasting into an issue", render: markdown::render },
    Format { name: "html", about: "one page with charts that opens offline", render: html::render },
];

pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// A method and, where it calls one, the tool: `tools/call:search`, as `--gauge` takes it. Not yet safe to print.
pub fn label(method: &str, tool: Option<&str>) -> String {
    match tool {
        Some(tool) => format!("{method}:{tool}"),
        None if method.is_empty() => "(no method)".to_string(),
        None => method.to_string(),
    }
}

#[cfg(test)]
mod golden_tests;
