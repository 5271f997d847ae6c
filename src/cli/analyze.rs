//! `rpctap analyze`: what was left hanging, as text, JSON, Markdown or a page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::judging::Subject;
use super::limits::LimitArgs;
use super::{print, terminal};
use crate::error::{Doing, Result};
use crate::finding::{Finding, Severity, rule};
use crate::report::{self, FORMATS, Format, Look};

/// Tell what was left hanging: orphaned requests, unresolved cancels, leaked work
///
/// Ends with 0 when there is nothing at or above --fail-on, 1 when there is, 2 on trouble.
#[derive(Args)]
pub struct Analyze {
    #[command(flatten)]
    subject: Subject,
    /// How to tell it: text, json, markdown or html
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = form)]
    format: &'static Format,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End with 1 when there is a finding of this severity or graver (info, suspect, violation, leak), or of this
    /// rule; may be given several times; `never` always ends with 0
    #[arg(long, value_name = "SEVERITY or RULE", default_value = "leak", value_parser = FailOn::parse, value_delimiter = ',')]
    fail_on: Vec<FailOn>,
    #[command(flatten)]
    limits: LimitArgs,
}

impl Analyze {
    pub fn run(self) -> Result<ExitCode> {
        let options = self.limits.options();
        let (mut report, untold) = self.subject.judge(&options)?;
        if matches!(self.format.name, "html" | "markdown") {
            self.subject.add_transcripts(&mut report)?;
        }
        let look = if self.output.is_some() { Look::PLAIN } else { terminal::look() };
        let text = (self.format.render)(&report, look)?;
        write(self.output.as_deref(), &text)?;
        let fails = report
            .sessions
            .iter()
            .flat_map(|told| &told.judged.findings)
            .chain(&untold)
            .any(|finding| self.fail_on.iter().any(|fail_on| fail_on.means(finding)));
        Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn write(output: Option<&Path>, text: &str) -> Result<()> {
    match output.filter(|path| *path != Path::new("-")) {
        Some(path) => std::fs::write(path, text).doing(format!("writing {}", path.display())),
        None => print(text),
    }
}

fn form(name: &str) -> std::result::Result<&'static Format, String> {
    report::format(name).ok_or_else(|| {
        let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        format!("it is one of {}", known.join(", "))
    })
}

/// What makes the exit code 1.
#[derive(Debug, Clone, PartialEq)]
enum FailOn {
    Severity(Severity),
    Rule(&'static str),
    Never,
}

impl FailOn {
    fn parse(word: &str) -> std::result::Result<FailOn, String> {
        if word == "never" {
            return Ok(FailOn::Never);
        }
        Severity::from_name(word)
            .map(FailOn::Severity)
            .or_else(|| rule(word).map(|rule| FailOn::Rule(rule.name)))
            .ok_or_else(|| "it is info, suspect, violation, leak, never, or a rule (see `rpctap rules`)".to_string())
    }

    fn means(&self, finding: &Finding) -> bool {
        match self {
            FailOn::Severity(severity) => finding.severity >= *severity,
            FailOn::Rule(name) => finding.rule.name == *name,
            FailOn::Never => false,
        }
    }
}
