//! The charts, of conversations made by hand: what they must show, and that the picture is not blank.

use super::*;
use crate::event::{Knows, Micros, Session, Side, Source};
use crate::exchange::gauge;
use crate::exchange::series::{Leak, LeakKind, Series, Track, View};
use crate::exchange::{Outcome, trend};
use crate::finding::{Analyzer, MethodFacts, Options};

const START: Micros = 1_794_962_996_000_000;

pub fn session(name: &str) -> Session {
    Session {
        key: 1,
        name: name.to_string(),
        source: Source::Stdio,
        target: "server".to_string(),
        started_at: START,
        knows: Knows::ALL,
    }
}

fn leak(series: &mut Series, kind: LeakKind, at: Micros, tool: &str) {
    series.leaked(Leak {
        kind,
        opened_at: at,
        certain_at: at + 100_000,
        still_open: Some(Track::ClientRequests),
        method: "tools/call",
        tool: Some(tool),
    });
}

/// Calls given up after a tenth of a second each, with a gauge before and after: 0 to 50, 4 to 54.
pub fn abandoned() -> Judged {
    let mut judged = Analyzer::new(&session("stress"), &Options::default()).finish(None);
    let mut series = Series::default();
    series.reached(START);
    for n in 0..4 {
        series.opened(Track::ClientRequests, START + n * 3_000);
        series.closed(Track::ClientRequests, START + n * 3_000, START + n * 3_000 + 1_500);
    }
    series.measured("tasks", START + 12_000, 4.0);
    for n in 0..50 {
        series.opened(Track::ClientRequests, START + 500_000 + n * 102_000);
    }
    for n in 0..50 {
        leak(&mut series, LeakKind::Abandoned, START + 500_000 + n * 102_000, "hangs_forever_async");
    }
    series.measured("tasks", START + 5_800_000, 54.0);
    series.reached(START + 6_000_000);
    judged.trend = trend::judge(&series, true);
    judged.series = series;
    judged.first_at = Some(START);
    judged.last_at = Some(START + 6_000_000);
    judged.as_of = START + 6_000_000;
    let mut method = MethodFacts {
        asked_by: Side::Client,
        method: "tools/call".into(),
        tool: Some("hangs_forever_async".into()),
        count: 50,
        outcomes: Default::default(),
        latency: Default::default(),
    };
    (0..50).for_each(|_| method.outcomes.add(Outcome::Abandoned));
    judged.outcomes[0] = method.outcomes;
    let mut answered = MethodFacts { method: "tools/list".into(), tool: None, count: 400, ..method.clone() };
    answered.outcomes = Default::default();
    for n in 1..=400 {
        answered.outcomes.add(Outcome::Answered);
        answered.latency.add(1_000 + n * n);
    }
    judged.methods = vec![answered, method];
    judged
}

/// A day of traffic with several kinds of leaks and a process whose memory climbs.
pub fn long() -> Judged {
    let mut judged = Analyzer::new(&session("a long day"), &Options::default()).finish(None);
    let mut series = Series::default();
    let mut open: Vec<Micros> = Vec::new();
    for n in 0..86_400_i64 {
        let at = START + n * 1_000_000;
        let busy = 1 + (n / 3_600) % 5 + if n % 3_000 < 60 { 30 } else { 0 };
        for _ in 0..busy.min(6) {
            series.opened(Track::ClientRequests, at);
            open.push(at);
        }
        while open.len() as i64 > busy {
            let oldest = open.remove(0);
            series.closed(Track::ClientRequests, oldest, at + 200_000);
        }
        if n % 7 == 0 {
            series.opened(Track::ServerRequests, at);
            series.closed(Track::ServerRequests, at, at + 5_000);
        }
        if n > 20_000 && n % 400 == 0 {
            let kinds = [LeakKind::Orphaned, LeakKind::Task, LeakKind::Stream, LeakKind::UnresolvedCancel];
            leak(&mut series, kinds[(n / 400 % 4) as usize], at, "search");
        }
        if n % 10 == 0 {
            let leaked = (n - 20_000).max(0) as f64 / 400.0;
            series.measured(gauge::MEMORY, at, 80e6 + leaked * 300_000.0 + (n % 977) as f64 * 3_000.0);
            series.measured(gauge::THREADS, at, 8.0 + (n % 3) as f64);
            series.measured(gauge::SOCKETS, at, 3.0 + (leaked / 4.0).floor());
            series.measured(gauge::CPU, at, 3.0 + busy as f64);
        }
    }
    judged.trend = trend::judge(&series, true);
    judged.first_at = Some(series.starts_at());
    judged.last_at = Some(series.ends_at());
    judged.as_of = series.ends_at();
    judged.series = series;
    judged.methods = abandoned().methods;
    judged
}

fn rows() -> Rows {
    let mut rows = Rows::default();
    let exchange = |n: i64, outcome: Outcome| crate::exchange::Exchange {
        asked_by: if n % 9 == 4 { Side::Server } else { Side::Client },
        id: crate::rpc::Id::Int(n),
        generation: 1,
        method: "tools/call".into(),
        tool: Some(if n % 2 == 0 { "search" } else { "a tool with a long name that will not fit at all" }.into()),
        carrier: None,
        dialect: crate::protocol::Dialect::Mcp20251125,
        role: crate::protocol::Role::Call,
        opened_seq: n as u64,
        opened_at: START + n * 100_000,
        closed_at: None,
        outcome,
        cause: crate::exchange::Cause::None,
        cancel: None,
        cancel_of: None,
        answer: None,
        error_code: None,
        end: None,
        moved_on: None,
        root: None,
        after_cancel: Vec::new(),
        waited: 0,
        ended_by_server: None,
        doubtful: false,
    };
    let mark = |at| Some(crate::exchange::Mark { seq: 0, at });
    for n in 0..100 {
        let mut one = exchange(n, Outcome::Answered);
        match n % 5 {
            0 => one.outcome = Outcome::Orphaned,
            1 => {
                one.outcome = Outcome::CancelledSilent;
                one.cancel = mark(one.opened_at + 300_000);
            }
            2 => {
                one.outcome = Outcome::CancelledAcknowledged;
                one.cancel = mark(one.opened_at + 200_000);
                one.answer = mark(one.opened_at + 700_000);
            }
            _ => one.answer = mark(one.opened_at + 50_000 * n),
        }
        rows.take(&one);
    }
    rows
}

#[test]
fn every_chart_shows_something_in_both_forms_and_themes() {
    let folder = std::env::var_os("RPCTAP_CHARTS").map(std::path::PathBuf::from);
    for (name, judged) in [("abandoned", abandoned()), ("long", long())] {
        let subject = Subject { judged: &judged, rows: &rows(), pool: Some(10), view: View::Opened };
        for chart in CHARTS {
            let picture = (chart.draw)(&subject);
            assert!(picture.shapes.len() > 5, "{} of {name}", chart.name);
            for (theme, word) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
                let svg = render(&picture, Form::Svg, theme).unwrap();
                let png = render(&picture, Form::Png, theme).unwrap();
                let text = String::from_utf8(svg.clone()).unwrap();
                assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
                assert!(png.len() > 5_000, "{}: a picture of {} bytes is blank", chart.name, png.len());
                if let Some(folder) = &folder {
                    std::fs::write(folder.join(format!("{name}-{}-{word}.svg", chart.name)), svg).unwrap();
                    std::fs::write(folder.join(format!("{name}-{}-{word}.png", chart.name)), png).unwrap();
                }
            }
        }
    }
}

#[test]
fn an_empty_session_is_drawn_too() {
    let judged = Analyzer::new(&session("empty"), &Options::default()).finish(None);
    let subject = Subject { judged: &judged, rows: &Rows::default(), pool: Some(3), view: View::Certain };
    for chart in CHARTS {
        render(&(chart.draw)(&subject), Form::Png, Theme::Light).unwrap();
    }
}

#[test]
fn growth_draws_the_wire_and_the_servers_own_count_on_one_axis() {
    let judged = abandoned();
    let picture =
        (CHARTS[0].draw)(&Subject { judged: &judged, rows: &Rows::default(), pool: None, view: View::Opened });
    let texts: Vec<&str> = picture
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            picture::Shape::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(texts.contains(&"leaked: abandoned (50)"), "{texts:?}");
    assert!(texts.contains(&"gauge tasks 4 → 54"), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("growing: leaked work rose by 50")), "{texts:?}");
}

#[test]
fn the_live_view_says_that_it_is_one() {
    let judged = abandoned();
    let of = |view| {
        let picture = (CHARTS[0].draw)(&Subject { judged: &judged, rows: &Rows::default(), pool: None, view });
        picture
            .shapes
            .iter()
            .any(|shape| matches!(shape, picture::Shape::Text { text, .. } if text.contains("became certain")))
    };
    assert!(of(View::Certain) && !of(View::Opened));
}

#[test]
fn the_waterfall_keeps_the_first_odd_ones_and_the_slowest_plain_ones() {
    let rows = rows();
    let chosen = rows.chosen();
    assert_eq!(rows.seen, 100);
    assert_eq!(chosen.iter().filter(|row| !row.outcome.was_answered()).count(), 48);
    assert!(chosen.windows(2).all(|pair| pair[0].opened_at <= pair[1].opened_at));
    let slowest = chosen.iter().filter(|row| row.outcome.was_answered()).map(|row| row.id.clone());
    assert!(slowest.clone().any(|id| id == "99") && !slowest.clone().any(|id| id == "3"));
}
