//! Sessions of one server side by side, release by release: did the last one leak more?

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Told;
use crate::event::Micros;

/// All sessions of one server in one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub server: String,
    pub version: Option<String>,
    pub sessions: u64,
    pub requests: u64,
    pub hanging: u64,
    pub leaked: u64,
    pub first_at: Micros,
    pub last_at: Micros,
    /// Leaks per hundred requests of each session, oldest first.
    pub rates: Vec<f64>,
    /// Against the release of the same server before it.
    pub change: Option<Change>,
}

impl Release {
    pub fn per_hundred(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.leaked as f64 * 100.0 / self.requests as f64 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    More,
    Less,
    Alike,
    TooFewToSay,
}

impl Change {
    pub fn name(self) -> &'static str {
        match self {
            Change::More => "more",
            Change::Less => "less",
            Change::Alike => "alike",
            Change::TooFewToSay => "too-few-to-say",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Change::More => "leaks more than the release before",
            Change::Less => "leaks less than the release before",
            Change::Alike => "leaks as much as the release before",
            Change::TooFewToSay => "too few requests to compare with the release before",
        }
    }
}

/// Groups by server (name and version), servers by name, releases in the order in which they were first seen.
pub fn releases(sessions: &[Told]) -> Vec<Release> {
    let mut releases: Vec<Release> = Vec::new();
    let mut places: HashMap<(String, Option<String>), usize> = HashMap::new();
    for told in sessions {
        let judged = &told.judged;
        let (server, version) = match &told.peers.server {
            Some(program) => (program.name.clone(), program.version.clone()),
            None => (judged.session.name.clone(), None),
        };
        let first_at = judged.first_at.unwrap_or(judged.session.started_at);
        let release = match places.entry((server, version)) {
            Entry::Occupied(place) => &mut releases[*place.get()],
            Entry::Vacant(place) => {
                let (server, version) = place.key().clone();
                place.insert(releases.len());
                releases.push(Release {
                    server,
                    version,
                    sessions: 0,
                    requests: 0,
                    hanging: 0,
                    leaked: 0,
                    first_at,
                    last_at: first_at,
                    rates: Vec::new(),
                    change: None,
                });
                releases.last_mut().expect("just pushed")
            }
        };
        let leaked = told.leaked();
        release.sessions += 1;
        release.requests += judged.requests();
        release.hanging += told.hanging();
        release.leaked += leaked;
        release.first_at = release.first_at.min(first_at);
        release.last_at = release.last_at.max(judged.last_at.unwrap_or(first_at));
        if judged.requests() > 0 {
            release.rates.push(leaked as f64 * 100.0 / judged.requests() as f64);
        }
    }
    releases.sort_by(|a, b| a.server.cmp(&b.server).then(a.first_at.cmp(&b.first_at)));
    for place in 1..releases.len() {
        let (before, rest) = releases.split_at_mut(place);
        let before = before.last().expect("one before");
        if before.server == rest[0].server {
            rest[0].change = Some(compare(before, &rest[0]));
        }
    }
    releases
}

/// Two shares of leaked requests, by the difference of proportions: alike unless it is surely not chance.
fn compare(before: &Release, after: &Release) -> Change {
    let (n, m) = (before.requests as f64, after.requests as f64);
    if before.requests < 20 || after.requests < 20 {
        return Change::TooFewToSay;
    }
    let (p, q) = ((before.leaked as f64 / n).min(1.0), (after.leaked as f64 / m).min(1.0));
    let pooled = (p * n + q * m) / (n + m);
    let spread = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    // 2.6: one comparison in a hundred of equals would be called different.
    match (q - p) / spread {
        z if z > 2.6 => Change::More,
        z if z < -2.6 => Change::Less,
        _ if p == q || spread > 0.0 => Change::Alike,
        _ => {
            if q > p {
                Change::More
            } else {
                Change::Less
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Leak, LeakKind, Outcome};
    use crate::finding::{Analyzer, Options};
    use crate::report::chart::Rows;
    use crate::report::chart::tests::session;
    use crate::report::peers::{Peers, Program};

    fn told(version: &str, at: Micros, requests: u64, leaks: u64) -> Told {
        let mut session = session("s");
        session.started_at = at;
        let mut judged = Analyzer::new(&session, &Options::default()).finish(None);
        judged.first_at = Some(at);
        judged.last_at = Some(at);
        for n in 0..requests {
            judged.outcomes[0].add(if n < leaks { Outcome::Orphaned } else { Outcome::Answered });
        }
        for n in 0..leaks {
            let at = at + n as i64;
            judged.series.leaked(Leak {
                kind: LeakKind::Orphaned,
                opened_at: at,
                certain_at: at,
                still_open: None,
                method: "m",
                tool: None,
            });
        }
        let server = Some(Program { name: "stress".into(), version: Some(version.into()) });
        Told::new(None, judged, Rows::default(), Peers { client: None, server })
    }

    #[test]
    fn the_last_release_is_held_against_the_one_before() {
        let all = [
            told("1.0", 0, 1_000, 1),
            told("1.0", 10, 1_000, 2),
            told("1.1", 20, 1_000, 40),
            told("1.2", 30, 1_000, 41),
            told("1.3", 40, 1_000, 0),
            told("1.4", 50, 5, 5),
        ];
        let releases = releases(&all);
        let changes: Vec<_> = releases.iter().map(|release| release.change).collect();
        use Change::*;
        assert_eq!(changes, [None, Some(More), Some(Alike), Some(Less), Some(TooFewToSay)]);
        assert_eq!((releases[0].sessions, releases[0].rates.len()), (2, 2));
        assert!((releases[1].per_hundred() - 4.0).abs() < 1e-9);
    }
}
