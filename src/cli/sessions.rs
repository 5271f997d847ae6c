//! `rpctap sessions`: what has been recorded.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use super::place::StorePlace;
use super::record::tell;
use super::revive::revive;
use crate::error::Result;
use crate::event::Source;
use crate::report::safe::safe;
use crate::store::{Recorded, Store, spooled};

/// List what has been recorded
#[derive(Args)]
pub struct Sessions {
    #[command(flatten)]
    place: StorePlace,
}

impl Sessions {
    pub fn run(self) -> Result<ExitCode> {
        let path = self.place.path()?;
        let store = open_with_spools(&path)?;
        print(&store.sessions()?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Opens for reading, after taking in what dead taps have left beside the store.
pub fn open_with_spools(path: &std::path::Path) -> Result<Store> {
    if path.exists() && !spooled::beside(path).is_empty() {
        match spooled::take_in_left_behind(path, &(revive as spooled::Revive)) {
            Ok(0) => {}
            Ok(_) => tell("took in what an interrupted recording had left beside the store"),
            Err(error) => tell(&format!("taking in what an interrupted recording left: {error}")),
        }
    }
    Store::open_readonly(path)
}

fn print(sessions: &[Recorded]) -> Result<()> {
    let rows: Vec<[String; 6]> = sessions
        .iter()
        .map(|recorded| {
            let session = &recorded.session;
            let source = match &session.source {
                Source::Stdio => "stdio",
                Source::Http => "http",
                Source::Import(format) => format,
            };
            let (started, lasted) = match session.knows.times {
                true => (time(session.started_at), span(recorded.last_at - session.started_at)),
                false => ("-".to_string(), "-".to_string()),
            };
            [
                session.key.to_string(),
                safe(&session.name).into_owned(),
                started,
                lasted,
                recorded.events.to_string(),
                format!("{source} {}", safe(&session.target)),
            ]
        })
        .collect();
    let heads = ["session", "name", "started (UTC)", "lasted", "events", "what"].map(str::to_string);
    let mut widths = [0; 6];
    for row in rows.iter().chain([&heads]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = io::stdout().lock();
    let written = [&heads].into_iter().chain(&rows).try_for_each(|row| {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(at, (cell, width))| match at {
                0 | 3 | 4 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())
    });
    quietly(written)
}

/// A reader that has seen enough is no trouble.
pub fn quietly(written: io::Result<()>) -> Result<()> {
    match written {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(cause.into()),
        _ => Ok(()),
    }
}

/// `2026-11-18 02:30:45`, in UTC.
pub fn time(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1970 to a date: shifted so that a year begins in March and a leap day ends it.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// A length of time, as short as it can be said.
pub fn span(micros: i64) -> String {
    let ms = micros / 1000;
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_spans_are_right() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_400_000_000), "2000-02-29 00:00:00");
        assert_eq!(time(1_795_314_645_000_000), "2026-11-22 02:30:45");
        assert_eq!(time(-1), "1969-12-31 23:59:59");
        assert_eq!(
            [span(999_000), span(1_500_000), span(61_000_000), span(7_260_000_000)].join(", "),
            "999 ms, 1.5 s, 1 min 1 s, 2 h 1 min"
        );
    }
}
