//! Many sessions: sums, servers release by release, and a row for each of the latest.

use super::{HEADING, Page, course, quoted, severity_style};
use crate::exchange::trend::Growth;
use crate::finding::Severity;
use crate::finding::sessions::kept;
use crate::report::safe::{clip, pad, width};
use crate::report::words::{count, counted};
use crate::report::{Report, Told, growth_words, servers, words};

/// Releases shown.
const MOST_RELEASES: usize = 16;

impl Page {
    pub(super) fn releases(&mut self, sessions: &[Told]) {
        let releases = servers::releases(sessions);
        self.line("");
        let title = self.painted("Servers", HEADING);
        self.line(&title);
        for release in releases.iter().take(MOST_RELEASES) {
            let version = release.version.as_deref().unwrap_or("");
            let name = clip(format!("{} {version}", release.server).trim_end(), 48);
            let change = release.change.map_or(String::new(), |change| format!("; {}", change.words()));
            let said = format!(
                "{}, {}, {} leaked ({} per 100 requests){change}",
                counted(release.sessions, "session", "sessions"),
                counted(release.requests, "request", "requests"),
                count(release.leaked),
                words::rough(release.per_hundred()),
            );
            let bad = release.change == Some(servers::Change::More);
            let said = if bad { self.painted(&said, severity_style(Severity::Leak)) } else { said };
            self.line(&format!("  {}  {said}", pad(&name, 30.max(width(&name)))));
            if let Some(course) = course(&release.rates) {
                self.line(&format!("  {:30}  {course}", ""));
            }
        }
    }

    /// Sessions with an id, over HTTP: how many were opened, and whether those that nobody ended pile up.
    fn http_sessions(&mut self, sessions: &[Told]) {
        let all = kept(sessions.iter().map(|told| &told.judged));
        for kept in &all {
            let growing = kept.trend.growth == Growth::Growing;
            let of = if all.len() > 1 { format!(" (of {})", clip(&kept.target, 48)) } else { String::new() };
            let said = format!("opened: {}{of}", growth_words::http_sessions(kept));
            self.headline("HTTP sessions", kept.opened, growing.then_some(Severity::Suspect), &said);
        }
    }

    pub(super) fn many(&mut self, report: &Report) {
        let sessions = &report.sessions;
        let sum = |of: &dyn Fn(&Told) -> u64| sessions.iter().map(of).sum::<u64>();
        let requests = sum(&|told| told.judged.requests());
        let source = report.source.as_deref().unwrap_or("the store");
        let title = self.painted(&clip(source, 80), HEADING);
        self.line(&format!(
            "{title}  {}, {}",
            counted(sessions.len() as u64, "session", "sessions"),
            counted(requests, "request", "requests")
        ));
        self.line("");
        let leak = |number: u64| (number > 0).then_some(Severity::Leak);
        let hanging = sum(&Told::hanging);
        let with = |of: &dyn Fn(&Told) -> u64| sessions.iter().filter(|told| of(told) > 0).count() as u64;
        let in_sessions = |of: &dyn Fn(&Told) -> u64| format!("in {}", counted(with(of), "session", "sessions"));
        self.headline("Orphaned requests", hanging, leak(hanging), &in_sessions(&Told::hanging));
        let cancels = sum(&|told| told.judged.cancels.total());
        let said = format!("came to nothing, of {}", counted(cancels, "cancel", "cancels"));
        self.headline("Unresolved cancels", sum(&Told::unresolved_cancels), None, &said);
        let mut judgements: Vec<(String, u64)> = Vec::new();
        for verdict in sessions.iter().flat_map(|told| &told.judged.cancels.verdicts) {
            let text = format!("{}: {} in {}", verdict.end.name(), verdict.judgement, verdict.dialect.words());
            match judgements.iter_mut().find(|(known, _)| *known == text) {
                Some((_, number)) => *number += verdict.count,
                None => judgements.push((text, verdict.count)),
            }
        }
        for (text, number) in judgements {
            self.wrapped(28, &format!("{} {text}", count(number)));
        }
        let leaked = sum(&Told::leaked);
        let growing = sessions.iter().filter(|told| told.judged.trend.growth == Growth::Growing).count() as u64;
        let said = format!("{}; growing in {}", in_sessions(&Told::leaked), count(growing));
        self.headline("Leaked work", leaked, leak(leaked), &said);
        self.http_sessions(sessions);
        self.releases(sessions);

        self.line("");
        let title = self.painted("Sessions", HEADING);
        self.line(&title);
        let shown = sessions.len().saturating_sub(20);
        if shown > 0 {
            self.line(&format!("  the latest 20 of {}", count(sessions.len() as u64)));
        }
        for told in &sessions[shown..] {
            let judged = &told.judged;
            let worst = judged.findings.iter().map(|finding| finding.severity).max();
            let worst =
                worst.map_or(pad("clean", 9), |worst| self.painted(&pad(worst.name(), 9), severity_style(worst)));
            let when = match (judged.session.knows.times, judged.first_at) {
                (true, Some(first)) => words::date_time(first),
                _ => String::new(),
            };
            self.line(&format!(
                "{:>5}  {worst} {}  {}, {} hanging, {} leaked  {when}",
                told.number.map_or(String::new(), |number| number.to_string()),
                pad(&judged.session.name, 28),
                counted(judged.requests(), "request", "requests"),
                count(told.hanging()),
                count(told.leaked()),
            ));
        }
        self.line("");
        let title = self.painted("To see more", HEADING);
        self.line(&title);
        let source = report.source.as_deref().map_or(String::new(), |source| format!(" {}", quoted(source)));
        self.line(&format!("  rpctap analyze{source} --session NUMBER-OR-NAME"));
        self.line(&format!("  rpctap analyze{source} --format html --output report.html"));
    }
}
