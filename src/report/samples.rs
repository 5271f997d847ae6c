//! Titles and units of what is measured of a tapped process, told apart from the gauges a user names.

use super::words;
use crate::exchange::{Series, gauge};

/// Whether a gauge is a measure of the process.
pub fn is_sample(name: &str) -> bool {
    gauge::MEASURES.contains(&name)
}

/// The gauges worth showing: a user's always, a measure of the process when it moves.
pub fn telling(series: &Series) -> Vec<&str> {
    let moves = |name: &str| {
        let readings = series.gauge(name);
        readings.windows(2).any(|pair| pair[0].1 != pair[1].1)
    };
    series.gauge_names().into_iter().filter(|name| !is_sample(name) || moves(name)).collect()
}

/// What stands in legends: user's gauges by the name the user gave.
pub fn title(name: &str) -> String {
    match name {
        gauge::MEMORY => "memory of the process".to_string(),
        gauge::THREADS => "threads of the process".to_string(),
        gauge::FILES => "open files of the process".to_string(),
        gauge::SOCKETS => "open sockets of the process".to_string(),
        gauge::CPU => "processor use of the process".to_string(),
        other => format!("gauge {other}"),
    }
}

pub fn value_words(name: &str, value: f64) -> String {
    match name {
        gauge::MEMORY => words::bytes(value),
        gauge::CPU => format!("{} %", words::rough(value)),
        gauge::THREADS | gauge::FILES | gauge::SOCKETS => words::trimmed((value * 10.0).round() / 10.0),
        _ => words::rough(value),
    }
}
