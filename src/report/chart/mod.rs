//! chart: a judgement → pictures.
//!
//! Comes in: a judged session and the exchanges chosen for the waterfall. Goes out: a [`Picture`], as SVG or PNG.
//! One file per chart; plotters is known only here, and only to [`paint`].

pub mod axis;
mod growth;
mod in_flight;
mod latency;
pub mod paint;
pub mod picture;
pub mod waterfall;

pub use picture::{Ink, Picture, Theme};
pub use waterfall::{Row, Rows};

use crate::error::Result;
use crate::exchange::series::View;
use crate::finding::Judged;
use crate::report::{safe, words};

/// What a chart is drawn of.
pub struct Subject<'a> {
    pub judged: &'a Judged,
    pub rows: &'a Rows,
    /// `--pool`: how many leaks hurt.
    pub pool: Option<u64>,
    /// From when leaks count.
    pub view: View,
}

impl Subject<'_> {
    /// What was tapped, in one line.
    fn caption(&self) -> String {
        let judged = self.judged;
        let mut caption = format!("{}, {}", safe::clip(&judged.session.name, 60), judged.protocol.dialect.words());
        caption += &format!(", {}", words::counted(judged.requests(), "request", "requests"));
        if let (true, Some(first), Some(last)) = (judged.session.knows.times, judged.first_at, judged.last_at) {
            caption += &format!(" in {}", words::duration(last - first));
        }
        caption
    }
}

/// A kind of chart.
pub struct Chart {
    /// As in `--chart` and in the page.
    pub name: &'static str,
    pub about: &'static str,
    pub draw: fn(&Subject<'_>) -> Picture,
}

/// To add a chart: its file, a row here.
pub const CHARTS: &[Chart] = &[
    Chart {
        name: "growth",
        about: "what leaked, stacked by verdict, with the open requests as a line",
        draw: growth::draw,
    },
    Chart { name: "in-flight", about: "open requests by direction, tasks alive, request rate", draw: in_flight::draw },
    Chart { name: "latency", about: "latency by method and tool", draw: latency::draw },
    Chart {
        name: "waterfall",
        about: "exchanges as rows: request, cancel, answer, the hanging ones running off to the right",
        draw: waterfall::draw,
    },
];

/// How a picture is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Svg,
    Png,
}

pub fn render(picture: &Picture, form: Form, theme: Theme) -> Result<Vec<u8>> {
    match form {
        Form::Svg => paint::svg_file(picture, theme),
        Form::Png => paint::png(picture, theme),
    }
}

#[cfg(test)]
pub mod tests;
