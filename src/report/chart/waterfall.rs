//! A waterfall of exchanges: one row each, from request to answer, with its cancel; the hanging ones run off to
//! the right.

use std::collections::BTreeMap;

use super::Subject;
use super::axis::{SMALL, Swatch, TimeAxis, heading, legend};
use super::picture::{Anchor, Ink, Picture, WIDTH};
use crate::event::{Micros, Side};
use crate::exchange::{Exchange, Outcome};
use crate::report::{label, words};

/// Rows of the chart: what a person still takes in.
const MOST: usize = 64;
/// How many of them the exchanges that did not end plainly may take, when others want in too.
const MOST_ODD: usize = 48;
const ROW: f64 = 14.0;
const LEFT: f64 = 226.0;

/// One exchange, as far as the chart shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub asked_by: Side,
    pub id: String,
    pub label: String,
    pub opened_at: Micros,
    pub cancel_at: Option<Micros>,
    pub answer_at: Option<Micros>,
    pub outcome: Outcome,
}

/// Chooses rows while the exchanges pass by: the first that did not end plainly, and the slowest that did.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    odd: Vec<Row>,
    /// By how long they took, then by when they were asked.
    plain: BTreeMap<(Micros, u64), Row>,
    pub seen: u64,
    pub seen_odd: u64,
}

impl Rows {
    pub fn take(&mut self, exchange: &Exchange) {
        self.seen += 1;
        let is_plain = exchange.outcome.was_answered();
        self.seen_odd += u64::from(!is_plain);
        let took = exchange.answer.map_or(0, |answer| answer.at.saturating_sub(exchange.opened_at));
        if is_plain && self.plain.len() >= MOST && self.plain.keys().next().is_some_and(|least| least.0 >= took) {
            return;
        }
        // Facts come when they are settled, the hanging ones last: twice the rows are kept, to sort and cut.
        if !is_plain && self.odd.len() >= 2 * MOST {
            self.cut(MOST);
            if self.odd.last().is_some_and(|last| last.opened_at <= exchange.opened_at) {
                return;
            }
        }
        // One that stands for many is told many times.
        let told = |last: &Row| last.opened_at == exchange.opened_at && last.id == exchange.id.to_string() && !is_plain;
        if self.odd.last().is_some_and(told) {
            return;
        }
        let row = Row {
            asked_by: exchange.asked_by,
            id: exchange.id.to_string(),
            label: label(&exchange.method, exchange.tool.as_deref()),
            opened_at: exchange.opened_at,
            cancel_at: exchange.cancel.map(|cancel| cancel.at),
            answer_at: exchange.answer.map(|answer| answer.at),
            outcome: exchange.outcome,
        };
        if is_plain {
            self.plain.insert((took, exchange.opened_seq), row);
            if self.plain.len() > MOST {
                self.plain.pop_first();
            }
        } else {
            self.odd.push(row);
        }
    }

    fn cut(&mut self, most: usize) {
        self.odd.sort_by_key(|row| row.opened_at);
        self.odd.truncate(most);
    }

    /// The rows chosen, in the order in which they were asked.
    pub fn chosen(&self) -> Vec<Row> {
        let mut chosen = self.clone();
        chosen.cut(MOST_ODD.max(MOST.saturating_sub(self.plain.len())));
        let mut rows = chosen.odd;
        let room = MOST - rows.len();
        rows.extend(chosen.plain.into_values().rev().take(room));
        rows.sort_by_key(|row| row.opened_at);
        rows
    }
}

pub fn draw(subject: &Subject<'_>) -> Picture {
    let mut picture = Picture::new("Waterfall of exchanges");
    let rows = subject.rows.chosen();
    let mut lines = vec![subject.caption()];
    if (rows.len() as u64) < subject.rows.seen {
        let odd = rows.iter().filter(|row| !row.outcome.was_answered()).count() as u64;
        lines.push(format!(
            "{} of {}: the first {} of {} that hang or were cancelled, and the slowest others.",
            rows.len(),
            words::counted(subject.rows.seen, "exchange", "exchanges"),
            odd,
            words::count(subject.rows.seen_odd)
        ));
    }
    let top = heading(&mut picture, "Waterfall of exchanges", &lines);
    let hangs =
        |row: &Row| row.answer_at.is_none() && !row.outcome.was_cancelled() && row.outcome != Outcome::OpenStream;
    let mut entries = vec![(Ink::Good, Swatch::Area, "request to answer".to_string())];
    if rows.iter().any(hangs) {
        entries.push((Ink::Bad, Swatch::Area, "no answer".to_string()));
    }
    if rows.iter().any(|row| row.cancel_at.is_some() && row.answer_at.is_none()) {
        entries.push((Ink::Cancel, Swatch::Dots, "cancel, then silence".to_string()));
    }
    if rows.iter().any(|row| row.cancel_at.is_some() && row.answer_at.is_some()) {
        entries.push((Ink::Cancel, Swatch::Area, "cancel to answer".to_string()));
    }
    if rows.iter().any(|row| row.asked_by == Side::Server) {
        entries.push((Ink::Muted, Swatch::Line, "← asked by the server".to_string()));
    }
    let top = legend(&mut picture, top, &entries) + 8.0;
    let series = &subject.judged.series;
    let start = rows.iter().map(|row| row.opened_at).min().unwrap_or(series.starts_at());
    let ends = rows.iter().map(|row| row.answer_at.or(row.cancel_at).unwrap_or(row.opened_at));
    let last = ends.chain(rows.iter().map(|row| row.opened_at)).max().unwrap_or(start);
    // What hangs runs on to where the session was judged, but a long silence must not squeeze the rest.
    let end = subject.judged.as_of.max(last).min(last.saturating_add((last - start).max(1) / 4));
    let time = TimeAxis::new(start, end, LEFT, subject.judged.session.knows.times);
    let bottom = top + ROW * rows.len().max(1) as f64;
    time.draw(&mut picture, top, bottom, true);
    for (place, row) in rows.iter().enumerate() {
        draw_row(&mut picture, row, &time, top + ROW * place as f64);
    }
    picture.height = bottom + 44.0;
    picture
}

fn draw_row(picture: &mut Picture, row: &Row, time: &TimeAxis, y: f64) {
    let arrow = if row.asked_by == Side::Server { "← " } else { "" };
    let name = format!("{arrow}{} {}", row.id, row.label);
    picture.text_within(12.0, y + 10.5, LEFT - 20.0, &name, SMALL - 0.5, Ink::Text, Anchor::Start);
    let start = time.x(row.opened_at);
    let bar = |picture: &mut Picture, from: f64, to: f64, ink: Ink| {
        picture.rect(from, y + 3.0, (to - from).max(2.0), ROW - 6.0, ink, 0.9);
    };
    let edge = WIDTH - 8.0;
    match (row.cancel_at.map(|at| time.x(at)), row.answer_at.map(|at| time.x(at))) {
        (None, Some(answer)) => bar(picture, start, answer, Ink::Good),
        (None, None) => {
            // Past the edge of the scale: it never came back.
            bar(picture, start, edge - 6.0, Ink::Bad);
            let tip = vec![(edge - 6.0, y + 1.0), (edge, y + ROW / 2.0), (edge - 6.0, y + ROW - 1.0)];
            picture.area(tip, Ink::Bad, 0.9);
        }
        (Some(cancel), answer) => {
            bar(picture, start, cancel.min(answer.unwrap_or(cancel)), Ink::Good);
            match answer {
                Some(answer) if answer > cancel => bar(picture, cancel, answer, Ink::Cancel),
                Some(_) => {}
                // Nothing followed; whether it had to is for the verdict.
                None => picture.line(vec![(cancel, y + ROW / 2.0), (time.right, y + ROW / 2.0)], Ink::Cancel, 0.7),
            }
            picture.dot(cancel, y + ROW / 2.0, 3.0, Ink::Cancel);
        }
    }
}
