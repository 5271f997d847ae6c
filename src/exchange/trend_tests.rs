//! The trend against random conversations, clean and leaking.

use super::*;
use crate::exchange::series::{Leak, LeakKind, Track};
use crate::exchange::statistics::upper_tail;

/// A small generator of our own, so that a failing seed can be named and run again anywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next()
    }

    /// Evenly over orders of magnitude.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        (self.between(low.ln(), high.ln())).exp()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

/// More of the same, for when there is time.
fn full() -> bool {
    std::env::var_os("RPCTAP_FULL").is_some()
}

#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// Leaks are told by verdict.
    AsLeaks,
    /// They just stay open: the capture stopped while the session lived.
    AsOpen,
}

/// A conversation with bursts, pauses, ramps and slow requests; one in `1 / leaking` requests is never answered,
/// from the share `from` of the requests on.
fn conversation(dice: &mut Dice, requests: usize, leaking: f64, from: f64, told: Told) -> (Series, u64) {
    let gap = dice.scale(100.0, 10_000_000.0);
    let latency = gap * dice.scale(0.05, 30.0);
    let heavy = dice.next() < 0.3;
    let burst_every = dice.between(20.0, 500.0);
    let burst_size = dice.between(2.0, 100.0);
    let ramp = if dice.next() < 0.3 { dice.between(0.3, 3.0) } else { 1.0 };
    let mut at = 1_700_000_000_000_000.0;
    let mut moments: Vec<(f64, bool, f64)> = Vec::new();
    let mut leaks = Vec::new();
    let mut in_burst = 0.0;
    for n in 0..requests {
        let progress = n as f64 / requests as f64;
        if in_burst > 0.0 {
            in_burst -= 1.0;
            at += gap * 0.01;
        } else {
            at += dice.exponential(gap) / (1.0 + (ramp - 1.0) * progress);
            if dice.next() < 1.0 / burst_every {
                in_burst = dice.between(1.0, burst_size);
            }
            if dice.next() < 0.002 {
                at += gap * dice.between(10.0, 1_000.0);
            }
        }
        let took = if heavy { latency * 0.2 / (1.0 - dice.next()).powf(0.6) } else { dice.exponential(latency) };
        moments.push((at, true, at));
        if progress >= from && dice.next() < leaking {
            leaks.push(at);
        } else {
            moments.push((at + took, false, at));
        }
    }
    let end = at;
    moments.retain(|moment| moment.0 <= end);
    moments.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut series = Series::default();
    for (at, opens, opened) in moments {
        if opens {
            series.opened(Track::ClientRequests, at as i64);
        } else {
            series.closed(Track::ClientRequests, opened as i64, at as i64);
        }
    }
    if told == Told::AsLeaks {
        for at in &leaks {
            series.leaked(Leak {
                kind: LeakKind::Orphaned,
                opened_at: *at as i64,
                certain_at: end as i64,
                still_open: Some(Track::ClientRequests),
                method: "tools/call",
                tool: None,
            });
        }
    }
    // What merely stays open has only become a leak when it is far slower than what is answered.
    let patience = match told {
        Told::AsLeaks => 0.0,
        Told::AsOpen => (series.slowest_usual_micros() * TIMES_THE_SLOWEST + series.bucket_micros()) as f64,
    };
    (series, leaks.iter().filter(|at| **at <= end - patience).count() as u64)
}

#[test]
fn clean_conversations_with_bursts_are_not_called_growing() {
    let rounds = if full() { 10_000 } else { 1_100 };
    let mut wrong = Vec::new();
    for seed in 0..rounds {
        let mut dice = Dice(seed);
        let requests = dice.scale(30.0, if full() { 20_000.0 } else { 5_000.0 }) as usize;
        let (series, _) = conversation(&mut dice, requests, 0.0, 0.0, Told::AsOpen);
        let trend = judge(&series, true);
        if trend.growth == Growth::Growing {
            wrong.push((seed, requests, trend.basis, trend.rise, trend.chance));
        }
    }
    assert!(wrong.len() as u64 * 100 <= rounds, "{} of {rounds}: {wrong:?}", wrong.len());
}

#[test]
fn planted_leaks_are_found_once_twenty_have_happened() {
    for told in [Told::AsLeaks, Told::AsOpen] {
        let mut missed = Vec::new();
        let mut tried = 0;
        for seed in 0..if full() { 2_000 } else { 100 } {
            let mut dice = Dice(seed + 1_000_000);
            let leaking = dice.scale(0.001, 0.3);
            let from = if seed % 3 == 0 { dice.between(0.1, 0.7) } else { 0.0 };
            let happened = if told == Told::AsLeaks { 26.0 } else { 40.0 };
            let requests = (happened / leaking / (1.0 - from)) as usize;
            let (series, leaks) = conversation(&mut dice, requests, leaking, from, told);
            if leaks < 20 {
                continue;
            }
            tried += 1;
            let trend = judge(&series, true);
            if trend.growth != Growth::Growing {
                missed.push((seed, leaking, from, leaks, trend));
            } else if told == Told::AsLeaks {
                let slope = trend.per_hundred_requests.expect("a slope");
                assert!(slope > 30.0 * leaking && slope < 300.0 * leaking, "{seed}: {slope} for {leaking}");
            }
        }
        assert!(tried > 60, "{tried}");
        assert!(missed.is_empty(), "{} of {tried}: {:#?}", missed.len(), missed.first());
    }
}

fn leaks_at(moments: &[i64], asked: i64, length: i64) -> Series {
    let mut series = Series::default();
    series.reached(0);
    for n in 0..asked {
        let at = n * length / asked;
        series.opened(Track::ClientRequests, at);
        series.closed(Track::ClientRequests, at, at + 1);
    }
    for at in moments {
        series.leaked(Leak {
            kind: LeakKind::Abandoned,
            opened_at: *at,
            certain_at: *at,
            still_open: None,
            method: "tools/call",
            tool: Some("search"),
        });
    }
    series.reached(length);
    series
}

const MINUTE: i64 = 60_000_000;

#[test]
fn a_steady_leak_has_its_true_slope_and_start() {
    // From the 30th minute on, one a minute.
    let series = leaks_at(&(30..120).map(|minute| minute * MINUTE).collect::<Vec<_>>(), 12_000, 120 * MINUTE);
    let trend = judge(&series, true);
    assert_eq!(trend.growth, Growth::Growing);
    let per_hour = trend.per_hour.unwrap();
    assert!((57.0..63.0).contains(&per_hour), "{per_hour}");
    let per_hundred = trend.per_hundred_requests.unwrap();
    assert!((0.95..1.05).contains(&per_hundred), "{per_hundred}");
    let since = trend.since.unwrap() / MINUTE;
    assert!((27..=33).contains(&since), "{since}");
    assert_eq!(trend.carriers[0].tool.as_deref(), Some("search"));
    assert!(judge(&series, false).per_hour.is_none());
}

#[test]
fn one_early_leak_does_not_move_the_start() {
    let mut moments = vec![MINUTE];
    moments.extend((60..120).map(|minute| minute * MINUTE));
    let since = judge(&leaks_at(&moments, 12_000, 120 * MINUTE), true).since.unwrap() / MINUTE;
    assert!((56..=64).contains(&since), "{since}");
}

#[test]
fn what_rose_and_stopped_is_bounded() {
    let trend = judge(&leaks_at(&(0..20).map(|n| n * MINUTE / 4).collect::<Vec<_>>(), 12_000, 120 * MINUTE), true);
    assert_eq!(trend.growth, Growth::Bounded);
    assert_eq!(trend.rise, 20);
    assert!(trend.per_hour.is_none());
    let at_once = judge(&leaks_at(&[10 * MINUTE; 50], 12_000, 120 * MINUTE), true);
    assert_eq!(at_once.growth, Growth::Bounded);
}

#[test]
fn few_are_too_few() {
    assert_eq!(judge(&leaks_at(&[10, 20, 30], 7, 40), true).growth, Growth::TooShort);
    assert_eq!(judge(&leaks_at(&[], 7, 40), true).growth, Growth::TooShort);
    assert_eq!(judge(&leaks_at(&[], 700, 40 * MINUTE), true).growth, Growth::None);
    assert_eq!(judge(&Series::default(), true).growth, Growth::TooShort);
    // All at the very end: a crash, or the beginning of something; nobody can say.
    assert_eq!(judge(&leaks_at(&[119 * MINUTE; 50], 12_000, 120 * MINUTE), true).growth, Growth::TooShort);
}

/// Requests at an even pace, of which one in four is never answered.
fn left_open(asked: i64, gap: i64) -> Series {
    let mut series = Series::default();
    for n in 0..asked {
        series.opened(Track::ClientRequests, n * gap);
        if n % 4 != 0 {
            series.closed(Track::ClientRequests, n * gap, n * gap + 1_000);
        }
    }
    series
}

#[test]
fn what_is_only_open_is_hanging_once_it_can_be_missed() {
    let mut series = left_open(400, 1_000_000);
    series.ripens_after(30_000_000);
    let trend = judge(&series, true);
    assert_eq!((trend.growth, trend.basis), (Growth::Growing, Basis::Hanging));
    // None of it is past its deadline; or nobody can know.
    series.ripens_after(u64::MAX);
    assert_ne!(judge(&series, true).growth, Growth::Growing);
    // Its silence says nothing: not that it leaks, nor that a backlog grows.
    series.ripens_after(30_000_000);
    for n in (0..400).step_by(4) {
        series.excused(Track::ClientRequests, n * 1_000_000);
    }
    assert_eq!(judge(&series, true).growth, Growth::None);
}

#[test]
fn a_pace_is_told_by_what_was_watched() {
    let over = |length: i64| {
        let series = leaks_at(&(0..60).map(|n| n * length / 60).collect::<Vec<_>>(), 600, length);
        let trend = judge(&series, true);
        assert_eq!(trend.growth, Growth::Growing, "{length}");
        trend.pace().map(|(slope, unit)| (slope.round(), unit))
    };
    assert_eq!(over(300_000), None);
    assert_eq!(over(10_000_000), Some((6.0, "second")));
    assert_eq!(over(20 * MINUTE), Some((3.0, "minute")));
    assert_eq!(over(6 * 60 * MINUTE), Some((10.0, "hour")));
    // Six leaks of six requests in two seconds are six leaks, and no course.
    let few = leaks_at(&[0, 300_000, 600_000, 900_000, 1_200_000, 1_500_000], 6, 2_000_000);
    assert_eq!(judge(&few, true).growth, Growth::TooShort);
}

#[test]
fn a_backlog_that_grows_under_even_traffic_is_growing() {
    let mut series = Series::default();
    // Ten a second come in, nine and a half go out.
    let mut moments: Vec<(i64, i64, bool)> = Vec::new();
    for n in 0..4_000_i64 {
        let opened = n * 100_000;
        moments.push((opened, opened, true));
        moments.push((n * 105_263 + 50_000, opened, false));
    }
    let end = 4_000 * 100_000;
    moments.retain(|moment| moment.0 <= end);
    moments.sort();
    for (at, opened, opens) in moments {
        match opens {
            true => series.opened(Track::ClientRequests, at),
            false => series.closed(Track::ClientRequests, opened, at),
        }
    }
    let trend = judge(&series, true);
    assert_eq!((trend.growth, trend.basis), (Growth::Growing, Basis::Backlog));
    let per_hour = trend.per_hour.unwrap();
    assert!((1_600.0..2_000.0).contains(&per_hour), "half a request a second is 1,800 an hour: {per_hour}");
}

#[test]
fn a_pool_is_exhausted_in_time_or_at_a_time() {
    let series = leaks_at(&(30..120).map(|minute| minute * MINUTE).collect::<Vec<_>>(), 12_000, 120 * MINUTE);
    let trend = judge(&series, true);
    let Forecast::Exhausted { at } = forecast(&series, &trend, 10) else { panic!("ten are gone") };
    assert!((38 * MINUTE..=40 * MINUTE).contains(&at), "{}", at / MINUTE);
    let Forecast::Expected { at, requests } = forecast(&series, &trend, 130) else { panic!("forty to go") };
    assert!((155..=165).contains(&(at.unwrap() / MINUTE)), "{at:?}");
    assert!((3_700..=4_300).contains(&requests.unwrap()), "{requests:?}");
    let clean = leaks_at(&[], 700, 40 * MINUTE);
    assert_eq!(forecast(&clean, &judge(&clean, true), 10), Forecast::NotInSight);
}

#[test]
fn the_statistics_are_those_of_the_books() {
    // Ten values in rising order: S = 45, variance 125, z = 44 / 11.18 = 3.935.
    let rising: Vec<f64> = (0..10).map(f64::from).collect();
    assert!((mann_kendall(&rising) - 4.15e-5).abs() < 2e-6, "{}", mann_kendall(&rising));
    assert_eq!(mann_kendall(&[3.0; 10]), 1.0);
    assert_eq!(mann_kendall(&[]), 1.0);
    assert!((upper_tail(1.96) - 0.0249979).abs() < 1e-6);
    assert!((upper_tail(3.0) - 0.0013499).abs() < 1e-7);
    assert!((upper_tail(0.0) - 0.5).abs() < 1e-12);
    // One wild value does not move the slope.
    let x: Vec<f64> = (0..11).map(f64::from).collect();
    let mut y: Vec<f64> = x.iter().map(|x| 2.0 * x + 1.0).collect();
    y[5] = 1e9;
    assert!((theil_sen(&x, &y).unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(theil_sen(&[1.0], &[1.0]), None);
    assert!((pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(pearson(&[1.0, 1.0], &[2.0, 4.0]), None);
}

#[test]
fn a_gauge_that_climbs_with_the_leak_correlates() {
    let mut series = leaks_at(&(0..100).map(|n| n * MINUTE).collect::<Vec<_>>(), 1_000, 100 * MINUTE);
    for n in 0..100 {
        series.measured("rss", n * MINUTE, 1e6 + 5e4 * n as f64);
    }
    assert!(correlation(&series, "rss").unwrap() > 0.99);
    assert_eq!(correlation(&series, "none"), None);
}
