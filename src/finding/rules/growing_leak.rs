//! growing-leak: what leaks keeps growing.

use crate::event::Micros;
use crate::exchange::trend::Basis;
use crate::exchange::{Fact, Growth, Trend};
use crate::finding::{Blame, Charge, Figure, Finding, Ground, Rule, Severity};
use crate::protocol::Dialect;

use super::words::text;

pub const RULE: Rule = Rule {
    name: "growing-leak",
    title: "what is left hanging grows over time",
    severities: "leak; suspect where nothing is proven to leak: requests past their deadline, or a backlog",
    explanation: r#"What leaked grows with time and traffic, and chance does not explain it. Judged is the floor of the curve, not its bursts: a robust slope (Theil-Sen) and a test for monotonic trend (Mann-Kendall). Where nothing is proven to leak, requests that are open past their deadline and never closed are suspect when they pile up; so is a growing backlog (requests are answered, but ever more wait): it may be load. What is open at a gap of the recording, or may stay open, counts in neither.

No protocol has a rule for this; it is the sum of the other findings over time, and what fills a pool or a server's memory in the end.

What to do: see which method carries it, and `rpctap chart` for the curve; `--pool N` says when a pool of that size is exhausted."#,
    sentence,
    judge,
};

/// The trend is no single fact: see [`from_trend`].
fn judge(_fact: &Fact, _ground: &Ground) -> Option<Charge> {
    None
}

/// The finding, where the trend says that it grows.
pub fn from_trend(trend: &Trend, dialect: Dialect, last_at: Micros) -> Option<Finding> {
    if trend.growth != Growth::Growing {
        return None;
    }
    let leading = trend.carriers.first();
    let mut figures =
        vec![("basis", Figure::Text(trend.basis.name().to_string())), ("rise", Figure::Count(trend.rise))];
    if let Some((slope, unit)) = trend.pace() {
        figures.push(("pace", Figure::Text(format!("{} per {unit}", rounded(slope)))));
    }
    if let Some(slope) = trend.per_hundred_requests {
        figures.push(("per hundred requests", Figure::Text(rounded(slope))));
    }
    figures.push(("chance", Figure::Text(format!("{:.1e}", trend.chance))));
    Some(Finding {
        rule: &RULE,
        severity: if trend.basis == Basis::Leaked { Severity::Leak } else { Severity::Suspect },
        fault: Blame::Undetermined,
        asked_by: None,
        by: None,
        method: leading.map(|carrier| carrier.method.clone()),
        tool: leading.and_then(|carrier| carrier.tool.clone()),
        dialect,
        subjects: Vec::new(),
        count: trend.rise,
        first_at: trend.since.unwrap_or(last_at),
        last_at: trend.until.unwrap_or(last_at),
        figures,
        events: Vec::new(),
    })
}

/// Two digits that matter, however small: what grows is never told as nothing.
fn rounded(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        small @ 0.0..0.1 => format!("{value:.*}", 1 + (-small.log10().floor()) as usize),
        0.1..10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn sentence(finding: &Finding) -> String {
    let what = match text(finding, "basis") {
        "backlog" => "the number of open requests",
        _ => "what is left hanging",
    };
    let mut sentence = format!("{what} grew by {}", finding.count);
    match (text(finding, "pace"), text(finding, "per hundred requests")) {
        ("", "") => {}
        ("", hundred) => sentence.push_str(&format!(", about {hundred} per hundred requests")),
        (pace, "") => sentence.push_str(&format!(", about {pace}")),
        (pace, hundred) => sentence.push_str(&format!(", about {pace} and {hundred} per hundred requests")),
    }
    match (&finding.method, &finding.tool) {
        (Some(method), Some(tool)) => sentence.push_str(&format!(", carried by {method} {tool}")),
        (Some(method), None) => sentence.push_str(&format!(", carried by {method}")),
        _ => {}
    }
    sentence
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use crate::event::transcript;
    use crate::finding::{Options, judge_talk};

    /// A hundred requests, one after another; every one that `answered` says is answered at once.
    fn told_of(gap_ms: u32, answered: impl Fn(u32) -> bool, end: &str) -> Vec<(&'static str, String)> {
        let mut talk = String::from("protocol json-rpc\n");
        for n in 0..100 {
            let at = n * gap_ms;
            writeln!(talk, "{at}ms -> {n} work {{\"n\":{n}}}").expect("text");
            if answered(n) {
                writeln!(talk, "{}ms <- {n} result", at + 5).expect("text");
            }
        }
        talk.push_str(end);
        let talk = transcript::parse(&talk).expect("a conversation");
        let (judged, _) = judge_talk(&talk, &Options::default());
        let growing = judged.findings.iter().filter(|finding| finding.rule.name == super::RULE.name);
        growing.map(|finding| (finding.severity.name(), finding.sentence())).collect()
    }

    fn told(answered: impl Fn(u32) -> bool) -> Vec<(&'static str, String)> {
        told_of(10_000, answered, "1100000ms |closed|\n")
    }

    #[test]
    fn it_fires() {
        let told = told(|n| n % 4 != 0);
        assert_eq!(told.len(), 1, "{told:?}");
        let (severity, sentence) = &told[0];
        assert!(
            *severity == "leak" && sentence.contains("grew by 25") && sentence.contains("carried by work"),
            "{told:?}"
        );
        assert!(sentence.contains("about 1.5 per minute and 25 per hundred requests"), "{told:?}");
    }

    #[test]
    fn it_stays_silent() {
        assert_eq!(told(|_| true), []);
        // One that hangs is a leak, and no growth.
        assert_eq!(told(|n| n != 7), []);
    }

    #[test]
    fn what_is_past_its_deadline_in_a_session_that_lives_is_suspect() {
        let told = told_of(10_000, |n| n % 4 != 0, "");
        assert_eq!(told.iter().map(|(severity, _)| *severity).collect::<Vec<_>>(), ["suspect"], "{told:?}");
    }

    #[test]
    fn what_is_in_flight_or_open_at_a_gap_does_not_grow() {
        assert_eq!(told_of(20, |n| n % 4 != 0, ""), []);
        assert_eq!(told_of(20, |_| false, ""), []);
        assert_eq!(told_of(10_000, |_| false, "1100000ms |lost 3 from server|\n 1100001ms |closed|\n"), []);
    }

    #[test]
    fn streams_that_stay_open_do_not_grow() {
        let mut talk = String::from("protocol a2a-0.3\n");
        for n in 0..60 {
            let at = n * 10;
            writeln!(talk, "{at}s #{n} |opened POST /|\n #{n} -> {n} message/stream {{\"message\":{{\"n\":{n}}}}}")
                .expect("text");
            writeln!(talk, "#{n} <- {n} result {{\"kind\":\"artifact-update\"}}").expect("text");
        }
        let talk = transcript::parse(&talk).expect("a conversation");
        let (judged, _) = judge_talk(&talk, &Options::default());
        assert!(judged.findings.iter().all(|finding| finding.rule.name != super::RULE.name), "{:?}", judged.findings);
    }
}
