//! Axes, panels and legends: the parts that every chart is framed with.

use super::picture::{Anchor, Ink, Picture, WIDTH};
use crate::event::Micros;
use crate::exchange::series::{Level, Point};
use crate::report::words;

pub const TEXT: f64 = 12.0;
pub const SMALL: f64 = 11.0;
pub const TITLE: f64 = 17.0;
pub const LEFT: f64 = 58.0;
pub const RIGHT: f64 = 20.0;

/// Round numbers between `low` and `high`: about `wanted` of them.
pub fn ticks(low: f64, high: f64, wanted: usize, whole: bool) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return vec![low];
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let step = if whole { step.max(1.0).round() } else { step };
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// The unit in which a span of time reads well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeUnit {
    pub micros: f64,
    pub name: &'static str,
}

impl TimeUnit {
    pub fn for_span(micros: Micros) -> TimeUnit {
        const UNITS: [(f64, f64, &str); 6] = [
            (2e3, 1.0, "µs"),
            (2e6, 1e3, "ms"),
            (180e6, 1e6, "s"),
            (3.0 * 3600e6, 60e6, "min"),
            (3.0 * 86_400e6, 3600e6, "h"),
            (f64::INFINITY, 86_400e6, "days"),
        ];
        let (_, micros, name) = *UNITS.iter().find(|unit| (micros as f64) < unit.0).unwrap_or(&UNITS[5]);
        TimeUnit { micros, name }
    }
}

/// The horizontal axis of time of one session.
#[derive(Debug, Clone, Copy)]
pub struct TimeAxis {
    pub from: Micros,
    pub to: Micros,
    pub left: f64,
    pub right: f64,
    pub unit: TimeUnit,
    /// False in a session that knows no times: then it is the order of events.
    pub timed: bool,
}

impl TimeAxis {
    pub fn new(from: Micros, to: Micros, left: f64, timed: bool) -> TimeAxis {
        let to = to.max(from + 1);
        TimeAxis { from, to, left, right: WIDTH - RIGHT, unit: TimeUnit::for_span(to - from), timed }
    }

    pub fn x(&self, at: Micros) -> f64 {
        let part = (at - self.from) as f64 / (self.to - self.from) as f64;
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Ticks, their labels and the name of the axis below `bottom`; grid lines up to `top`.
    pub fn draw(&self, picture: &mut Picture, top: f64, bottom: f64, labelled: bool) {
        let unit = if self.timed { self.unit.micros } else { 1.0 };
        let span = (self.to - self.from) as f64 / unit;
        let all = ticks(0.0, span, 8, !self.timed);
        for tick in &all {
            let x = self.x(self.from + (tick * unit) as Micros);
            picture.line(vec![(x, top), (x, bottom)], Ink::Grid, 0.5);
            if labelled {
                picture.text(x, bottom + 15.0, &words::trimmed(*tick), SMALL, Ink::Muted, Anchor::Middle);
            }
        }
        if labelled {
            let name = if self.timed {
                format!("{} since {}", self.unit.name, words::date_time(self.from))
            } else {
                "order of events (this recording has no times)".to_string()
            };
            picture.text((self.left + self.right) / 2.0, bottom + 31.0, &name, SMALL, Ink::Muted, Anchor::Middle);
        }
    }
}

/// What the ticks of a vertical axis are multiples of.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    pub size: f64,
    pub whole: bool,
}

impl Unit {
    pub const COUNT: Unit = Unit { size: 1.0, whole: true };
    pub const ANY: Unit = Unit { size: 1.0, whole: false };

    /// Kibibytes, mebibytes, …: so that ticks are round in the unit they are written in.
    pub fn bytes(high: f64) -> Unit {
        let power = (high.max(1.0).log2() / 10.0).floor();
        Unit { size: 1024_f64.powf(power), whole: false }
    }
}

/// A vertical axis from zero up (or from `low` for gauges).
#[derive(Debug, Clone, Copy)]
pub struct ValueAxis {
    pub low: f64,
    pub high: f64,
    pub top: f64,
    pub bottom: f64,
}

impl ValueAxis {
    /// Room for `high`, with a little air above.
    pub fn new(low: f64, high: f64, top: f64, bottom: f64) -> ValueAxis {
        let high = if high > low { high } else { low + 1.0 };
        ValueAxis { low, high: high + (high - low) * 0.06, top, bottom }
    }

    pub fn y(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        self.bottom - part.clamp(0.0, 1.0) * (self.bottom - self.top)
    }

    /// Ticks at round multiples of `unit`.
    pub fn draw(&self, picture: &mut Picture, wanted: usize, unit: Unit, label: impl Fn(f64) -> String) {
        let left = LEFT;
        for tick in ticks(self.low / unit.size, self.high / unit.size, wanted, unit.whole) {
            let tick = tick * unit.size;
            let y = self.y(tick);
            picture.line(vec![(left, y), (WIDTH - RIGHT, y)], Ink::Grid, 0.5);
            picture.text(left - 6.0, y + 4.0, &label(tick), SMALL, Ink::Muted, Anchor::End);
        }
    }
}

/// Title and one or two lines below it. Gives the height used.
pub fn heading(picture: &mut Picture, title: &str, lines: &[String]) -> f64 {
    picture.text_within(16.0, 28.0, WIDTH - 32.0, title, TITLE, Ink::Text, Anchor::Start);
    let mut y = 30.0;
    for line in lines {
        y += 17.0;
        picture.text_within(16.0, y, WIDTH - 32.0, line, TEXT, Ink::Muted, Anchor::Start);
    }
    y + 10.0
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Swatch {
    Area,
    Line,
    Dots,
    Band,
}

/// Names what the inks mean, in as many rows as needed. Gives the y below it.
pub fn legend(picture: &mut Picture, top: f64, entries: &[(Ink, Swatch, String)]) -> f64 {
    if entries.is_empty() {
        return top;
    }
    let (mut x, mut y) = (16.0, top + 14.0);
    for (ink, swatch, name) in entries {
        let name = super::picture::fitted(name, SMALL, 330.0);
        let wide = 24.0 + super::paint::text_width(&name, SMALL) + 16.0;
        if x + wide > WIDTH - 8.0 && x > 16.0 {
            x = 16.0;
            y += 18.0;
        }
        match swatch {
            Swatch::Area => picture.rect(x, y - 9.0, 16.0, 10.0, *ink, 0.8),
            Swatch::Band => picture.rect(x, y - 9.0, 16.0, 10.0, *ink, 0.25),
            Swatch::Line => picture.line(vec![(x, y - 4.0), (x + 16.0, y - 4.0)], *ink, 2.0),
            Swatch::Dots => {
                picture.line(vec![(x, y - 4.0), (x + 16.0, y - 4.0)], *ink, 1.0);
                picture.dot(x + 8.0, y - 4.0, 3.5, *ink);
            }
        }
        picture.text(x + 22.0, y, &name, SMALL, Ink::Text, Anchor::Start);
        x += wide;
    }
    y + 10.0
}

/// A curve that holds each value until the next: the corners of its steps.
pub fn steps(axis: &TimeAxis, values: &[(Micros, f64)], y: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(values.len() * 2);
    for (at, value) in values {
        let (x, y) = (axis.x(*at), y(*value));
        match points.last().copied() {
            // Only corners: many points on one line make a thick line waver.
            Some((_, before)) if before == y => {}
            Some((_, before)) => points.extend([(x, before), (x, y)]),
            None => points.push((x, y)),
        }
    }
    if let (Some((_, level)), Some((end, _))) = (points.last().copied(), values.last()) {
        points.push((axis.x(*end), level));
    }
    points
}

/// The outline between the lowest and the highest value of each bucket; between buckets it is the line itself.
pub fn band(
    axis: &TimeAxis,
    points: &[Point],
    bucket_micros: u64,
    level: impl Fn(&Point) -> Level,
    y: impl Fn(f64) -> f64,
) -> Vec<(f64, f64)> {
    let edge = |pick: &dyn Fn(Level) -> u64| {
        let mut curve = Vec::with_capacity(points.len() * 2);
        for point in points {
            // A point stands at the end of its bucket.
            let start = point.at.saturating_sub(bucket_micros as Micros).max(axis.from);
            curve.push((start, pick(level(point)) as f64));
            curve.push((point.at, level(point).last as f64));
        }
        steps(axis, &curve, &y)
    };
    let mut outline = edge(&|level| level.high);
    outline.extend(edge(&|level| level.low).into_iter().rev());
    outline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 10.0, 5, false), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0, 3.0, 8, true), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ticks(5.0, 5.0, 5, false), [5.0]);
        for span in [1e-9, 0.37, 54.0, 1e12] {
            let count = ticks(0.0, span, 6, false).len();
            assert!((3..=8).contains(&count), "{span}: {count}");
        }
    }

    #[test]
    fn spans_choose_their_unit() {
        for (micros, name) in [(900, "µs"), (900_000, "ms"), (6_000_000, "s"), (3_600_000_000, "min")] {
            assert_eq!(TimeUnit::for_span(micros).name, name);
        }
        assert_eq!(TimeUnit::for_span(7 * 86_400_000_000).name, "days");
    }
}
