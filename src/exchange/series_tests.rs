//! The series: its floor and bursts, its bounds, odd clocks.

use super::*;

const CLIENT: usize = Track::ClientRequests as usize;

#[test]
fn levels_know_their_floor_and_their_bursts() {
    let mut series = Series::default();
    for at in [0, 1, 2, 3] {
        series.opened(Track::ClientRequests, at);
    }
    for at in [4, 5, 6] {
        series.closed(Track::ClientRequests, at - 4, at);
    }
    series.reached(1 << 20);
    let points = series.points(View::Opened);
    assert_eq!(points[0].open[CLIENT], Level { low: 0, high: 4, last: 1 }, "all within the first bucket");
    let end = points.last().unwrap();
    assert_eq!(end.open[CLIENT], Level { low: 1, high: 1, last: 1 });
    assert_eq!(end.unclosed[CLIENT], 1);
    assert_eq!(end.at, 1 << 20);
}

#[test]
fn a_second_and_a_week_both_give_a_few_hundred_points() {
    for total in [1_000_000_i64, 7 * 24 * 3_600_000_000] {
        let mut series = Series::default();
        let step = total / 10_000;
        for n in 0..10_000 {
            let at = 1_700_000_000_000_000 + n * step;
            series.opened(Track::ClientRequests, at);
            series.closed(Track::ClientRequests, at, at + step / 2);
        }
        let points = series.points(View::Opened);
        assert!((MOST_BUCKETS / 2 - 2..=MOST_BUCKETS + 1).contains(&(points.len() as u64)), "{}", points.len());
        assert_eq!(points.iter().map(|point| point.asked).sum::<u64>(), 10_000);
        assert!(points.iter().all(|point| point.open[CLIENT].high <= 1 && point.open[CLIENT].low == 0));
    }
}

#[test]
fn a_leak_counts_from_when_it_was_opened_and_live_from_when_it_was_certain() {
    let mut series = Series::default();
    series.opened(Track::ClientRequests, 0);
    for at in 1..=100 {
        series.opened(Track::ServerRequests, at * 1000);
        series.closed(Track::ServerRequests, at * 1000, at * 1000 + 10);
    }
    let leak = Leak {
        kind: LeakKind::Orphaned,
        opened_at: 0,
        certain_at: 100_000,
        still_open: Some(Track::ClientRequests),
        method: "tools/call",
        tool: Some("slow"),
    };
    series.leaked(leak);
    let first = |view| series.points(view).into_iter().find(|point| point.leaked_in_all() > 0).unwrap().at;
    assert!(first(View::Opened) < 1_000);
    assert!(first(View::Certain) >= 100_000);
    assert_eq!(series.points(View::Opened).last().unwrap().unclosed[CLIENT], 0, "counted once, as a leak");
    let carrier = Carrier { method: "tools/call".into(), tool: Some("slow".into()), leaked: 1 };
    assert_eq!(series.carriers(true), [carrier]);
}

#[test]
fn a_clock_that_steps_back_breaks_nothing() {
    let mut series = Series::default();
    series.opened(Track::ClientRequests, 5_000_000);
    series.opened(Track::ClientRequests, 1_000);
    series.closed(Track::ClientRequests, 5_000_000, 900);
    series.opened(Track::Tasks, i64::MAX);
    series.closed(Track::Tasks, i64::MAX, i64::MIN);
    series.measured("rss", i64::MIN, 1.0);
    let end = series.points(View::Opened).pop().unwrap();
    assert_eq!(end.open[CLIENT].last, 1);
    assert_eq!(end.open[Track::Tasks as usize].last, 0);
}

#[test]
fn carriers_are_bounded() {
    let mut series = Series::default();
    for n in 0..10_000 {
        series.hanging(&format!("method/{n}"), None);
    }
    let carriers = series.carriers(true);
    assert_eq!(carriers.len(), MOST_CARRIERS + 1);
    assert_eq!(carriers[0].method, OTHER_CARRIERS);
    assert_eq!(carriers.iter().map(|carrier| carrier.leaked).sum::<u64>(), 10_000);
}

#[test]
fn gauges_keep_their_mean_when_buckets_widen() {
    let mut series = Series::default();
    for n in 0..100_000_i64 {
        series.measured("rss", n * 1_000, (n / 1000) as f64);
    }
    let readings = series.gauge("rss");
    assert!(readings.len() <= MOST_BUCKETS as usize);
    assert!(readings.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 < pair[1].0));
    assert_eq!(series.gauge_last("rss"), Some(99.0));
}

#[test]
fn the_slowest_usual_latency_leaves_out_one_in_a_thousand() {
    let mut series = Series::default();
    for n in 0..2_000 {
        series.opened(Track::ClientRequests, n);
        series.closed(Track::ClientRequests, n, n + if n == 7 { 1 << 30 } else { 1_000 });
    }
    assert!((1_000..1_200).contains(&series.slowest_usual_micros()), "{}", series.slowest_usual_micros());
}

#[test]
fn what_ended_long_ago_is_not_open_since() {
    let mut series = Series::default();
    series.opened(Track::ClientRequests, 0);
    series.opened(Track::ClientRequests, 10);
    series.opened(Track::ServerRequests, 400);
    series.reached(500);
    series.ended(Track::ClientRequests, 0, 100);
    series.ended(Track::ClientRequests, 10, 100);
    let open: Vec<(i64, u64)> = series
        .points(View::Opened)
        .iter()
        .map(|point| (point.at, point.open[Track::ClientRequests as usize].last))
        .collect();
    assert_eq!(open.iter().map(|(_, open)| *open).collect::<Vec<_>>(), [1, 2, 0, 0, 0], "{open:?}");
    assert_eq!(series.points(View::Opened).last().map(|point| point.unclosed), Some([0, 1, 0]));
}
