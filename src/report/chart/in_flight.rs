//! In flight: open requests by direction, tasks alive, and below them how many requests were asked.

use super::Subject;
use super::axis::{LEFT, SMALL, Swatch, TimeAxis, Unit, ValueAxis, band, heading, legend, steps};
use super::picture::{Anchor, Ink, Picture};
use crate::event::Micros;
use crate::exchange::series::{Point, Track, View};
use crate::report::words;

const MAIN: f64 = 260.0;
const RATE: f64 = 90.0;

pub fn draw(subject: &Subject<'_>) -> Picture {
    let series = &subject.judged.series;
    let points = series.points(View::Opened);
    let mut picture = Picture::new("Requests in flight over time");
    let peak = |track: Track| points.iter().map(|point| point.open[track as usize].high).max().unwrap_or(0);
    let tracks: Vec<Track> =
        Track::ALL.into_iter().filter(|track| *track == Track::ClientRequests || peak(*track) > 0).collect();
    let top = heading(&mut picture, "Requests in flight", &[subject.caption()]);
    let entries: Vec<(Ink, Swatch, String)> = tracks
        .iter()
        .map(|track| {
            let name = match track {
                Track::ClientRequests => "asked by the client",
                Track::ServerRequests => "asked by the server",
                Track::Tasks => "tasks alive",
            };
            let at_most = words::count(peak(*track));
            (Ink::Open(*track as usize), Swatch::Line, format!("{name} (at most {at_most} at once)"))
        })
        .chain([(Ink::Open(0), Swatch::Band, "lowest to highest".to_string())])
        .chain([(Ink::Good, Swatch::Area, "requests per second (below)".to_string())])
        .filter(|entry| entry.1 != Swatch::Area || subject.judged.session.knows.times)
        .collect();
    let mut y = legend(&mut picture, top, &entries) + 6.0;

    let timed = subject.judged.session.knows.times;
    let time = TimeAxis::new(series.starts_at(), series.ends_at(), LEFT, timed);
    let tallest = tracks.iter().map(|track| peak(*track)).max().unwrap_or(0).max(1) as f64;
    let values = ValueAxis::new(0.0, tallest, y, y + MAIN);
    picture.rect(LEFT, y, time.right - LEFT, MAIN, Ink::Panel, 1.0);
    time.draw(&mut picture, y, y + MAIN, !timed);
    values.draw(&mut picture, 6, Unit::COUNT, words::trimmed);
    for track in &tracks {
        let of = |point: &Point| point.open[*track as usize];
        let ink = Ink::Open(*track as usize);
        picture.area(band(&time, &points, series.bucket_micros(), of, |value| values.y(value)), ink, 0.22);
        let mut curve = vec![(time.from, 0.0)];
        curve.extend(points.iter().map(|point| (point.at, of(point).last as f64)));
        picture.line(steps(&time, &curve, |value| values.y(value)), ink, 1.6);
    }
    y += MAIN;
    if timed {
        y += 26.0;
        picture.text(LEFT, y - 5.0, "requests per second, both sides", SMALL, Ink::Muted, Anchor::Start);
        rate(&mut picture, subject, &time, y);
        time.draw(&mut picture, y, y + RATE, true);
        y += RATE;
    }
    picture.height = y + 44.0;
    picture
}

/// Bars over a few dozen spans: single buckets are too short to have a rate.
fn rate(picture: &mut Picture, subject: &Subject<'_>, time: &TimeAxis, top: f64) {
    const BARS: usize = 60;
    let series = &subject.judged.series;
    let length = (time.to - time.from) as f64;
    let mut asked = [0_u64; BARS];
    for point in series.points(View::Opened) {
        // A point stands at the end of its bucket; what it counts lies before.
        let at = (point.at - time.from).saturating_sub(series.bucket_micros() as Micros / 2).max(0) as f64;
        asked[((at / length * BARS as f64) as usize).min(BARS - 1)] += point.asked;
    }
    let seconds = length / BARS as f64 / 1e6;
    let rates: Vec<f64> = asked.iter().map(|asked| *asked as f64 / seconds).collect();
    let values = ValueAxis::new(0.0, rates.iter().copied().fold(0.0, f64::max), top, top + RATE);
    picture.rect(LEFT, top, time.right - LEFT, RATE, Ink::Panel, 1.0);
    values.draw(picture, 3, Unit::ANY, words::rough);
    let wide = (time.right - LEFT) / BARS as f64;
    for (place, rate) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
        let y = values.y(*rate);
        picture.rect(LEFT + wide * place as f64, y, (wide - 1.0).max(0.5), top + RATE - y, Ink::Good, 0.75);
    }
}
