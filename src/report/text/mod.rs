//! The report for a person: what was tapped, three headlines, then what carries them, then the way to see more.
//!
//! On a terminal there is colour and a table of methods; in a pipe plain lines. Everything from the wire is made
//! safe on its way in.

mod many;
mod one;

use std::fmt::Write;

use anstyle::{AnsiColor, Effects, Style};

use super::safe::{pad, safe, width};
use super::words::{self, count};
use super::{Look, Report};
use crate::error::Result;
use crate::event::Side;
use crate::exchange::{CancelTarget, trend};
use crate::finding::Severity;

/// Sessions told in full; more become a table.
const MOST_IN_FULL: usize = 3;

pub fn render(report: &Report, look: Look) -> Result<String> {
    let mut page = Page { out: String::new(), look };
    if report.sessions.is_empty() {
        page.line("no sessions: nothing has been recorded here yet");
        page.line("  rpctap record -- SERVER ARGS…     put this before any stdio JSON-RPC server");
    } else if report.sessions.len() <= MOST_IN_FULL {
        for (place, told) in report.sessions.iter().enumerate() {
            if place > 0 {
                page.line("");
            }
            page.session(told, report);
        }
        if report.sessions.len() > 1 {
            page.releases(&report.sessions);
        }
    } else {
        page.many(report);
    }
    for remark in &report.remarks {
        page.line(&format!("note: {}", safe(remark)));
    }
    Ok(page.out)
}

struct Page {
    out: String,
    look: Look,
}

const HEADING: Style = Style::new().effects(Effects::BOLD);
const QUIET: Style = Style::new().effects(Effects::DIMMED);

fn severity_style(severity: Severity) -> Style {
    let colour = match severity {
        Severity::Leak => AnsiColor::Red,
        Severity::Violation => AnsiColor::Magenta,
        Severity::Suspect => AnsiColor::Yellow,
        Severity::Info => AnsiColor::Cyan,
    };
    Style::new().fg_color(Some(colour.into())).effects(Effects::BOLD)
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn painted(&self, text: &str, style: Style) -> String {
        if self.look.colour { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    fn columns(&self) -> usize {
        self.look.columns.unwrap_or(120).clamp(60, 160)
    }

    /// Text that may be long, broken at spaces, indented.
    fn wrapped(&mut self, indent: usize, text: &str) {
        for line in broken(text, self.columns().saturating_sub(indent).max(30)) {
            let _ = writeln!(self.out, "{}{line}", " ".repeat(indent));
        }
    }

    fn headline(&mut self, name: &str, number: u64, bad: Option<Severity>, said: &str) {
        let number = format!("{:>7}", count(number));
        let number = match bad {
            Some(severity) => self.painted(&number, severity_style(severity)),
            None => number,
        };
        let name = self.painted(&pad(name, 19), HEADING);
        let mut said = broken(&safe(said), self.columns().saturating_sub(28).max(30)).into_iter();
        self.line(&format!("{name}{number}  {}", said.next().unwrap_or_default()));
        for line in said {
            self.line(&format!("{:28}{line}", ""));
        }
    }
}

/// A (safe) text broken at spaces into lines of at most `room` columns, as far as its words allow.
fn broken(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(word);
        } else if width(line) + 1 + width(word) <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

/// The leak rate from session to session, where there are enough of them.
pub fn course(rates: &[f64]) -> Option<String> {
    if rates.len() < 4 {
        return None;
    }
    let falling: Vec<f64> = rates.iter().map(|rate| -rate).collect();
    let course = match (trend::mann_kendall(rates), trend::mann_kendall(&falling)) {
        (up, _) if up < 0.01 => "rising",
        (_, down) if down < 0.01 => "falling",
        _ => "no trend",
    };
    let latest: Vec<String> = rates.iter().rev().take(6).rev().map(|rate| words::rough(*rate)).collect();
    Some(format!("from session to session: {course} (latest, per 100 requests: {})", latest.join(", ")))
}

pub fn target_words(target: CancelTarget) -> &'static str {
    match target {
        CancelTarget::Open => "for an open request",
        CancelTarget::Finished => "too late",
        CancelTarget::Unknown => "for an unknown id",
        CancelTarget::Forbidden => "forbidden",
        CancelTarget::WrongDirection => "for a request of the other side",
        CancelTarget::Duplicate => "repeated",
        CancelTarget::Nothing => "naming nothing",
    }
}

/// Requests of the server are marked; most are the client's.
pub fn who(asked_by: Side, name: &str) -> String {
    match asked_by {
        Side::Client => name.to_string(),
        Side::Server => format!("← {name}"),
    }
}

/// As a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", safe(word).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_copied() {
        assert_eq!(quoted("a/b-1.db"), "a/b-1.db");
        assert_eq!(quoted("my store.db"), "'my store.db'");
        assert_eq!(quoted("it's\x1b"), "'it'\\''s\\x1b'");
    }

    #[test]
    fn the_course_of_sessions_needs_a_few_of_them() {
        assert_eq!(course(&[1.0, 2.0]), None);
        let rising: Vec<f64> = (0..12).map(f64::from).collect();
        assert!(course(&rising).unwrap().contains("rising"));
        assert!(course(&[1.0, 1.0, 2.0, 1.0, 1.5]).unwrap().contains("no trend"));
    }
}
