//! The report as one page that opens offline: headlines, charts, tables to filter and sort, findings with their
//! explanation and transcript folded under them.
//!
//! Nothing of the wire is ever markup: what this file writes is escaped, and what the page's script shows comes
//! from a block of data and is set as text. A content security policy allows the page's own script and style by
//! their hashes, and nothing from anywhere else.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::chart::{CHARTS, Ink, Subject, Theme, paint};
use super::text::course;
use super::words::{count, counted, duration, percent};
use super::{Look, Report, Told, growth_words, json as data, safe, samples, servers, words};
use crate::error::Result;
use crate::exchange::Outcome;
use crate::exchange::series::{LeakKind, View};
use crate::exchange::trend::{self, Growth};
use crate::finding::sessions::kept;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
/// Sessions that get a section of their own; the others are rows.
const MOST_IN_FULL: usize = 12;
/// Charts stop here, tables go on: the page stays below two megabytes.
const MOST_CHART_BYTES: usize = 900_000;
const MOST_DATA_BYTES: usize = 800_000;

pub fn render(report: &Report, _: Look) -> Result<String> {
    let first_in_full = report.sessions.len().saturating_sub(MOST_IN_FULL);
    let mut body = String::new();
    headings(&mut body, report);
    let mut room = MOST_CHART_BYTES;
    // The latest first: they are what people come for.
    for (place, told) in report.sessions.iter().enumerate().skip(first_in_full).rev() {
        section(&mut body, place, told, report, &mut room)?;
    }
    let style = format!(
        "@font-face{{font-family:rpctap;src:url(data:font/ttf;base64,{})}}\n{STYLE}\n{}",
        paint::base64(paint::FONT),
        dark_charts()
    );
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; font-src data:; base-uri 'none'; \
         form-action 'none'",
        digest(SCRIPT),
        digest(&style)
    );
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        escaped(&title(report)),
        embedded(report, first_in_full)
    ))
}

fn digest(text: &str) -> String {
    paint::base64(&Sha256::digest(text.as_bytes()))
}

/// Text as text: markup and anything invisible is shown.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in safe::safe(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

fn title(report: &Report) -> String {
    match report.sessions.as_slice() {
        [one] => format!("rpctap: {}", safe::clip(&one.judged.session.name, 80)),
        many => format!("rpctap: {}", counted(many.len() as u64, "session", "sessions")),
    }
}

/// Rules that repaint the charts when the reader's screen is dark.
fn dark_charts() -> String {
    let mut rules = String::from("@media (prefers-color-scheme: dark) {\n");
    for ink in Ink::ALL {
        let (r, g, b) = Theme::Light.colour(ink);
        let light = format!("#{r:02X}{g:02X}{b:02X}");
        let (r, g, b) = Theme::Dark.colour(ink);
        let _ = writeln!(
            rules,
            "figure [fill=\"{light}\"]{{fill:#{r:02x}{g:02x}{b:02x}}}figure [stroke=\"{light}\"]{{stroke:#{r:02x}{g:02x}{b:02x}}}"
        );
    }
    rules + "}\n"
}

fn headings(out: &mut String, report: &Report) {
    let _ = writeln!(out, "<h1>{}</h1>", escaped(&title(report)));
    let of = report.source.as_deref().map_or(String::new(), |source| format!(" of {}", escaped(source)));
    let _ = writeln!(out, "<p class=\"facts\">Analysis{of}, by rpctap {}</p>", env!("CARGO_PKG_VERSION"));
    for remark in &report.remarks {
        let _ = writeln!(out, "<p class=\"quiet\">Note: {}</p>", escaped(remark));
    }
    out.push_str(
        "<noscript><p>Tables and findings need this page's own script; charts and headlines do not.</p></noscript>\n",
    );
    if report.sessions.len() != 1 {
        let sum = |of: &dyn Fn(&Told) -> u64| report.sessions.iter().map(of).sum::<u64>();
        out.push_str("<div class=\"cards\">\n");
        card(out, "orphaned requests", sum(&Told::hanging), true, &[]);
        card(out, "unresolved cancels", sum(&Told::unresolved_cancels), false, &[]);
        card(out, "leaked work", sum(&Told::leaked), true, &[]);
        let all = kept(report.sessions.iter().map(|told| &told.judged));
        for kept in &all {
            let of = (all.len() > 1).then(|| safe::clip(&kept.target, 48).to_string());
            let lines: Vec<String> = [growth_words::http_sessions(kept)].into_iter().chain(of).collect();
            card(out, "HTTP sessions", kept.opened, kept.trend.growth == Growth::Growing, &lines);
        }
        out.push_str(
            "</div>\n<h3>Servers</h3>\n<div id=\"servers\"></div>\n<h3>Sessions</h3>\n<div id=\"sessions\"></div>\n",
        );
    }
}

fn card(out: &mut String, name: &str, number: u64, is_bad: bool, lines: &[String]) {
    let class = match (number, is_bad) {
        (0, _) => " fine",
        (_, true) => " bad",
        _ => "",
    };
    let _ = write!(out, "<div class=\"card{class}\"><b>{}</b>{name}", count(number));
    if !lines.is_empty() {
        let items: Vec<String> = lines.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
        let _ = write!(out, "<ul>{}</ul>", items.concat());
    }
    out.push_str("</div>\n");
}

fn section(out: &mut String, place: usize, told: &Told, report: &Report, room: &mut usize) -> Result<()> {
    let judged = &told.judged;
    let number = told.number.map_or(String::new(), |number| format!("Session {number}: "));
    let _ = writeln!(out, "<section>\n<h2>{number}{}</h2>", escaped(&safe::clip(&judged.session.name, 120)));
    let mut facts = vec![judged.protocol.dialect.words(), counted(judged.requests(), "request", "requests")];
    for (who, program) in [("client", &told.peers.client), ("server", &told.peers.server)] {
        if let Some(program) = program {
            facts.push(format!("{who} {}", safe::clip(&program.words(), 80)));
        }
    }
    if let (true, Some(first), Some(last)) = (judged.session.knows.times, judged.first_at, judged.last_at) {
        facts.push(format!("{} from {}", duration(last - first), words::date_time(first)));
    }
    facts.push(safe::clip(&judged.session.target, 160));
    let _ = writeln!(out, "<p class=\"facts\">{}</p>\n<div class=\"cards\">", escaped(&facts.join(" · ")));
    headlines(out, told, report.pool);
    out.push_str("</div>\n");
    for note in &judged.notes {
        let _ = writeln!(out, "<p class=\"quiet\">Note: {}</p>", escaped(&note.text));
    }
    let subject = Subject { judged, rows: &told.rows, pool: report.pool, view: View::Opened };
    for kind in CHARTS {
        let element = paint::svg_element(&(kind.draw)(&subject), Theme::Light)?;
        if element.len() > *room {
            let _ = writeln!(out, "<p class=\"quiet\">The {} chart is left out: rpctap chart draws it.</p>", kind.name);
            continue;
        }
        *room -= element.len();
        let _ = writeln!(out, "<figure class=\"{}\">\n{element}</figure>", kind.name);
    }
    let _ = writeln!(out, "<h3>Findings</h3>\n<div id=\"findings-{place}\"></div>");
    let _ = writeln!(out, "<h3>Methods</h3>\n<div id=\"methods-{place}\"></div>\n</section>");
    Ok(())
}

fn headlines(out: &mut String, told: &Told, pool: Option<u64>) {
    let judged = &told.judged;
    let all = judged.requests();
    let mut lines: Vec<String> = judged
        .outcomes
        .iter()
        .flat_map(|outcomes| outcomes.iter().collect::<Vec<_>>())
        .filter(|(outcome, _)| Outcome::was_left_hanging(*outcome))
        .map(|(outcome, number)| format!("{} {}", count(number), outcome.name()))
        .collect();
    lines.push(format!("of {} ({})", counted(all, "request", "requests"), percent(told.hanging(), all)));
    card(out, "orphaned requests", told.hanging(), true, &lines);
    let mut lines: Vec<String> = judged
        .cancels
        .verdicts
        .iter()
        .map(|verdict| {
            let words = verdict.dialect.words();
            let line = format!("{} {}: {} in {words}", count(verdict.count), verdict.end.name(), verdict.judgement);
            if verdict.consequence.is_empty() { line } else { format!("{line}; {}", verdict.consequence) }
        })
        .collect();
    lines.push(match judged.cancels.total() {
        0 => "no cancel was sent".to_string(),
        total => format!("of {}", counted(total, "cancel", "cancels")),
    });
    card(out, "unresolved cancels", told.unresolved_cancels(), false, &lines);
    let mut lines = vec![growth_words::sentence(judged)];
    let last = judged.series.points(View::Opened).pop();
    lines.extend(LeakKind::ALL.into_iter().filter_map(|kind| {
        let number = last.as_ref().map_or(0, |last| last.leaked[kind as usize]);
        (number > 0).then(|| format!("{} {}", count(number), kind.name()))
    }));
    lines.extend(growth_words::carriers(judged));
    if let Some(size) = pool {
        lines.push(growth_words::pool(judged, size, &trend::forecast(&judged.series, &judged.trend, size)));
    }
    for name in samples::telling(&judged.series) {
        let readings = judged.series.gauge(name);
        if let (Some((_, first)), Some(last)) = (readings.first(), judged.series.gauge_last(name)) {
            let said = |value: f64| samples::value_words(name, value);
            lines.push(format!("{}: {} → {}", samples::title(name), said(*first), said(last)));
        }
    }
    card(out, "leaked work", told.leaked(), true, &lines);
}

/// What the script shows, as JSON that can stand inside a script element whatever it holds.
fn embedded(report: &Report, first_in_full: usize) -> String {
    let mut rules = BTreeMap::new();
    let mut room = MOST_DATA_BYTES;
    let mut sessions = Vec::new();
    for (place, told) in report.sessions.iter().enumerate().rev() {
        let mut session = data::session(told, report.pool);
        let Some(map) = session.as_object_mut() else { continue };
        for unused in ["series", "limits", "counts", "cancel_ledger", "tasks", "progress_tokens", "streams", "knows"] {
            map.remove(unused);
        }
        map.insert("requests".into(), json!(told.judged.requests()));
        if let Some(growth) = map.get_mut("growth").and_then(Value::as_object_mut) {
            growth.remove("gauges");
        }
        if place < first_in_full {
            map.insert("findings".into(), json!([]));
            map.insert("methods".into(), json!([]));
        }
        if let Some(findings) = map.get_mut("findings").and_then(Value::as_array_mut) {
            for (place, found) in findings.iter_mut().enumerate() {
                let rule = told.judged.findings[place].rule;
                rules.insert(rule.name, json!({ "title": rule.title, "explanation": rule.explanation }));
                found["transcript"] = json!(told.transcripts.get(place));
            }
        }
        let mut session = shown(session);
        // A hostile peer can name a million methods; the page shows as many as it has room for.
        for list in ["methods", "findings"] {
            let items = session[list].as_array_mut().map(std::mem::take).unwrap_or_default();
            let kept = items.into_iter().take_while(|item| {
                let size = item.to_string().len();
                let fits = size <= room;
                room = room.saturating_sub(size);
                fits
            });
            session[list] = Value::Array(kept.collect());
        }
        sessions.push(session);
    }
    sessions.reverse();
    let releases = servers::releases(&report.sessions);
    let servers: Vec<Value> = releases
        .iter()
        .map(|release| {
            let mut value = data::release(release);
            value["against_the_release_before"] = json!(release.change.map(servers::Change::words));
            value["course"] = json!(course(&release.rates));
            shown(value)
        })
        .collect();
    let value = json!({ "sessions": sessions, "servers": servers, "rules": rules });
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out
}

/// The same value with every text made safe to look at.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(safe::safe_block(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(shown).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (safe::safe(&key).into_owned(), shown(value))).collect())
        }
        other => other,
    }
}
