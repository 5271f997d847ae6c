//! Latency by method and tool: median, 90th and 99th percentile and the slowest, on a logarithmic scale.

use super::Subject;
use super::axis::{RIGHT, SMALL, Swatch, heading, legend};
use super::picture::{Anchor, Ink, Picture, WIDTH};
use crate::event::{Micros, Side};
use crate::finding::MethodFacts;
use crate::report::{label, words};

/// Rows of the chart: what fits a screen; the rest is in the tables.
const MOST: usize = 20;
const ROW: f64 = 22.0;
const LEFT: f64 = 250.0;

pub fn draw(subject: &Subject<'_>) -> Picture {
    let mut picture = Picture::new("Latency by method");
    let mut methods: Vec<&MethodFacts> =
        subject.judged.methods.iter().filter(|method| method.latency.count() > 0).collect();
    let measured = methods.len();
    methods.truncate(MOST);
    let mut lines = vec![subject.caption()];
    if !subject.judged.session.knows.times {
        lines.push("This recording has no times: nothing to measure.".to_string());
        methods.clear();
    } else if methods.is_empty() {
        lines.push("No request was answered.".to_string());
    } else if measured > MOST {
        lines.push(format!("The {MOST} busiest of {measured} methods and tools."));
    }
    let top = heading(&mut picture, "Latency by method", &lines);
    let entries = [
        (Ink::Good, Swatch::Area, "median to 90 % (of answered requests)".to_string()),
        (Ink::Cancel, Swatch::Area, "90 % to 99 %".to_string()),
        (Ink::Bad, Swatch::Dots, "slowest".to_string()),
    ];
    let top = legend(&mut picture, top, if methods.is_empty() { &[] } else { &entries }) + 8.0;
    let bottom = top + ROW * methods.len() as f64;
    if !methods.is_empty() {
        let low = methods.iter().filter_map(|method| method.latency.percentile(50.0)).min().unwrap_or(1).max(1);
        let high = methods.iter().filter_map(|method| method.latency.max()).max().unwrap_or(1).max(low + 1);
        let scale = Scale::around(low, high);
        scale.draw(&mut picture, top, bottom);
        for (row, method) in methods.iter().enumerate() {
            draw_row(&mut picture, method, &scale, top + ROW * row as f64);
        }
    }
    picture.height = bottom + 40.0;
    picture
}

fn draw_row(picture: &mut Picture, method: &MethodFacts, scale: &Scale, y: f64) {
    let middle = y + ROW / 2.0;
    let who = if method.asked_by == Side::Server { "← " } else { "" };
    let name = format!("{who}{}", label(&method.method, method.tool.as_deref()));
    let count = format!("{}×", words::count(method.latency.count()));
    picture.text(LEFT - 8.0, middle + 4.0, &count, SMALL, Ink::Muted, Anchor::End);
    let room = LEFT - 34.0 - super::paint::text_width(&count, SMALL);
    picture.text_within(16.0, middle + 4.0, room, &name, SMALL, Ink::Text, Anchor::Start);
    let x = |percent: f64| scale.x(method.latency.percentile(percent).unwrap_or(1));
    let (half, most, nearly, all) = (x(50.0), x(90.0), x(99.0), scale.x(method.latency.max().unwrap_or(1)));
    picture.line(vec![(half, middle), (all.max(half + 0.5), middle)], Ink::Muted, 0.8);
    picture.rect(half, middle - 5.0, (most - half).max(2.0), 10.0, Ink::Good, 0.9);
    if nearly > most {
        picture.rect(most, middle - 3.5, nearly - most, 7.0, Ink::Cancel, 0.9);
    }
    picture.dot(all, middle, 3.0, Ink::Bad);
}

/// Decades, from the one below the lowest to the one above the highest.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn around(low: Micros, high: Micros) -> Scale {
        let low = (low as f64).log10();
        let high = (high as f64).log10();
        Scale { low: low.floor(), high: (high + 0.02).ceil().max(low.floor() + 1.0) }
    }

    fn x(&self, micros: Micros) -> f64 {
        let part = ((micros.max(1) as f64).log10() - self.low) / (self.high - self.low);
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - RIGHT - 16.0 - LEFT)
    }

    fn draw(&self, picture: &mut Picture, top: f64, bottom: f64) {
        for decade in self.low as i32..=self.high as i32 {
            let micros = 10_f64.powi(decade) as Micros;
            let x = self.x(micros);
            picture.line(vec![(x, top), (x, bottom)], Ink::Grid, 0.8);
            picture.text(x, bottom + 16.0, &words::duration(micros), SMALL, Ink::Muted, Anchor::Middle);
            if decade < self.high as i32 {
                for half in [2, 5] {
                    let x = self.x(micros * half);
                    picture.line(vec![(x, top), (x, bottom)], Ink::Grid, 0.3);
                }
            }
        }
    }
}
