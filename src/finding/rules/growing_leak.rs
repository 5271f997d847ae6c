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
    severities: "leak; suspect for a growing backlog",
    explanation: r#"What leaked or never closed grows with time and traffic, and chance does not explain it. Judged is the floor of the curve, not its bursts: a robust slope (Theil-Sen) and a test for monotonic trend (Mann-Kendall). A growing backlog (requests are answered, but ever more wait) is suspect only: it may be load.

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
    if let Some(slope) = trend.per_hour {
        figures.push(("per hour", Figure::Text(rounded(slope))));
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

fn rounded(value: f64) -> String {
    match value.abs() {
        0.0..0.1 => format!("{value:.3}"),
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
    match (text(finding, "per hour"), text(finding, "per hundred requests")) {
        ("", "") => {}
        ("", hundred) => sentence.push_str(&format!(", about {hundred} per hundred requests")),
        (hour, "") => sentence.push_str(&format!(", about {hour} per hour")),
        (hour, hundred) => sentence.push_str(&format!(", about {hour} per hour and {hundred} per hundred requests")),
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

    /// A hundred requests, ten seconds apart; every one that `answered` says is answered at once.
    fn told(answered: impl Fn(u32) -> bool) -> Vec<String> {
        let mut talk = String::from("protocol json-rpc\n");
        for n in 0..100 {
            let at = n * 10_000;
            writeln!(talk, "{at}ms -> {n} work {{\"n\":{n}}}").expect("text");
            if answered(n) {
                writeln!(talk, "{}ms <- {n} result", at + 50).expect("text");
            }
        }
        talk.push_str("1100000ms |closed|\n");
        let talk = transcript::parse(&talk).expect("a conversation");
        let (judged, _) = judge_talk(&talk, &Options::default());
        let growing = judged.findings.iter().filter(|finding| finding.rule.name == super::RULE.name);
        growing.map(|finding| finding.sentence()).collect()
    }

    #[test]
    fn it_fires() {
        let told = told(|n| n % 4 != 0);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("grew by 25") && told[0].contains("carried by work"), "{told:?}");
    }

    #[test]
    fn it_stays_silent() {
        assert_eq!(told(|_| true), Vec::<String>::new());
        // One that hangs is a leak, and no growth.
        assert_eq!(told(|n| n != 7), Vec::<String>::new());
    }
}
