//! Growth: what leaked, stacked by verdict, with the open requests as a line; gauges of the server's own over it,
//! measures of its process below, each with how it moves with the leak.

use super::Subject;
use super::axis::{LEFT, SMALL, Swatch, TimeAxis, Unit, ValueAxis, band, heading, legend, steps};
use super::picture::{Anchor, Ink, Picture, WIDTH};
use crate::event::Micros;
use crate::exchange::gauge;
use crate::exchange::series::{LeakKind, Point, Series, View};
use crate::exchange::trend::{self, Forecast};
use crate::report::words;
use crate::report::{growth_words, samples};

const MAIN: f64 = 300.0;
const SIDE: f64 = 84.0;

pub fn draw(subject: &Subject<'_>) -> Picture {
    let series = &subject.judged.series;
    let mut picture = Picture::new("Leaked work and open requests over time");
    let mut y = heading(&mut picture, "Leaked work and open requests", &headlines(subject));
    let points = series.points(subject.view);
    let end = points.last();
    let kinds: Vec<LeakKind> =
        LeakKind::ALL.into_iter().filter(|kind| end.is_some_and(|end| end.leaked[*kind as usize] > 0)).collect();
    let tallest = points.iter().map(|point| point.leaked_in_all().max(point.requests().high)).max().unwrap_or(0) as f64;
    let (over, beside) = gauges(series, tallest);

    let mut entries: Vec<(Ink, Swatch, String)> = kinds
        .iter()
        .map(|kind| {
            let total = end.map_or(0, |end| end.leaked[*kind as usize]);
            (Ink::Leak(*kind as usize), Swatch::Area, format!("leaked: {} ({})", kind.name(), words::count(total)))
        })
        .collect();
    entries.push((Ink::Open(0), Swatch::Line, "open requests".to_string()));
    if points.iter().any(|point| point.requests().high != point.requests().low) {
        entries.push((Ink::Open(0), Swatch::Band, "lowest to highest".to_string()));
    }
    for (place, name) in over.iter().enumerate() {
        entries.push((Ink::Gauge(place % 4), Swatch::Dots, gauge_words(series, name)));
    }
    y = legend(&mut picture, y, &entries) + 6.0;

    let time = TimeAxis::new(series.starts_at(), series.ends_at(), LEFT, subject.judged.session.knows.times);
    let gauge_high = over.iter().flat_map(|name| series.gauge(name)).map(|(_, value)| value).fold(0.0, f64::max);
    let values = ValueAxis::new(0.0, tallest.max(gauge_high).max(1.0), y, y + MAIN);
    picture.rect(LEFT, y, time.right - LEFT, MAIN, Ink::Panel, 1.0);
    time.draw(&mut picture, y, y + MAIN, beside.is_empty());
    values.draw(&mut picture, 6, Unit::COUNT, words::trimmed);

    let mut below = vec![0_u64; points.len()];
    for kind in &kinds {
        let above: Vec<u64> =
            points.iter().zip(&below).map(|(point, below)| below + point.leaked[*kind as usize]).collect();
        let edge = |heights: &[u64]| {
            let mut curve = vec![(series.starts_at(), 0.0)];
            curve.extend(points.iter().zip(heights).map(|(point, height)| (point.at, *height as f64)));
            steps(&time, &curve, |value| values.y(value))
        };
        let mut outline = edge(&above);
        outline.extend(edge(&below).into_iter().rev());
        picture.area(outline, Ink::Leak(*kind as usize), 0.8);
        below = above;
    }
    open_line(&mut picture, series, &points, &time, &values);
    since(&mut picture, subject, &time, y);
    for (place, name) in over.iter().enumerate() {
        let readings: Vec<(f64, f64)> =
            series.gauge(name).iter().map(|(at, value)| (time.x(*at), values.y(*value))).collect();
        picture.line(readings.clone(), Ink::Gauge(place % 4), 1.0);
        if readings.len() <= 60 {
            readings.iter().for_each(|(x, y)| picture.dot(*x, *y, 3.5, Ink::Gauge(place % 4)));
        }
        number_ends(&mut picture, series, name, &readings);
    }
    if let Some(pool) = subject.pool.filter(|pool| (*pool as f64) < values.high) {
        let at = values.y(pool as f64);
        picture.dashes((LEFT, at), (time.right, at), Ink::Bad, 1.2);
        picture.text(LEFT + 6.0, at - 4.0, &format!("pool of {}", words::count(pool)), SMALL, Ink::Bad, Anchor::Start);
    }
    y += MAIN;
    for (place, name) in beside.iter().enumerate() {
        y = side_panel(&mut picture, series, name, place, &time, y + 12.0, place + 1 == beside.len());
    }
    picture.height = y + 44.0;
    picture
}

fn headlines(subject: &Subject<'_>) -> Vec<String> {
    let mut lines = vec![subject.caption(), growth_words::sentence(subject.judged)];
    if subject.view == View::Certain {
        lines.push("Each leak counts from when it became certain, not from when it was opened.".to_string());
    }
    if let Some(pool) = subject.pool {
        let forecast = trend::forecast(&subject.judged.series, &subject.judged.trend, pool);
        lines.push(growth_words::pool(subject.judged, pool, &forecast));
        if matches!(forecast, Forecast::NotInSight) && subject.judged.series.is_empty() {
            lines.pop();
        }
    }
    lines
}

/// Gauges that fit the scale of the counts are drawn over them; all others beside.
fn gauges(series: &Series, tallest: f64) -> (Vec<String>, Vec<String>) {
    samples::telling(series).into_iter().map(str::to_string).partition(|name| {
        let high = series.gauge(name).iter().map(|(_, value)| value.abs()).fold(0.0, f64::max);
        !samples::is_sample(name) && high <= (tallest * 4.0).max(10.0)
    })
}

fn gauge_words(series: &Series, name: &str) -> String {
    let readings = series.gauge(name);
    let told = |value: f64| samples::value_words(name, value);
    let ends = match (readings.first(), series.gauge_last(name)) {
        (Some((_, first)), Some(last)) => format!(" {} → {}", told(*first), told(last)),
        _ => String::new(),
    };
    let moves = trend::correlation(series, name).map_or(String::new(), |r| format!(", r = {r:.2} with the leak"));
    format!("{}{ends}{moves}", samples::title(name))
}

fn open_line(picture: &mut Picture, series: &Series, points: &[Point], time: &TimeAxis, values: &ValueAxis) {
    let outline = band(time, points, series.bucket_micros(), Point::requests, |value| values.y(value));
    picture.area(outline, Ink::Open(0), 0.18);
    let mut curve = vec![(time.from, 0.0)];
    curve.extend(points.iter().map(|point| (point.at, point.open_requests() as f64)));
    picture.line(steps(time, &curve, |value| values.y(value)), Ink::Open(0), 1.6);
}

/// A mark where the floor left its baseline.
fn since(picture: &mut Picture, subject: &Subject<'_>, time: &TimeAxis, top: f64) {
    let trend = &subject.judged.trend;
    let (true, Some(since)) = (trend.growth == trend::Growth::Growing, trend.since) else { return };
    let x = time.x(since);
    picture.dashes((x, top), (x, top + MAIN), Ink::Muted, 1.0);
    let words = if time.timed {
        format!("grows from here: {}", words::duration(since - time.from))
    } else {
        "grows from here".to_string()
    };
    let anchor = if x > WIDTH * 0.7 { Anchor::End } else { Anchor::Start };
    let aside = if anchor == Anchor::End { -5.0 } else { 5.0 };
    picture.text(x + aside, top + 14.0, &words, SMALL, Ink::Muted, anchor);
}

fn number_ends(picture: &mut Picture, series: &Series, name: &str, readings: &[(f64, f64)]) {
    let values = series.gauge(name);
    let ends = [readings.first().zip(values.first()), readings.last().zip(values.last())];
    let ends = if readings.len() < 2 { &ends[..1] } else { &ends[..] };
    for (place, value) in ends.iter().flatten() {
        let (x, y) = **place;
        let right = x > WIDTH - 60.0;
        let (x, anchor) = if right { (x - 6.0, Anchor::End) } else { (x + 6.0, Anchor::Start) };
        picture.text(x, y - 6.0, &samples::value_words(name, value.1), SMALL, Ink::Text, anchor);
    }
}

fn side_panel(
    picture: &mut Picture,
    series: &Series,
    name: &str,
    place: usize,
    time: &TimeAxis,
    top: f64,
    is_last: bool,
) -> f64 {
    let readings: Vec<(Micros, f64)> = series.gauge(name);
    let low = readings.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let high = readings.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
    // Memory starts high; all else stands on zero, so that what hardly moves does not look as if it did.
    let low = if name == gauge::MEMORY { (low - (high - low).max(high * 0.1)).max(0.0) } else { low.min(0.0) };
    let top = top + 16.0;
    let values = ValueAxis::new(low, high, top, top + SIDE);
    picture.text_within(LEFT, top - 4.0, 700.0, &gauge_words(series, name), SMALL, Ink::Text, Anchor::Start);
    picture.rect(LEFT, top, time.right - LEFT, SIDE, Ink::Panel, 1.0);
    time.draw(picture, top, top + SIDE, is_last);
    let unit = match name {
        gauge::MEMORY => Unit::bytes(high),
        gauge::THREADS | gauge::FILES | gauge::SOCKETS => Unit::COUNT,
        _ => Unit::ANY,
    };
    values.draw(picture, 3, unit, |value| samples::value_words(name, value));
    let ink = Ink::Gauge(1 + place % 3);
    let line: Vec<(f64, f64)> = readings.iter().map(|(at, value)| (time.x(*at), values.y(*value))).collect();
    if line.len() <= 60 {
        line.iter().for_each(|(x, y)| picture.dot(*x, *y, 2.5, ink));
    }
    picture.line(line, ink, 1.6);
    top + SIDE
}
