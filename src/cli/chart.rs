//! `rpctap chart`: pictures of a session.

use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::judging;
use super::limits::LimitArgs;
use crate::error::{Doing, Error, Result};
use crate::exchange::series::View;
use crate::report::chart::{CHARTS, Chart as Kind, Form, Subject, Theme, render};

/// Draw how leaked work grew, what was in flight, latencies, or a waterfall of exchanges
#[derive(Args)]
pub struct Chart {
    #[command(flatten)]
    subject: judging::Subject,
    /// What to draw: growth, in-flight, latency or waterfall
    #[arg(long = "chart", visible_alias = "kind", value_name = "CHART", default_value = "growth", value_parser = kind)]
    kind: &'static Kind,
    /// The file to write; its ending (.svg or .png) says how. `-` writes SVG to stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The colours
    #[arg(long, value_enum, default_value = "light")]
    theme: ThemeName,
    /// From when a leak counts: from when it was opened (when it happened), or from when it became certain (what one
    /// would have seen live)
    #[arg(long, value_enum, default_value = "opened")]
    count_from: From,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ThemeName {
    Light,
    Dark,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum From {
    Opened,
    Certain,
}

impl Chart {
    pub fn run(self) -> Result<ExitCode> {
        let output = self.output.as_deref().filter(|path| *path != Path::new("-"));
        let form = form(output)?;
        if output.is_none() && stdout().is_terminal() {
            return Err(Error::new("drawing a chart: name a file with --output growth.svg (or .png)"));
        }
        let (report, _) = self.subject.judge(&self.limits.options())?;
        // The latest is what people mean; earlier ones are named with --session.
        let told = report.sessions.last().ok_or_else(|| Error::new("drawing a chart: there is no session in it"))?;
        let theme = match self.theme {
            ThemeName::Light => Theme::Light,
            ThemeName::Dark => Theme::Dark,
        };
        let view = match self.count_from {
            From::Opened => View::Opened,
            From::Certain => View::Certain,
        };
        let picture = (self.kind.draw)(&Subject { judged: &told.judged, rows: &told.rows, pool: report.pool, view });
        let bytes = render(&picture, form, theme)?;
        match output {
            Some(path) => std::fs::write(path, bytes).doing(format!("writing {}", path.display()))?,
            None => super::sessions::quietly(stdout().write_all(&bytes))?,
        }
        if report.sessions.len() > 1 {
            eprintln!("rpctap: drew the last of {} sessions; name another with --session", report.sessions.len());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn kind(name: &str) -> std::result::Result<&'static Kind, String> {
    CHARTS.iter().find(|chart| chart.name == name).ok_or_else(|| {
        let known: Vec<String> = CHARTS.iter().map(|chart| format!("{} ({})", chart.name, chart.about)).collect();
        format!("it is one of {}", known.join("; "))
    })
}

fn form(output: Option<&Path>) -> Result<Form> {
    let Some(path) = output else { return Ok(Form::Svg) };
    match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(Form::Svg),
        Some("png") => Ok(Form::Png),
        _ => Err(Error::new(format!("drawing {}: the file's name must end in .svg or .png", path.display()))),
    }
}
