//! One session in full: three headlines, what carries them, findings, methods, the way to see more.

use super::{HEADING, Page, QUIET, quoted, severity_style, target_words, who};
use crate::event::{Micros, Side, Source};
use crate::exchange::series::{LeakKind, View};
use crate::exchange::trend::{self, Growth};
use crate::exchange::{CancelEnd, CancelTarget, Outcome};
use crate::finding::{Ended, Finding, MethodFacts, Severity};
use crate::report::safe::{clip, pad, safe, width};
use crate::report::words::{count, counted, duration, percent};
use crate::report::{Report, Told, growth_words, label, peers, samples, words};

/// Rows of a group before the rest is summed up.
const MOST_ROWS: usize = 8;
const MOST_FINDINGS: usize = 12;

impl Page {
    pub(super) fn session(&mut self, told: &Told, report: &Report) {
        self.tapped(told);
        self.line("");
        self.orphaned(told);
        self.cancels(told);
        self.leaks(told, report.pool);
        self.findings(told);
        self.methods(told);
        self.notes(told);
        self.more(told, report);
    }

    fn tapped(&mut self, told: &Told) {
        let judged = &told.judged;
        let name = self.painted(&clip(&judged.session.name, 80), HEADING);
        let how = match &judged.session.source {
            Source::Stdio => "recorded from".to_string(),
            Source::Http => "proxied to".to_string(),
            Source::Import(format) => format!("read as {format} from"),
        };
        let number = told.number.map_or(String::new(), |number| format!("session {number}: "));
        self.line(&format!("{number}{name}  {} {}", safe(&how), clip(&judged.session.target, 90)));
        let mut facts = vec![judged.protocol.dialect.words()];
        if let (Some(written), None) = (&judged.protocol.version, judged.protocol.dialect.version()) {
            facts[0] += &format!(" {}", clip(written, 24));
        }
        let program = |program: &peers::Program| clip(&program.words(), 40);
        match (&told.peers.client, &told.peers.server) {
            (Some(client), Some(server)) => facts.push(format!("{} → {}", program(client), program(server))),
            (None, Some(server)) => facts.push(format!("server {}", program(server))),
            (Some(client), None) => facts.push(format!("client {}", program(client))),
            (None, None) => {}
        }
        let asked = [Side::Client, Side::Server].map(|side| judged.outcomes(side).total());
        facts.push(match asked {
            [client, 0] => counted(client, "request", "requests"),
            [client, server] => format!("{} requests by the client, {} by the server", count(client), count(server)),
        });
        if let (true, Some(first), Some(last)) = (judged.session.knows.times, judged.first_at, judged.last_at) {
            facts.push(format!("{} from {}", duration(last - first), words::date_time(first)));
        }
        facts.push(
            match judged.ended {
                Ended::No => "no end on record",
                Ended::ByClient(_) => "ended by the client",
                Ended::ByServer(_) => "ended by the server",
            }
            .to_string(),
        );
        let facts = facts.join(" · ");
        self.wrapped(0, &facts);
    }

    fn orphaned(&mut self, told: &Told) {
        let hanging = told.hanging();
        let all = told.judged.requests();
        let said = match (hanging, all) {
            (_, 0) => "no requests".to_string(),
            (0, _) => {
                let waiting: u64 = told.judged.outcomes.iter().map(|outcomes| outcomes.get(Outcome::InFlight)).sum();
                match waiting {
                    0 => "none was left hanging".to_string(),
                    some => format!("none was left hanging; {} still in flight at the end", count(some)),
                }
            }
            _ => format!("left hanging, of {} ({})", counted(all, "request", "requests"), percent(hanging, all)),
        };
        let bad = (hanging > 0).then(|| {
            let proven = |finding: &&Finding| finding.severity == Severity::Leak;
            if told.judged.findings.iter().any(|finding| proven(&finding)) { Severity::Leak } else { Severity::Suspect }
        });
        self.headline("Orphaned requests", hanging, bad, &said);
        let mut groups: Vec<&MethodFacts> =
            told.judged.methods.iter().filter(|method| method.outcomes.sum(Outcome::was_left_hanging) > 0).collect();
        groups.sort_by_key(|method| std::cmp::Reverse(method.outcomes.sum(Outcome::was_left_hanging)));
        for method in groups.iter().take(MOST_ROWS) {
            let ends: Vec<String> = method
                .outcomes
                .iter()
                .filter(|(outcome, _)| outcome.was_left_hanging())
                .map(|(outcome, number)| format!("{} {}", count(number), outcome.name()))
                .collect();
            let of = format!("{}, of {}", ends.join(", "), count(method.count));
            let name = who(method.asked_by, &label(&method.method, method.tool.as_deref()));
            let number = count(method.outcomes.sum(Outcome::was_left_hanging));
            self.line(&format!("{number:>26}  {}  {of}", clip(&name, 60)));
        }
        self.rest(groups.len());
    }

    fn rest(&mut self, shown: usize) {
        if shown > MOST_ROWS {
            self.line(&format!("{:26}  and {} more", "", shown - MOST_ROWS));
        }
    }

    fn cancels(&mut self, told: &Told) {
        let cancels = &told.judged.cancels;
        let unresolved = told.unresolved_cancels();
        let total = cancels.total();
        let said = match total {
            0 => "no cancel was sent".to_string(),
            _ => format!("came to nothing, of {}", counted(total, "cancel", "cancels")),
        };
        let wrong = told
            .judged
            .findings
            .iter()
            .find(|finding| finding.rule.name.starts_with("cancel") && finding.severity >= Severity::Suspect);
        let bad = wrong.map(|finding| finding.severity).filter(|_| unresolved > 0);
        self.headline("Unresolved cancels", unresolved, bad, &said);
        if total == 0 {
            return;
        }
        for verdict in &cancels.verdicts {
            let text = format!(
                "{} {}: {} in {}{}{}",
                count(verdict.count),
                verdict.end.name(),
                verdict.judgement,
                verdict.dialect.words(),
                if verdict.consequence.is_empty() { "" } else { "; " },
                verdict.consequence
            );
            self.wrapped(28, &text);
        }
        let told_of = |end: CancelEnd| cancels.verdicts.iter().any(|verdict| verdict.end == end);
        let others: Vec<String> = CancelEnd::ALL
            .into_iter()
            .filter(|end| !told_of(*end) && cancels.end(*end) > 0)
            .map(|end| format!("{} {}", count(cancels.end(end)), end.name()))
            .collect();
        if !others.is_empty() {
            self.wrapped(28, &format!("the others: {}", others.join(", ")));
        }
        if let (true, Some(half), Some(nearly)) =
            (told.judged.session.knows.times, cancels.settling.median(), cancels.settling.percentile(99.0))
        {
            let settled = count(cancels.settling.count());
            let text = format!("{settled} settled within {} (median), {} (99 %)", duration(half), duration(nearly));
            self.wrapped(28, &text);
        }
        let odd: Vec<String> = CancelTarget::ALL
            .into_iter()
            .filter(|target| *target != CancelTarget::Open && cancels.target(*target) > 0)
            .map(|target| format!("{} {}", count(cancels.target(target)), target_words(target)))
            .collect();
        if !odd.is_empty() {
            self.wrapped(28, &format!("of them {}", odd.join(", ")));
        }
    }

    fn leaks(&mut self, told: &Told, pool: Option<u64>) {
        let leaked = told.leaked();
        let judged = &told.judged;
        let growing = judged.trend.growth == Growth::Growing;
        let bad = match leaked {
            0 => growing.then_some(Severity::Suspect),
            _ => Some(Severity::Leak),
        };
        let said = match (leaked, judged.trend.growth) {
            (0, Growth::None | Growth::TooShort) => "nothing leaked that the wire shows".to_string(),
            (0, _) => format!("nothing proven leaked, yet {}", growth_words::sentence(judged)),
            _ => growth_words::sentence(judged),
        };
        self.headline("Leaked work", leaked, bad, &said);
        if leaked > 0 {
            let last = judged.series.points(View::Opened).pop();
            let kinds: Vec<String> = LeakKind::ALL
                .into_iter()
                .filter_map(|kind| last.as_ref().map(|last| (kind, last.leaked[kind as usize])))
                .filter(|(_, number)| *number > 0)
                .map(|(kind, number)| format!("{} {}", count(number), kind.name()))
                .collect();
            self.wrapped(28, &kinds.join(", "));
        }
        if let Some(carriers) = growth_words::carriers(judged) {
            self.wrapped(28, &safe(&carriers));
        }
        if let Some(size) = pool {
            let forecast = trend::forecast(&judged.series, &judged.trend, size);
            self.wrapped(28, &growth_words::pool(judged, size, &forecast));
        }
        for name in samples::telling(&judged.series) {
            let readings = judged.series.gauge(name);
            let (Some((_, first)), Some(last)) = (readings.first(), judged.series.gauge_last(name)) else { continue };
            let said = |value: f64| samples::value_words(name, value);
            let moves = trend::correlation(&judged.series, name);
            let moves = moves.map_or(String::new(), |r| format!(", correlation with the leak {r:.2}"));
            self.wrapped(28, &format!("{}: {} → {}{moves}", safe(&samples::title(name)), said(*first), said(last)));
        }
    }

    fn findings(&mut self, told: &Told) {
        let findings = &told.judged.findings;
        if findings.is_empty() {
            return;
        }
        self.line("");
        let title = self.painted("Findings", HEADING);
        self.line(&title);
        for (place, finding) in findings.iter().take(MOST_FINDINGS).enumerate() {
            let severity = self.painted(&pad(finding.severity.name(), 9), severity_style(finding.severity));
            let rule = self.painted(finding.rule.name, HEADING);
            let on = finding.method.as_deref().map_or(String::new(), |method| {
                let name = label(method, finding.tool.as_deref());
                let name = finding.asked_by.map_or(name.clone(), |side| who(side, &name));
                format!("  {}", clip(&name, 60))
            });
            self.line(&format!("{:>4}  {severity} {rule} × {}{on}", place + 1, count(finding.count)));
            self.wrapped(16, &safe(&finding.sentence()));
        }
        if findings.len() > MOST_FINDINGS {
            self.line(&format!("      and {} more (--format json has them all)", findings.len() - MOST_FINDINGS));
        }
    }

    fn methods(&mut self, told: &Told) {
        let methods = &told.judged.methods;
        let timed = told.judged.session.knows.times;
        if methods.is_empty() {
            return;
        }
        self.line("");
        let title = self.painted("Methods", HEADING);
        self.line(&title);
        let shown = methods.iter().take(MOST_ROWS);
        if self.look.columns.is_none() {
            for method in shown {
                self.out.push_str("  ");
                let line = method_line(method, timed);
                self.line(&line);
            }
        } else {
            let room = self.columns().saturating_sub(64).clamp(16, 60);
            let head = format!(
                "  {} {:>9} {:>9} {:>7} {:>9} {:>8} {:>9} {:>9}",
                pad("method", room),
                "requests",
                "answered",
                "failed",
                "cancelled",
                "hanging",
                "median",
                "99 %"
            );
            let head = self.painted(&head, QUIET);
            self.line(&head);
            for method in shown {
                let outcomes = &method.outcomes;
                let answered = outcomes.sum(Outcome::was_answered) - outcomes.get(Outcome::Failed);
                let time = |micros: Option<Micros>| micros.filter(|_| timed).map_or("-".to_string(), duration);
                let hanging = format!("{:>8}", count(outcomes.sum(Outcome::was_left_hanging)));
                let hanging = match outcomes.sum(Outcome::was_left_hanging) {
                    0 => hanging,
                    _ => self.painted(&hanging, severity_style(Severity::Leak)),
                };
                let name = who(method.asked_by, &label(&method.method, method.tool.as_deref()));
                self.line(&format!(
                    "  {} {:>9} {:>9} {:>7} {:>9} {hanging} {:>9} {:>9}",
                    pad(&name, room),
                    count(method.count),
                    count(answered),
                    count(outcomes.get(Outcome::Failed)),
                    count(outcomes.sum(Outcome::was_cancelled)),
                    time(method.latency.median()),
                    time(method.latency.percentile(99.0)),
                ));
            }
        }
        if methods.len() > MOST_ROWS {
            self.line(&format!("  and {} more", methods.len() - MOST_ROWS));
        }
    }

    fn notes(&mut self, told: &Told) {
        if told.judged.notes.is_empty() {
            return;
        }
        self.line("");
        for note in &told.judged.notes {
            self.wrapped(2, &format!("note: {}", safe(&note.text)));
        }
    }

    /// Commands that can be copied: exact, for this source and session.
    fn more(&mut self, told: &Told, report: &Report) {
        self.line("");
        let title = self.painted("To see more", HEADING);
        self.line(&title);
        let source = report.source.as_deref().map_or(String::new(), |source| format!(" {}", quoted(source)));
        let mut commands = Vec::new();
        if let Some(first) = told.judged.findings.first() {
            let show = match (&report.source, report.is_store) {
                (Some(path), true) => format!("{} --store {}", quoted(&told.handle()), quoted(path)),
                (Some(path), false) if report.sessions.len() > 1 => quoted(&format!("{path}#{}", told.place + 1)),
                (Some(path), false) => quoted(path),
                (None, _) => quoted(&told.handle()),
            };
            commands.push((format!("rpctap show {show} --finding 1"), "the events that prove it"));
            commands.push((format!("rpctap explain {}", first.rule.name), "what the rule says, and what to do"));
        }
        let session = match report.sessions.len() {
            1 if !report.is_store => String::new(),
            _ => format!(" --session {}", quoted(&told.handle())),
        };
        commands.push((format!("rpctap chart{source}{session} --output growth.svg"), "how it grew"));
        let page = format!("rpctap analyze{source}{session} --format html --output report.html");
        commands.push((page, "all of it, as a page"));
        let room = commands.iter().map(|(command, _)| width(command)).max().unwrap_or(0).min(72);
        for (command, why) in commands {
            let why = self.painted(&format!("# {why}"), QUIET);
            let gap = " ".repeat(room.saturating_sub(width(&command)));
            self.line(&format!("  {command}{gap}  {why}"));
        }
    }
}

fn method_line(method: &MethodFacts, timed: bool) -> String {
    let name = who(method.asked_by, &label(&method.method, method.tool.as_deref()));
    let ends: Vec<String> =
        method.outcomes.iter().map(|(outcome, number)| format!("{} {}", count(number), outcome.name())).collect();
    let mut line = format!("{}: {}", clip(&name, 100), ends.join(", "));
    if let (true, Some(half), Some(nearly), Some(slowest)) =
        (timed, method.latency.median(), method.latency.percentile(99.0), method.latency.max())
    {
        let (half, nearly, slowest) = (duration(half), duration(nearly), duration(slowest));
        line += &format!("; median {half}, 99 % {nearly}, slowest {slowest}");
    }
    line
}
