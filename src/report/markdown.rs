//! The report for pasting into an issue: short, and neutral to what the wire holds (pipes, backticks, HTML, mentions).

use std::fmt::Write;

use super::text::{course, target_words, who};
use super::words::{count, counted, duration, percent};
use super::{Look, Report, Told, growth_words, label, safe, servers, words};
use crate::error::Result;
use crate::event::Micros;
use crate::exchange::{CancelEnd, CancelTarget, Outcome};
use crate::finding::sessions::kept;

const MOST_METHODS: usize = 30;
const MOST_SESSIONS: usize = 10;

pub fn render(report: &Report, _: Look) -> Result<String> {
    let mut out = String::new();
    if report.sessions.is_empty() {
        out.push_str("No sessions.\n");
    }
    let shown = report.sessions.len().saturating_sub(MOST_SESSIONS);
    if report.sessions.len() > 1 {
        releases(&mut out, &report.sessions);
        if shown > 0 {
            let _ = writeln!(out, "The latest {MOST_SESSIONS} of {} sessions follow.\n", report.sessions.len());
        }
    }
    for told in &report.sessions[shown..] {
        session(&mut out, told, report.pool);
    }
    Ok(out)
}

/// Text from the wire as plain words: nothing in it is Markdown, HTML, a link or a mention.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in safe::safe(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Shown as they are, but no longer the start of a mention, a reference or an address.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            ':' => out.push_str("&#58;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '-' | '!' | '|' | '~' | '$' | '^'
            | '=' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    // `www.` and `name.tld` become links on some sites; a dot as an entity does not.
    out.replace("www.", "www&#46;")
}

/// A transcript as a block of code, fenced with more backticks than it holds.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", safe::safe_block(text.trim_end()))
}

fn session(out: &mut String, told: &Told, pool: Option<u64>) {
    let judged = &told.judged;
    let timed = judged.session.knows.times;
    let _ = writeln!(out, "### rpctap: {}\n", plain(&safe::clip(&judged.session.name, 80)));
    let mut facts = vec![judged.protocol.dialect.words(), counted(judged.requests(), "request", "requests")];
    for (who, program) in [("client", &told.peers.client), ("server", &told.peers.server)] {
        if let Some(program) = program {
            facts.push(format!("{who} {}", plain(&safe::clip(&program.words(), 60))));
        }
    }
    if let (true, Some(first), Some(last)) = (timed, judged.first_at, judged.last_at) {
        facts.push(format!("{} from {}", duration(last - first), words::date_time(first)));
    }
    let _ = writeln!(out, "{}\n", facts.join(" · "));
    let (hanging, all) = (told.hanging(), judged.requests());
    let _ = writeln!(out, "- **Orphaned requests: {}** of {} ({})", count(hanging), count(all), percent(hanging, all));
    let cancels = &judged.cancels;
    let _ =
        writeln!(out, "- **Unresolved cancels: {}** of {}", count(told.unresolved_cancels()), count(cancels.total()));
    for verdict in &cancels.verdicts {
        let _ = writeln!(
            out,
            "  - {} {}: {} in {}. {}",
            count(verdict.count),
            verdict.end.name(),
            verdict.judgement,
            verdict.dialect.words(),
            verdict.consequence
        );
    }
    let others: Vec<String> = CancelEnd::ALL
        .into_iter()
        .filter(|end| !matches!(end, CancelEnd::Silent | CancelEnd::Ignored) && cancels.end(*end) > 0)
        .map(|end| format!("{} {}", count(cancels.end(end)), end.name()))
        .chain(
            CancelTarget::ALL
                .into_iter()
                .filter(|target| *target != CancelTarget::Open && cancels.target(*target) > 0)
                .map(|target| format!("{} {}", count(cancels.target(target)), target_words(target))),
        )
        .collect();
    if !others.is_empty() {
        let _ = writeln!(out, "  - the others: {}", others.join(", "));
    }
    let _ = writeln!(out, "- **Leaked work: {}**; {}", count(told.leaked()), growth_words::sentence(judged));
    if let Some(carriers) = growth_words::carriers(judged) {
        let _ = writeln!(out, "  - {}", plain(&carriers));
    }
    if let Some(size) = pool {
        let forecast = crate::exchange::trend::forecast(&judged.series, &judged.trend, size);
        let _ = writeln!(out, "  - {}", growth_words::pool(judged, size, &forecast));
    }
    out.push('\n');
    findings(out, told);
    methods(out, told);
    for note in &judged.notes {
        let _ = writeln!(out, "> note: {}\n", plain(&note.text));
    }
}

fn findings(out: &mut String, told: &Told) {
    if told.judged.findings.is_empty() {
        out.push_str("No findings.\n\n");
        return;
    }
    out.push_str("| # | severity | rule | count | where | fault |\n| --: | --- | --- | --: | --- | --- |\n");
    for (place, finding) in told.judged.findings.iter().enumerate() {
        let on = finding
            .method
            .as_deref()
            .map_or(String::new(), |method| plain(&safe::clip(&label(method, finding.tool.as_deref()), 80)));
        let _ = writeln!(
            out,
            "| {} | {} | `{}` | {} | {on} | {} |",
            place + 1,
            finding.severity.name(),
            finding.rule.name,
            count(finding.count),
            finding.fault.name()
        );
    }
    out.push('\n');
    for (place, finding) in told.judged.findings.iter().enumerate() {
        let _ = writeln!(out, "{}. {}\n", place + 1, plain(&finding.sentence()));
        if let Some(transcript) = told.transcripts.get(place).filter(|transcript| !transcript.is_empty()) {
            let _ = writeln!(
                out,
                "<details><summary>the events that prove it</summary>\n\n{}\n</details>\n",
                fenced(transcript)
            );
        }
    }
}

fn methods(out: &mut String, told: &Told) {
    let methods = &told.judged.methods;
    if methods.is_empty() {
        return;
    }
    out.push_str("| method | requests | answered | cancelled | hanging | median | 99 % | slowest |\n");
    out.push_str("| --- | --: | --: | --: | --: | --: | --: | --: |\n");
    for method in methods.iter().take(MOST_METHODS) {
        let timed = told.judged.session.knows.times;
        let time = |micros: Option<Micros>| micros.filter(|_| timed).map_or("".to_string(), duration);
        let name = who(method.asked_by, &label(&method.method, method.tool.as_deref()));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            plain(&safe::clip(&name, 80)),
            count(method.count),
            count(method.outcomes.sum(Outcome::was_answered)),
            count(method.outcomes.sum(Outcome::was_cancelled)),
            count(method.outcomes.sum(Outcome::was_left_hanging)),
            time(method.latency.median()),
            time(method.latency.percentile(99.0)),
            time(method.latency.max()),
        );
    }
    if methods.len() > MOST_METHODS {
        let _ = writeln!(out, "\nand {} more methods", methods.len() - MOST_METHODS);
    }
    out.push('\n');
}

fn releases(out: &mut String, sessions: &[Told]) {
    out.push_str("| server | version | sessions | requests | leaked | per 100 requests | |\n");
    out.push_str("| --- | --- | --: | --: | --: | --: | --- |\n");
    for release in servers::releases(sessions) {
        let change = release.change.map_or("", servers::Change::words);
        let course = course(&release.rates).unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {change} {course} |",
            plain(&safe::clip(&release.server, 60)),
            plain(&safe::clip(release.version.as_deref().unwrap_or(""), 40)),
            count(release.sessions),
            count(release.requests),
            count(release.leaked),
            words::rough(release.per_hundred()),
        );
    }
    out.push('\n');
    for kept in kept(sessions.iter().map(|told| &told.judged)) {
        let (opened, target) = (count(kept.opened), plain(&safe::clip(&kept.target, 60)));
        let _ = writeln!(out, "HTTP sessions of {target}: {opened} opened, {}.\n", growth_words::http_sessions(&kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_the_wire_is_markup() {
        let hostile = "a|b `c` <img src=x onerror=alert(1)> @octocat #1 [x](http://e.com) **b**\n# title\u{202e}";
        let shown = plain(hostile);
        for markup in ["<img", "@octocat", " #1", "](", "http://", "**b", "\n", "\u{202e}"] {
            assert!(!shown.contains(markup), "{markup:?} in {shown}");
        }
        // Every pipe and backtick is escaped, or a cell would end in it.
        for sign in ['|', '`'] {
            assert!(shown.match_indices(sign).all(|(at, _)| shown[..at].ends_with('\\')), "{shown}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_any_in_its_text() {
        let block = fenced("a\n````\nb");
        assert!(block.starts_with("`````text\n") && block.ends_with("`````\n"));
    }
}
