//! What the trend says, in sentences.

use super::{label, words};
use crate::exchange::trend::{Basis, Forecast, Growth};
use crate::finding::Judged;
use crate::finding::sessions::Kept;

/// One sentence: growing, bounded, none, or too short to say, with the numbers.
pub fn sentence(judged: &Judged) -> String {
    let trend = &judged.trend;
    let timed = judged.session.knows.times;
    let start = judged.series.starts_at();
    let moment =
        |at: i64| if timed { format!(" {} into the session", words::duration(at - start)) } else { String::new() };
    match (trend.growth, trend.basis) {
        (Growth::Growing, basis) => {
            let what = match basis {
                Basis::Hanging => "what is left hanging",
                Basis::Leaked => "leaked work",
                Basis::Backlog => "the backlog of open requests",
            };
            let since = trend.since.map(moment).filter(|since| !since.is_empty());
            let since = since.map_or(String::new(), |since| format!(", since{since}"));
            format!("growing: {what} rose by {}{}{since}", words::count(trend.rise), speed(judged))
        }
        (Growth::Bounded, _) => {
            let until = trend.until.map(moment).filter(|until| !until.is_empty());
            let until = until.map_or(String::new(), |until| format!("; the last one{until}"));
            format!("bounded: {} leaked, and no more since{until}", words::count(trend.rise))
        }
        (Growth::None, _) => "none: nothing leaked, and no backlog grew".to_string(),
        (Growth::TooShort, _) if trend.rise == 0 => "too short to say: too few requests".to_string(),
        (Growth::TooShort, _) => format!("too short to say: {} leaked", words::count(trend.rise)),
    }
}

/// `, 31,000 an hour, 92.6 per 100 requests`.
fn speed(judged: &Judged) -> String {
    let mut speed = String::new();
    if let Some((slope, unit)) = judged.trend.pace() {
        let article = if unit == "hour" { "an" } else { "a" };
        speed += &format!(", {} {article} {unit}", words::rough(slope));
    }
    if let Some(per_hundred) = judged.trend.per_hundred_requests {
        speed += &format!(", {} per 100 requests", words::rough(per_hundred));
    }
    speed
}

/// Which methods and tools carry the growth; `None` when nothing leaked.
pub fn carriers(judged: &Judged) -> Option<String> {
    let all: u64 = judged.trend.carriers.iter().map(|carrier| carrier.leaked).sum();
    let named: Vec<String> = judged
        .trend
        .carriers
        .iter()
        .take(3)
        .map(|carrier| {
            let name = label(&carrier.method, carrier.tool.as_deref());
            format!("{name} {} ({})", words::count(carrier.leaked), words::percent(carrier.leaked, all))
        })
        .collect();
    let more = judged.trend.carriers.len().saturating_sub(3);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("carried by {}{more}", named.join(", ")))
}

/// `a pool of 10 was exhausted at 12:03:07 UTC`, `a pool of 200 will be in about 40 min`.
pub fn pool(judged: &Judged, size: u64, forecast: &Forecast) -> String {
    let pool = format!("a pool of {}", words::count(size));
    let timed = judged.session.knows.times;
    match forecast {
        Forecast::Exhausted { at } if timed => {
            let after = words::duration(at - judged.series.starts_at());
            format!("{pool} was exhausted at {} UTC, {after} into the session", words::clock(*at))
        }
        Forecast::Exhausted { .. } => format!("{pool} was exhausted"),
        Forecast::Expected { at: Some(at), requests } => {
            let wait = words::about((at - judged.series.ends_at()).max(0));
            let requests = requests.map_or(String::new(), |more| format!(" or {} requests", words::rough(more as f64)));
            format!("{pool} will be exhausted in about {wait}{requests}, if it goes on like this")
        }
        Forecast::Expected { at: None, requests } => {
            let more = words::rough(requests.unwrap_or(0) as f64);
            format!("{pool} will be exhausted after about {more} more requests, if it goes on like this")
        }
        Forecast::NotInSight => format!("{pool} is not being used up"),
    }
}

/// What became of the HTTP sessions that one server opened: `5 ended, 1 in use, 44 never ended; growing, 300 per hour`.
pub fn http_sessions(kept: &Kept) -> String {
    let growing = kept.trend.growth == Growth::Growing;
    let grows = match kept.trend.pace().filter(|_| growing) {
        Some((slope, unit)) => format!("; growing, {} per {unit}", words::rough(slope)),
        None if growing => "; growing".to_string(),
        None => String::new(),
    };
    let [ended, in_use, never_ended] = [kept.ended, kept.in_use, kept.never_ended].map(words::count);
    format!("{ended} ended, {in_use} in use, {never_ended} never ended{grows}")
}
