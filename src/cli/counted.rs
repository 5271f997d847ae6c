//! Sessions beyond those a report tells one by one: judged like all, and counted.

use crate::finding::{Finding, Severity};
use crate::report::Told;
use crate::report::words::counted;

/// Sessions told one by one: some tens of megabytes, where each is short.
pub const MOST_TOLD: usize = if cfg!(test) { 40 } else { 3_000 };

/// What is left of sessions that are not told.
#[derive(Default)]
pub struct Counted {
    sessions: u64,
    clean: u64,
    requests: u64,
    hanging: u64,
    leaked: u64,
    /// One finding of each rule and severity, for the exit code.
    pub findings: Vec<Finding>,
}

impl Counted {
    /// Takes some of the sessions out: those without a finding first, then the oldest.
    pub fn take_from(&mut self, done: &mut Vec<(usize, Box<Told>)>) {
        let clean = |told: &Told| told.judged.findings.is_empty() && told.hanging() == 0;
        let mut too_many = done.len().saturating_sub(MOST_TOLD / 4 * 3);
        for clean_only in [true, false] {
            done.retain(|(_, told)| {
                let goes = too_many > 0 && (!clean_only || clean(told));
                if goes {
                    too_many -= 1;
                    self.add(told, clean(told));
                }
                !goes
            });
        }
    }

    fn add(&mut self, told: &Told, clean: bool) {
        self.sessions += 1;
        self.clean += u64::from(clean);
        self.requests += told.judged.requests();
        self.hanging += told.hanging();
        self.leaked += told.leaked();
        let kind = |finding: &Finding| (finding.rule.name, finding.severity);
        for finding in &told.judged.findings {
            if !self.findings.iter().any(|known| kind(known) == kind(finding)) {
                self.findings.push(finding.clone());
            }
        }
    }

    /// What the report says of them.
    pub fn words(&self) -> Option<String> {
        let gravest =
            self.findings.iter().map(|finding| finding.severity).max().map_or("nothing found", Severity::name);
        (self.sessions > 0).then(|| {
            format!(
                "There are more sessions than are told one by one: {} ({} of them clean), with {}, {} left hanging and {} \
                 leaked (gravest: {gravest}), are judged and counted here only.",
                counted(self.sessions, "more session", "more sessions"),
                self.clean,
                counted(self.requests, "request", "requests"),
                self.hanging,
                self.leaked,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::transcript;
    use crate::finding::{Analyzer, Options};
    use crate::report::chart::Rows;
    use crate::report::peers::Peers;

    fn told(conversation: &str) -> Box<Told> {
        let talk = transcript::parse(conversation).expect("a conversation");
        let mut analyzer = Analyzer::new(&talk.collected.sessions[0], &Options::default());
        talk.collected.events.iter().for_each(|event| analyzer.feed(event, |_| {}));
        Box::new(Told::new(None, analyzer.finish(None), Rows::default(), Peers::default()))
    }

    #[test]
    fn the_clean_are_counted_first_and_what_is_found_is_kept() {
        let clean = "0s -> 1 a\n <- 1 result\n 1s |closed|";
        let leaks = "0s -> 1 a\n 1s -> 2 b\n <- 2 result\n 90s |closed|";
        let mut counted = Counted::default();
        assert_eq!(counted.words(), None);
        let mut done: Vec<(usize, Box<Told>)> = Vec::new();
        for place in 0..MOST_TOLD {
            done.push((place, told(if place % 4 == 0 { leaks } else { clean })));
        }
        counted.take_from(&mut done);
        assert_eq!((done.len(), counted.sessions, counted.clean), (MOST_TOLD / 4 * 3, 10, 10));
        assert!(counted.findings.is_empty());
        for place in 0..MOST_TOLD {
            done.push((place, told(leaks)));
        }
        counted.take_from(&mut done);
        assert_eq!((done.len(), counted.sessions, counted.clean), (MOST_TOLD / 4 * 3, 50, 30));
        assert_eq!((counted.requests, counted.hanging, counted.leaked), (30 + 20 * 2, 20, 20));
        assert!(counted.findings.iter().any(|finding| finding.severity == Severity::Leak));
        assert!(counted.words().is_some_and(|words| words.contains("50 more sessions (30 of them clean)")));
    }
}
