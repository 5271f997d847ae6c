//! What the user expects of a live run: `no-leaks`, `no-RULE`, `RULE`, `no-growth`.
//!
//! Comes in: the judgement of the live run. Goes out: for each expectation whether it holds, and the sentences
//! that say why not. Only the lifecycle counts: a mended server passes though its payloads changed. What the
//! script's own client does wrong is not held against the server.

use std::str::FromStr;

use super::play::{Round, Run};
use crate::finding::{Analyzer, Blame, Finding, Judged, Options, RULES, Severity};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// No finding this grave or graver.
    None(Severity),
    /// No finding of this rule.
    NoRule(&'static str),
    /// A finding of this rule: the bug is still there.
    Rule(&'static str),
    /// Repetition does not pile up open requests.
    NoGrowth,
}

impl Expectation {
    pub fn name(&self) -> String {
        match self {
            Expectation::None(Severity::Leak) => "no-leaks".to_string(),
            Expectation::None(Severity::Violation) => "no-violations".to_string(),
            Expectation::None(Severity::Suspect) => "no-suspects".to_string(),
            Expectation::None(Severity::Info) => "no-findings".to_string(),
            Expectation::NoRule(rule) => format!("no-{rule}"),
            Expectation::Rule(rule) => (*rule).to_string(),
            Expectation::NoGrowth => "no-growth".to_string(),
        }
    }
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Expectation, String> {
        let rule = |name: &str| RULES.iter().find(|rule| rule.name == name).map(|rule| rule.name);
        match text {
            "no-leaks" => Ok(Expectation::None(Severity::Leak)),
            "no-violations" => Ok(Expectation::None(Severity::Violation)),
            "no-suspects" => Ok(Expectation::None(Severity::Suspect)),
            "no-findings" => Ok(Expectation::None(Severity::Info)),
            "no-growth" => Ok(Expectation::NoGrowth),
            _ => rule(text)
                .map(Expectation::Rule)
                .or_else(|| text.strip_prefix("no-").and_then(rule).map(Expectation::NoRule))
                .ok_or_else(|| {
                    format!(
                        "{text} is nothing to expect: write no-leaks, no-violations, no-suspects, no-findings, \
                         no-growth, a rule (see rpctap rules), or no- and a rule"
                    )
                }),
        }
    }
}

/// What came of one expectation.
#[derive(Debug, Clone, PartialEq)]
pub struct Met {
    pub expectation: Expectation,
    pub holds: bool,
    pub because: Vec<String>,
}

/// Judges the live run with limits that fit its patience.
pub fn judge(run: &mut Run, options: &Options) -> Judged {
    let mut analyzer = Analyzer::new(&run.session, options);
    let events = std::mem::take(&mut run.kept.events);
    for event in &events {
        analyzer.event(event, &mut run.kept);
    }
    run.kept.events = events;
    analyzer.finish(None)
}

/// The findings that a server can be held to. What is left hanging is gone when the server answers, also where the
/// recorded client was wrong to walk away; its other slips stay in the script whatever the server does.
pub fn of_server(judged: &Judged) -> impl Iterator<Item = &Finding> {
    judged.findings.iter().filter(|finding| is_of_server(finding))
}

pub fn is_of_server(finding: &Finding) -> bool {
    finding.fault != Blame::Client || finding.severity == Severity::Leak
}

pub fn met(expectation: &Expectation, judged: &Judged, rounds: &[Round]) -> Met {
    let sentences = |choose: &dyn Fn(&Finding) -> bool| -> Vec<String> {
        of_server(judged).filter(|finding| choose(finding)).map(Finding::sentence).collect()
    };
    let (holds, because) = match expectation {
        Expectation::None(severity) => {
            let found = sentences(&|finding| finding.severity >= *severity);
            (found.is_empty(), found)
        }
        Expectation::NoRule(rule) => {
            let found = sentences(&|finding| finding.rule.name == *rule);
            (found.is_empty(), found)
        }
        Expectation::Rule(rule) => {
            let found = sentences(&|finding| finding.rule.name == *rule);
            (!found.is_empty(), found)
        }
        Expectation::NoGrowth => match growth(rounds) {
            Some(slope) if slope > GROWTH_A_ROUND => {
                (false, vec![format!("{slope:.2} more open requests after each round")])
            }
            _ => (true, Vec::new()),
        },
    };
    Met { expectation: expectation.clone(), holds, because }
}

/// Less than one request in twenty rounds may be a straggler.
const GROWTH_A_ROUND: f64 = 0.05;

/// How many requests more are open after each round: the slope of the line of least squares.
pub fn growth(rounds: &[Round]) -> Option<f64> {
    if rounds.len() < 2 {
        return None;
    }
    let count = rounds.len() as f64;
    let mean_x = (count - 1.0) / 2.0;
    let mean_y = rounds.iter().map(|round| round.open as f64).sum::<f64>() / count;
    let (mut over, mut under) = (0.0, 0.0);
    for (x, round) in rounds.iter().enumerate() {
        let dx = x as f64 - mean_x;
        over += dx * (round.open as f64 - mean_y);
        under += dx * dx;
    }
    Some(over / under)
}
