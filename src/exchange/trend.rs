//! Does it grow? Statistics over a [`Series`] that bursts do not fool.
//!
//! Comes in: a series. Goes out: a [`Trend`]: growing, bounded, none, or too short to say; how fast, since when,
//! carried by which methods; and a [`Forecast`] for a pool of a given size.
//!
//! Judged is the *floor*: at each moment, what leaked by verdict. Where that does not grow, what was opened by then
//! and never closed is added, if it is past its deadline and far slower than anything that was closed: that proves
//! no leak, and is another [`Basis`]. Bursts are in neither, since they close. The floor's monotonic trend is tested
//! with Mann-Kendall (ties corrected), its slope is Theil-Sen's. Where nothing leaked, the lowest number of open
//! requests in each window is judged the same way, against the traffic: a backlog grows too.

use crate::event::Micros;

use super::series::{Carrier, Point, Series, View};
use super::statistics::{least_squares, pearson};
pub use super::statistics::{mann_kendall, theil_sen};

/// Windows a series is cut into: enough for the test to be sharp, few enough that each spans several bursts.
const WINDOWS: usize = 24;
/// Below this many, chance alone makes any pattern.
const LEAST_RISE: u64 = 5;
/// Requests without which even "none" is too much to say, and "growing" all the more.
const LEAST_REQUESTS: u64 = 20;
/// How sure the test must be: one clean series in a hundred may be called growing, at most.
const SURE: f64 = 0.01;
/// A request counts as never closing when it is open this many times longer than the slowest usual one.
const TIMES_THE_SLOWEST: u64 = 2;
/// A slope over less than this is no rate: it would be multiplied by thousands to be told by the hour.
const SHORTEST_SPAN: Micros = 1_000_000;
/// A backlog must be this much above where it came from, to stand out from the ebb and flow of load.
const BACKLOG_RISE: f64 = 10.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    Growing,
    /// It rose and stopped.
    Bounded,
    None,
    TooShort,
}

impl Growth {
    pub fn name(self) -> &'static str {
        match self {
            Growth::Growing => "growing",
            Growth::Bounded => "bounded",
            Growth::None => "none",
            Growth::TooShort => "too-short-to-say",
        }
    }
}

/// What the trend is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// What leaked by verdict.
    Leaked,
    /// That, and what is open past its deadline: nothing proves that it leaks.
    Hanging,
    /// Open requests: they are answered, but ever later.
    Backlog,
}

impl Basis {
    pub fn name(self) -> &'static str {
        match self {
            Basis::Leaked => "leaked",
            Basis::Hanging => "hanging",
            Basis::Backlog => "backlog",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trend {
    pub growth: Growth,
    pub basis: Basis,
    /// How far the floor came up in all.
    pub rise: u64,
    /// When it first left its baseline for good.
    pub since: Option<Micros>,
    /// When it last rose.
    pub until: Option<Micros>,
    /// Slope since then. `None` in a session that knows no times.
    pub per_hour: Option<f64>,
    pub per_hundred_requests: Option<f64>,
    /// How probable such a trend is by chance alone (Mann-Kendall, one-sided).
    pub chance: f64,
    pub windows: usize,
    /// Most first.
    pub carriers: Vec<Carrier>,
}

impl Trend {
    /// The slope in a unit no longer than what was watched (an hourly rate out of a few seconds is a forecast), and its
    /// name: `second`, `minute` or `hour`.
    pub fn pace(&self) -> Option<(f64, &'static str)> {
        let per_hour = self.per_hour?;
        let span = self.until?.saturating_sub(self.since?);
        Some(match span {
            _ if per_hour >= 3600.0 || span < 60_000_000 => (per_hour / 3600.0, "second"),
            _ if per_hour >= 600.0 || span < 3_600_000_000 => (per_hour / 60.0, "minute"),
            _ => (per_hour, "hour"),
        })
    }
}

/// When a pool of connections or workers runs out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Forecast {
    Exhausted {
        at: Micros,
    },
    /// At the present slope; the moment for a session with times, the requests still to come for any.
    Expected {
        at: Option<Micros>,
        requests: Option<u64>,
    },
    /// It is not growing.
    NotInSight,
}

/// The floor at the end of each bucket.
struct Floor {
    at: Vec<Micros>,
    held: Vec<u64>,
    asked: Vec<u64>,
    from: Micros,
    to: Micros,
}

impl Floor {
    fn of(series: &Series, points: &[Point], basis: Basis) -> Floor {
        let slowest = series.slowest_usual_micros().saturating_mul(TIMES_THE_SLOWEST);
        let patience = slowest.max(series.patience_micros());
        let ripe_until = series.ends_at().saturating_sub(i64::try_from(patience).unwrap_or(i64::MAX));
        let mut floor = Floor {
            at: Vec::new(),
            held: Vec::new(),
            asked: Vec::new(),
            from: series.starts_at(),
            to: series.ends_at(),
        };
        let (mut unclosed, mut asked) = (0, 0);
        for point in points {
            if point.at <= ripe_until && basis != Basis::Leaked {
                unclosed = point.unclosed.iter().sum();
            }
            asked += point.asked;
            floor.at.push(point.at);
            floor.held.push(point.leaked_in_all() + unclosed);
            floor.asked.push(asked);
        }
        // What was opened in the last stretch is too young to count: where most of the floor is of that kind,
        // the stretch would look like an end of the growth.
        if points.last().is_some_and(|last| last.leaked_in_all() < unclosed) {
            floor.to = ripe_until.max(floor.from);
        }
        floor
    }

    fn held_at(&self, at: Micros) -> u64 {
        let after = self.at.partition_point(|end| *end <= at);
        after.checked_sub(1).map_or(0, |last| self.held[last])
    }

    fn asked_at(&self, at: Micros) -> u64 {
        let after = self.at.partition_point(|end| *end <= at);
        after.checked_sub(1).map_or(0, |last| self.asked[last])
    }

    fn held_at_each(&self, moments: &[Micros]) -> Vec<u64> {
        moments.iter().map(|at| self.held_at(*at)).collect()
    }

    /// The floor after each of `count` equal shares of the requests asked since a moment.
    fn held_by_requests(&self, since: Micros, count: usize) -> Vec<u64> {
        let start = self.asked_at(since);
        let total = self.asked_at(self.to).saturating_sub(start);
        let after = |n: usize| self.asked.partition_point(|asked| *asked < start + total * n as u64 / count as u64);
        (1..=count).map(|n| self.held.get(after(n)).copied().unwrap_or(self.rise())).collect()
    }

    fn rise(&self) -> u64 {
        self.held.last().copied().unwrap_or(0)
    }

    /// When it last rose.
    fn last_rise(&self) -> Option<Micros> {
        let place = self.held.partition_point(|held| *held < self.rise());
        self.at.get(place).copied()
    }

    fn moments(&self, from: Micros, count: usize) -> Vec<Micros> {
        let length = self.to.saturating_sub(from);
        (1..=count as i64)
            .map(|n| from.saturating_add((i128::from(length) * i128::from(n) / count as i128) as i64))
            .collect()
    }

    /// The moment from which "flat, then a straight climb" fits best.
    fn departure(&self) -> Micros {
        let moments = self.moments(self.from, 4 * WINDOWS);
        let heights: Vec<f64> = moments.iter().map(|at| self.held_at(*at) as f64).collect();
        let mut best = (f64::INFINITY, self.from);
        for knee in 0..moments.len() - 1 {
            let ramp: Vec<f64> = (0..moments.len()).map(|n| n.saturating_sub(knee) as f64).collect();
            let (slope, base) = least_squares(&ramp, &heights);
            let missed: f64 = ramp.iter().zip(&heights).map(|(x, y)| (base + slope * x - y).powi(2)).sum();
            if missed < best.0 - 1e-9 {
                best = (missed, if knee == 0 { self.from } else { moments[knee] });
            }
        }
        // No earlier than the first rise: before it there is nothing to date.
        let first = self.at[self.held.partition_point(|held| *held == 0).min(self.at.len() - 1)];
        best.1.max(first.min(self.to))
    }
}

/// Judges a series. `timed` is false when its session knows no times.
pub fn judge(series: &Series, timed: bool) -> Trend {
    let points = series.points(View::Opened);
    let proven = judge_floor(series, &points, timed, Basis::Leaked);
    if proven.growth == Growth::Growing {
        return proven;
    }
    let hanging = judge_floor(series, &points, timed, Basis::Hanging);
    match proven.rise {
        _ if hanging.growth == Growth::Growing => hanging,
        0 => judge_backlog(series, &points, timed, proven),
        _ => proven,
    }
}

fn judge_floor(series: &Series, points: &[Point], timed: bool, basis: Basis) -> Trend {
    let mut trend = Trend {
        growth: Growth::None,
        basis,
        rise: 0,
        since: None,
        until: None,
        per_hour: None,
        per_hundred_requests: None,
        chance: 1.0,
        windows: 0,
        carriers: Vec::new(),
    };
    let floor = Floor::of(series, points, basis);
    trend.rise = floor.rise();
    if trend.rise == 0 {
        return trend;
    }
    trend.carriers = series.carriers(basis == Basis::Hanging);
    trend.until = floor.last_rise();
    let since = floor.departure();
    trend.since = Some(since);
    // A quarter of flat ground before the departure shows the test what it rose from.
    let run_up = floor.to.saturating_sub(since) / 4;
    let whole = floor.moments(floor.from, WINDOWS);
    let recent = floor.moments(since.saturating_sub(run_up).max(floor.from), WINDOWS);
    let by_requests = floor.held_by_requests(since.saturating_sub(run_up).max(floor.from), WINDOWS);
    trend.chance = [floor.held_at_each(&whole), floor.held_at_each(&recent), by_requests]
        .iter()
        .map(|heights| mann_kendall(&heights.iter().map(|held| *held as f64).collect::<Vec<_>>()))
        .fold(1.0, f64::min);
    trend.windows = WINDOWS;
    slopes(&mut trend, &floor, since, timed);

    // The rise that made the departure stands at its very moment; it belongs to what came since.
    let before = since.saturating_sub(series.bucket_micros() as i64);
    let recent_rise = floor.rise().saturating_sub(floor.held_at(before));
    // Leaks come with requests: after a night's pause, the share of the time says less than that of the traffic.
    let lasting = is_lasting(floor.held_at(before), &floor.held_at_each(&floor.moments(since, 4)))
        || is_lasting(floor.held_at(before), &floor.held_by_requests(before, 4));
    let asked_since = series.asked().saturating_sub(trend.until.map_or(0, |at| floor.asked_at(at)));
    let enough = trend.rise >= LEAST_RISE && recent_rise >= LEAST_RISE && series.asked() >= LEAST_REQUESTS;
    trend.growth = if enough && lasting && trend.chance < SURE {
        Growth::Growing
    } else if asked_since >= LEAST_REQUESTS.max(series.asked() / 2) {
        Growth::Bounded
    } else {
        Growth::TooShort
    };
    if trend.growth != Growth::Growing {
        trend.per_hour = None;
        trend.per_hundred_requests = None;
    }
    trend
}

/// Whether the rise goes on to the end: in most quarters, and not only in the early ones.
fn is_lasting(before: u64, ends: &[u64]) -> bool {
    let rises: Vec<u64> =
        [before].iter().chain(ends).zip(ends).map(|(before, end)| end.saturating_sub(*before)).collect();
    let late = rises[2] + rises[3];
    rises.iter().filter(|rise| **rise > 0).count() >= 3 && late as f64 >= 0.15 * rises.iter().sum::<u64>() as f64
}

fn slopes(trend: &mut Trend, floor: &Floor, since: Micros, timed: bool) {
    let moments = floor.moments(since, WINDOWS);
    let heights: Vec<f64> = moments.iter().map(|at| floor.held_at(*at) as f64).collect();
    if timed && floor.to.saturating_sub(since) >= SHORTEST_SPAN {
        let hours: Vec<f64> = moments.iter().map(|at| (at - floor.from) as f64 / 3.6e9).collect();
        trend.per_hour = theil_sen(&hours, &heights).filter(is_rise);
    }
    let hundreds: Vec<f64> = moments.iter().map(|at| floor.asked_at(*at) as f64 / 100.0).collect();
    trend.per_hundred_requests = theil_sen(&hundreds, &heights).filter(is_rise);
}

/// Half of the windows may lie between two rises: a median slope of nothing tells nothing of what grows.
fn is_rise(slope: &f64) -> bool {
    *slope > 0.0
}

/// Nothing leaked. Do the answers come ever later?
fn judge_backlog(series: &Series, points: &[Point], timed: bool, mut trend: Trend) -> Trend {
    if series.asked() < LEAST_REQUESTS {
        trend.growth = Growth::TooShort;
        return trend;
    }
    let length = series.ends_at() - series.starts_at();
    // What is too young to be missed is no backlog, and a recording too short to tell has none.
    if u64::try_from(length).unwrap_or(0) < series.patience_micros() {
        trend.growth = Growth::TooShort;
        return trend;
    }
    let window = |at: Micros| {
        let place = i128::from(at - series.starts_at()) * WINDOWS as i128 / i128::from(length.max(1));
        (place as usize).min(WINDOWS - 1)
    };
    let mut low = [None::<u64>; WINDOWS];
    let mut asked = [0_u64; WINDOWS];
    let mut level = 0;
    let mut last = 0;
    for point in points {
        let place = window(point.at);
        // Windows in which nothing happened stay at the level they were entered with.
        for quiet in low.iter_mut().take(place).skip(last + 1) {
            *quiet = Some(level);
        }
        let here = (point.open[0].low + point.open[1].low).saturating_sub(point.excused);
        low[place] = Some(low[place].map_or(here, |known| known.min(here)));
        asked[place] += point.asked;
        level = point.open_requests().saturating_sub(point.excused);
        last = place;
    }
    let floor: Vec<f64> = low.iter().map(|low| low.unwrap_or(0) as f64).collect();
    let rate: Vec<f64> = asked.iter().map(|asked| *asked as f64).collect();
    let moments: Vec<f64> = (0..WINDOWS).map(|n| n as f64 * length as f64 / WINDOWS as f64 / 3.6e9).collect();
    let early_high = floor[..WINDOWS / 2].iter().copied().fold(0.0, f64::max);
    let late_low = floor[3 * WINDOWS / 4..].iter().copied().fold(f64::INFINITY, f64::min);
    let sum = |part: &[f64]| part.iter().sum::<f64>();
    let busier = sum(&rate[WINDOWS / 2..]) / sum(&rate[..WINDOWS / 2]).max(1.0);
    trend.windows = WINDOWS;
    trend.chance = mann_kendall(&floor);
    let stands_out = late_low >= early_high + BACKLOG_RISE && late_low > early_high * busier.max(1.0) * 1.25;
    if stands_out && trend.chance < SURE / 10.0 {
        trend.growth = Growth::Growing;
        trend.basis = Basis::Backlog;
        trend.rise = floor[WINDOWS - 1] as u64;
        trend.carriers = series.carriers(true);
        let first = floor.iter().position(|low| *low > 0.0).unwrap_or(0);
        trend.since = Some(series.starts_at() + (length as i128 * first as i128 / WINDOWS as i128) as i64);
        trend.until = Some(series.ends_at());
        trend.per_hour = timed.then(|| theil_sen(&moments, &floor)).flatten().filter(is_rise);
        let mut so_far = 0.0;
        let hundreds: Vec<f64> = rate
            .iter()
            .map(|asked| {
                so_far += asked / 100.0;
                so_far
            })
            .collect();
        trend.per_hundred_requests = theil_sen(&hundreds, &floor).filter(is_rise);
    }
    trend
}

/// When the leaks use up a pool of `size`.
pub fn forecast(series: &Series, trend: &Trend, size: u64) -> Forecast {
    let points = series.points(View::Opened);
    let floor = Floor::of(series, &points, Basis::Hanging);
    // What hangs takes its place in a pool, proven or not.
    let held: Vec<u64> = match trend.basis {
        Basis::Leaked | Basis::Hanging => floor.held.clone(),
        Basis::Backlog => points.iter().map(|point| point.open[0].low + point.open[1].low).collect(),
    };
    if let Some(place) = held.iter().position(|held| *held >= size.max(1)) {
        // Within the bucket the climb is taken as even.
        let (before, start) = place.checked_sub(1).map_or((0, floor.from), |last| (held[last], floor.at[last]));
        let start = start.max(floor.at[place].saturating_sub(series.bucket_micros() as i64));
        let share = (size - before) as f64 / (held[place] - before).max(1) as f64;
        return Forecast::Exhausted { at: start + ((floor.at[place] - start) as f64 * share) as i64 };
    }
    if trend.growth != Growth::Growing {
        return Forecast::NotInSight;
    }
    let missing = (size - held.last().copied().unwrap_or(0)) as f64;
    let positive = |slope: Option<f64>| slope.filter(|slope| *slope > 0.0);
    let at = positive(trend.per_hour)
        .map(|slope| missing / slope * 3.6e9)
        .filter(|wait| *wait < 1e17)
        .map(|wait| series.ends_at().saturating_add(wait as i64));
    let requests = positive(trend.per_hundred_requests).map(|slope| (missing / slope * 100.0).ceil() as u64);
    match (at, requests) {
        (None, None) => Forecast::NotInSight,
        _ => Forecast::Expected { at, requests },
    }
}

/// How a gauge moves with the floor: Pearson's r from -1 to 1; `None` below five readings or where either is flat.
pub fn correlation(series: &Series, gauge: &str) -> Option<f64> {
    let readings = series.gauge(gauge);
    if readings.len() < 5 {
        return None;
    }
    let points = series.points(View::Opened);
    let mut floor = Floor::of(series, &points, Basis::Hanging);
    if floor.rise() == 0 {
        floor.held = points.iter().map(Point::open_requests).collect();
    }
    let held: Vec<f64> = readings.iter().map(|(at, _)| floor.held_at(*at) as f64).collect();
    let values: Vec<f64> = readings.iter().map(|(_, value)| *value).collect();
    pearson(&held, &values)
}

/// The floor as a curve: what leaked or is open past its deadline, at each moment.
pub fn floor(series: &Series) -> Vec<(Micros, u64)> {
    let floor = Floor::of(series, &series.points(View::Opened), Basis::Hanging);
    floor.at.into_iter().zip(floor.held).collect()
}

#[cfg(test)]
#[path = "trend_tests.rs"]
mod tests;
