//! The report for programs: one JSON object, its shape told by `version`.
//!
//! Keys and names stay as they are within a version; new ones may be added. Times are UTC text, durations
//! milliseconds with their unit in the name; what a recording cannot know is `null`.

use serde_json::{Map, Value, json};

use super::{Look, Report, Told, safe, servers, words};
use crate::error::Result;
use crate::event::{Micros, Side, Source};
use crate::exchange::series::{LeakKind, Track, View};
use crate::exchange::trend::{self, Forecast};
use crate::exchange::{CancelEnd, CancelTarget, Latency, Outcomes};
use crate::finding::sessions::{Kept, kept};
use crate::finding::{Ended, Figure, Finding, Judged, Ledger, NoteKind};

/// Raised when a name changes its meaning or goes away.
pub const VERSION: u64 = 1;

pub fn render(report: &Report, _: Look) -> Result<String> {
    let mut out = String::new();
    write(&mut out, &value(report), 0);
    out.push('\n');
    Ok(shown(&out))
}

/// JSON may hold what a terminal obeys (C1 controls, bidi overrides) as it is; written as escapes it means the same.
fn shown(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && safe::must_show(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// Indented, but lists of plain values on one line: a row of a table stays a row.
fn write(out: &mut String, value: &Value, depth: usize) {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let open = |out: &mut String, first: bool, end: bool| {
        if !first && !end {
            out.push(',');
        }
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", if end { depth } else { depth + 1 }));
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('{');
            for (place, (key, value)) in map.iter().enumerate() {
                open(out, place == 0, false);
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                write(out, value, depth + 1);
            }
            open(out, false, true);
            out.push('}');
        }
        Value::Array(items) if !items.iter().all(is_plain) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                open(out, place == 0, false);
                write(out, item, depth + 1);
            }
            open(out, false, true);
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

pub fn value(report: &Report) -> Value {
    json!({
        "version": VERSION,
        "tool": { "name": "rpctap", "version": env!("CARGO_PKG_VERSION") },
        "source": report.source,
        "totals": {
            "sessions": report.sessions.len(),
            "requests": report.sessions.iter().map(|told| told.judged.requests()).sum::<u64>(),
            "orphaned_requests": report.sessions.iter().map(Told::hanging).sum::<u64>(),
            "unresolved_cancels": report.sessions.iter().map(Told::unresolved_cancels).sum::<u64>(),
            "leaked_work": report.sessions.iter().map(Told::leaked).sum::<u64>(),
            "findings": report.sessions.iter().map(|told| told.judged.findings.len()).sum::<usize>(),
            "http_sessions": kept(report.sessions.iter().map(|told| &told.judged))
                .iter()
                .map(http_sessions)
                .collect::<Vec<_>>(),
        },
        "servers": servers::releases(&report.sessions).iter().map(release).collect::<Vec<_>>(),
        "sessions": report.sessions.iter().map(|told| session(told, report.pool)).collect::<Vec<_>>(),
        "remarks": report.remarks,
    })
}

fn http_sessions(kept: &Kept) -> Value {
    json!({
        "target": kept.target,
        "opened": kept.opened,
        "ended": kept.ended,
        "never_ended": kept.never_ended,
        "in_use": kept.in_use,
        "growth": kept.trend.growth.name(),
        "per_hour": kept.trend.per_hour,
    })
}

pub fn release(release: &servers::Release) -> Value {
    json!({
        "server": release.server,
        "version": release.version,
        "sessions": release.sessions,
        "requests": release.requests,
        "orphaned_requests": release.hanging,
        "leaked_work": release.leaked,
        "leaked_per_hundred_requests": release.per_hundred(),
        "by_session": release.rates,
        "against_the_release_before": release.change.map(servers::Change::name),
    })
}

pub fn session(told: &Told, pool: Option<u64>) -> Value {
    let judged = &told.judged;
    let timed = judged.session.knows.times;
    let source = match &judged.session.source {
        Source::Stdio => "stdio".to_string(),
        Source::Http => "http".to_string(),
        Source::Import(format) => format!("import:{format}"),
    };
    let program = |program: &Option<super::peers::Program>| {
        program.as_ref().map(|program| json!({ "name": program.name, "version": program.version }))
    };
    json!({
        "number": told.number,
        "name": judged.session.name,
        "source": source,
        "target": judged.session.target,
        "started_at": moment(judged.first_at, timed),
        "ended_at": moment(judged.last_at, timed),
        "ended_by": match judged.ended {
            Ended::No => Value::Null,
            Ended::ByClient(_) => json!("client"),
            Ended::ByServer(_) => json!("server"),
        },
        "http_session": judged.http_session.map(|session| session.end.name()),
        "protocol": {
            "name": judged.protocol.dialect.name(),
            "version": judged.protocol.version.as_deref().or(judged.protocol.dialect.version()),
            "recognised_by": judged.protocol.recognised_by,
            "also": judged.protocol.also.iter().map(|dialect| dialect.flag()).collect::<Vec<_>>(),
        },
        "client": program(&told.peers.client),
        "server": program(&told.peers.server),
        "counts": counts(judged),
        "outcomes": {
            "client": outcomes(judged.outcomes(Side::Client)),
            "server": outcomes(judged.outcomes(Side::Server)),
        },
        "methods": judged.methods.iter().map(|method| json!({
            "asked_by": method.asked_by.name(),
            "method": method.method,
            "tool": method.tool,
            "count": method.count,
            "outcomes": outcomes(&method.outcomes),
            "latency_ms": latency(&method.latency, timed),
        })).collect::<Vec<_>>(),
        "cancels": CancelEnd::ALL.iter().filter(|end| judged.cancels.end(**end) > 0)
            .map(|end| (end.name().to_string(), json!(judged.cancels.end(*end)))).collect::<Map<_, _>>(),
        "cancel_ledger": cancel_ledger(judged, timed),
        "tasks": ledger(&judged.tasks, timed, |end| end.name()),
        "progress_tokens": ledger(&judged.tokens, timed, |end| end.name()),
        "streams": ledger(&judged.streams, timed, |end| end.name()),
        "orphaned_requests": told.hanging(),
        "unresolved_cancels": told.unresolved_cancels(),
        "leaked_work": told.leaked(),
        "growth": growth(judged, pool),
        "findings": judged.findings.iter().enumerate()
            .map(|(place, found)| finding(place + 1, found, timed)).collect::<Vec<_>>(),
        "limits": limits(judged),
        "knows": judged.session.knows,
        "notes": judged.notes.iter().map(|note| json!({
            "kind": match note.kind {
                NoteKind::Capture => "capture",
                NoteKind::Protocol => "protocol",
                NoteKind::Hint => "hint",
                NoteKind::Log => "log",
            },
            "text": note.text,
        })).collect::<Vec<_>>(),
        "series": series(judged),
    })
}

fn moment(at: Option<Micros>, timed: bool) -> Value {
    at.filter(|_| timed).map_or(Value::Null, |at| json!(words::timestamp(at)))
}

fn millis(micros: Option<Micros>) -> Value {
    micros.map_or(Value::Null, |micros| json!(micros as f64 / 1e3))
}

fn outcomes(outcomes: &Outcomes) -> Value {
    outcomes.iter().map(|(outcome, count)| (outcome.name().to_string(), json!(count))).collect::<Map<_, _>>().into()
}

fn latency(latency: &Latency, timed: bool) -> Value {
    if latency.count() == 0 || !timed {
        return Value::Null;
    }
    json!({
        "count": latency.count(),
        "mean": millis(latency.mean()),
        "p50": millis(latency.percentile(50.0)),
        "p90": millis(latency.percentile(90.0)),
        "p99": millis(latency.percentile(99.0)),
        "max": millis(latency.max()),
    })
}

fn counts(judged: &Judged) -> Value {
    let counts = &judged.counts;
    let both = |pair: [u64; 2]| json!({ "client": pair[0], "server": pair[1] });
    json!({
        "events": counts.events,
        "requests": both(counts.requests),
        "notifications": both(counts.notifications),
        "responses": both(counts.responses),
        "unreadable": both(counts.unreadable),
        "bytes": both(counts.bytes),
        "batches": both(counts.batches),
        "faults": both(counts.faults),
        "stderr_lines": counts.stderr_lines,
        "losses": counts.losses,
        "lost_events": counts.lost_events,
        "lost_bytes": counts.lost_bytes,
        "strays": counts.strays,
        "carriers": counts.carriers,
    })
}

fn cancel_ledger(judged: &Judged, timed: bool) -> Value {
    let cancels = &judged.cancels;
    json!({
        "sent": { "client": cancels.sent[0], "server": cancels.sent[1] },
        "named": CancelTarget::ALL.iter().filter(|target| cancels.target(**target) > 0)
            .map(|target| (target.name().to_string(), json!(cancels.target(*target)))).collect::<Map<_, _>>(),
        "settling_ms": latency(&cancels.settling, timed),
        "verdicts": cancels.verdicts.iter().map(|verdict| json!({
            "protocol": verdict.dialect.flag(),
            "came_of_it": verdict.end.name(),
            "count": verdict.count,
            "judgement": verdict.judgement,
            "consequence": verdict.consequence,
        })).collect::<Vec<_>>(),
    })
}

fn ledger<End: PartialEq>(ledger: &Ledger<End>, timed: bool, name: impl Fn(&End) -> &'static str) -> Value {
    json!({
        "opened": ledger.opened,
        "ends": ledger.ends.iter().map(|(end, count)| (name(end).to_string(), json!(count))).collect::<Map<_, _>>(),
        "most_at_once": ledger.peak,
        "lifetime_ms": latency(&ledger.lifetime, timed),
    })
}

fn growth(judged: &Judged, pool: Option<u64>) -> Value {
    let trend = &judged.trend;
    let timed = judged.session.knows.times;
    json!({
        "verdict": trend.growth.name(),
        "basis": trend.basis.name(),
        "rise": trend.rise,
        "since": moment(trend.since, timed),
        "until": moment(trend.until, timed),
        "per_hour": trend.per_hour,
        "per_hundred_requests": trend.per_hundred_requests,
        "chance": trend.chance,
        "carriers": trend.carriers.iter().map(|carrier| json!({
            "method": carrier.method, "tool": carrier.tool, "leaked": carrier.leaked,
        })).collect::<Vec<_>>(),
        "gauges": judged.series.gauge_names().iter().map(|name| json!({
            "name": name,
            "first": judged.series.gauge(name).first().map(|reading| reading.1),
            "last": judged.series.gauge_last(name),
            "correlation": trend::correlation(&judged.series, name),
            "readings": judged.series.gauge(name).iter()
                .map(|(at, value)| json!([moment(Some(*at), timed), value])).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "pool": pool.map(|size| match trend::forecast(&judged.series, trend, size) {
            Forecast::Exhausted { at } => json!({ "size": size, "forecast": "exhausted", "at": moment(Some(at), timed) }),
            Forecast::Expected { at, requests } => json!({
                "size": size, "forecast": "expected", "at": moment(at, timed), "requests_to_come": requests,
            }),
            Forecast::NotInSight => json!({ "size": size, "forecast": "not-in-sight" }),
        }),
    })
}

pub fn finding(number: usize, finding: &Finding, timed: bool) -> Value {
    json!({
        "number": number,
        "rule": finding.rule.name,
        "severity": finding.severity.name(),
        "fault": finding.fault.name(),
        "asked_by": finding.asked_by.map(Side::name),
        "method": finding.method,
        "tool": finding.tool,
        "subject": finding.subject(),
        "subjects": finding.subjects,
        "count": finding.count,
        "events": finding.events,
        "protocol": finding.dialect.flag(),
        "first_at": moment(Some(finding.first_at), timed),
        "last_at": moment(Some(finding.last_at), timed),
        "sentence": finding.sentence(),
        "figures": finding.figures.iter().map(|(name, figure)| {
            let value = match figure {
                Figure::Count(count) => json!(count),
                Figure::Duration(micros) => json!({ "ms": *micros as f64 / 1e3 }),
                Figure::Text(text) => json!(text),
            };
            ((*name).to_string(), value)
        }).collect::<Map<_, _>>(),
    })
}

fn limits(judged: &Judged) -> Value {
    let limits = &judged.limits;
    json!({
        "deadline_ms": limits.deadline_ms,
        "race_window_ms": limits.race_window_ms,
        "drain_ms": limits.drain_ms,
        "give_ups_in_a_row": limits.give_ups_in_a_row,
        "give_up_spread_percent": limits.give_up_spread_percent,
        "task_polls_missed": limits.task_polls_missed,
        "task_poll_ms": limits.task_poll_ms,
        "task_cancel_ms": limits.task_cancel_ms,
        "cancel_policy": limits.cancel_policy.name(),
    })
}

/// The curves, one row for each moment at which something happened.
fn series(judged: &Judged) -> Value {
    let series = &judged.series;
    let mut columns = vec!["after_ms".to_string(), "requests".to_string()];
    columns.extend(Track::ALL.iter().map(|track| format!("open:{}", track.name())));
    columns.extend(Track::ALL.iter().map(|track| format!("most_open:{}", track.name())));
    let points = series.points(View::Opened);
    let kinds: Vec<LeakKind> = LeakKind::ALL
        .into_iter()
        .filter(|kind| points.last().is_some_and(|last| last.leaked[*kind as usize] > 0))
        .collect();
    columns.extend(kinds.iter().map(|kind| format!("leaked:{}", kind.name())));
    let rows: Vec<Value> = points
        .iter()
        .map(|point| {
            let mut row = vec![json!((point.at - series.starts_at()) as f64 / 1e3), json!(point.asked)];
            row.extend(point.open.iter().map(|level| json!(level.last)));
            row.extend(point.open.iter().map(|level| json!(level.high)));
            row.extend(kinds.iter().map(|kind| json!(point.leaked[*kind as usize])));
            Value::Array(row)
        })
        .collect();
    json!({ "leaks_count_from": "opened", "bucket_ms": series.bucket_micros() as f64 / 1e3, "columns": columns, "rows": rows })
}
