//! What came of a replay, as text and as JSON.

use serde_json::{Value, json};

use crate::finding::Judged;
use crate::replay::expect::{self, Expectation, Met};
use crate::replay::{Comparison, Difference, Ending, Run, Script};
use crate::report::safe::safe;

/// Everything there is to tell about a replay.
pub(super) struct Outcome<'a> {
    pub script: &'a Script,
    pub run: &'a Run,
    pub comparison: &'a Comparison,
    pub judged: &'a Judged,
    pub met: &'a [Met],
}

/// Lines of the transcript shown around one that diverges.
const CONTEXT_LINES: usize = 2;

impl Outcome<'_> {
    fn cut_short(&self) -> Option<String> {
        match &self.run.ending {
            Ending::Played => None,
            Ending::ServerEnded { code, signal } => {
                Some(format!("the server {} before the recording was played to its end", ended(*code, *signal)))
            }
            Ending::ServerClosed => {
                Some("the server closed its output before the recording was played to its end".to_string())
            }
            Ending::Flooded => Some("the server sent more than the flood limit".to_string()),
            Ending::RunLimit => Some("the run limit was reached".to_string()),
            Ending::Unreachable(why) => Some(format!("the server cannot be reached: {why}")),
        }
    }

    /// The recorded server may have ended early as well.
    fn cut_short_otherwise(&self) -> bool {
        self.cut_short().is_some() && !self.run.not_sent.is_empty()
    }

    pub fn passed(&self) -> bool {
        if self.run.ending == Ending::Flooded {
            return false;
        }
        if self.met.is_empty() {
            return self.comparison.same() && !self.cut_short_otherwise();
        }
        let wants_bug = self.met.iter().all(|met| matches!(met.expectation, Expectation::Rule(_)));
        self.met.iter().all(|met| met.holds) && (wants_bug || !self.cut_short_otherwise())
    }

    fn verdict(&self) -> &'static str {
        match (self.passed(), self.met.is_empty()) {
            (true, true) => "same",
            (false, true) => "diverged",
            (true, false) => "passed",
            (false, false) => "failed",
        }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let requests = self.comparison.requests;
        out.push_str(&format!(
            "{}: {} ({}, {requests} requests) against {}\n",
            self.verdict(),
            safe(&self.script.recording.session.name),
            self.script.dialect.words(),
            safe(&self.run.session.target),
        ));
        if let Some(why) = self.cut_short() {
            out.push_str(&format!("  {}\n", safe(&why)));
        }
        for met in self.met {
            out.push_str(&format!(
                "expected {}: {}\n",
                met.expectation.name(),
                if met.holds { "holds" } else { "does not hold" }
            ));
            for because in &met.because {
                out.push_str(&format!("  {}\n", safe(because)));
            }
        }
        if self.met.is_empty() {
            self.differences(&mut out);
        }
        self.growth(&mut out);
        for note in &self.run.notes {
            out.push_str(&format!("note: {}\n", safe(&note.text)));
        }
        out
    }

    fn differences(&self, out: &mut String) {
        let mut section = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                out.push_str(&format!("{title}\n"));
                for line in lines {
                    out.push_str(&format!("  {}\n", safe(&line)));
                }
            }
        };
        section("lifecycle", self.comparison.lifecycle().map(|difference| difference.words()).collect());
        let mut payload: Vec<String> = self.comparison.payload().map(|difference| difference.words()).collect();
        if self.comparison.unlisted > 0 {
            payload.push(format!("and {} more", self.comparison.unlisted));
        }
        section("payload", payload);
        if self.comparison.same() {
            return;
        }
        out.push_str("transcript (- recorded, + live)\n");
        let rows = &self.comparison.rows;
        let near = |at: usize| {
            let from = at.saturating_sub(CONTEXT_LINES);
            rows[from..rows.len().min(at + CONTEXT_LINES + 1)].iter().any(|row| row.mark != ' ')
        };
        let mut skipped = false;
        for (at, row) in rows.iter().enumerate() {
            if !near(at) {
                skipped = true;
                continue;
            }
            if std::mem::take(&mut skipped) {
                out.push_str("  …\n");
            }
            let time = row.at.map_or(String::new(), |at| format!("{}ms", at / 1000));
            out.push_str(&format!("{} {time:<8} {}\n", row.mark, safe(&row.text)));
        }
    }

    fn growth(&self, out: &mut String) {
        let rounds = &self.run.rounds;
        let (Some(first), Some(last), Some(slope)) = (rounds.first(), rounds.last(), expect::growth(rounds)) else {
            return;
        };
        let verdict = if slope > 0.05 { "it piles up" } else { "nothing piles up" };
        out.push_str(&format!(
            "open requests: {} after round 1, {} after round {} ({slope:+.2} a round): {verdict}\n",
            first.open,
            last.open,
            rounds.len(),
        ));
        if last.cancelled > 0 {
            out.push_str(&format!(
                "cancelled and silent: {} after round 1, {} after round {}\n",
                first.cancelled,
                last.cancelled,
                rounds.len()
            ));
        }
        if let (Some(before), Some(after)) = (first.usage, last.usage) {
            out.push_str(&format!(
                "memory of the server: {:.1} MB after round 1, {:.1} MB after round {}; threads {} → {}, files {} → {}\n",
                before.rss_bytes as f64 / 1e6,
                after.rss_bytes as f64 / 1e6,
                rounds.len(),
                before.threads,
                after.threads,
                before.files,
                after.files,
            ));
        }
    }

    pub fn json(&self) -> Value {
        let difference = |difference: &Difference| match difference {
            Difference::Fate { request, asked_by, recorded, live } => {
                json!({"what": "fate", "request": request, "asked_by": asked_by.name(), "recorded": recorded, "live": live})
            }
            Difference::Answers { request, recorded, live } => {
                json!({"what": "answers", "request": request, "recorded": recorded, "live": live})
            }
            Difference::Asked { request, live } => json!({"what": "asked", "request": request, "live": live}),
            Difference::Notices { method, recorded, live } => {
                json!({"what": "notifications", "method": method, "recorded": recorded, "live": live})
            }
            Difference::Payload { message, pointer, recorded, live } => {
                json!({"what": "payload", "message": message, "pointer": pointer, "recorded": recorded, "live": live})
            }
            Difference::Ended { recorded, live } => json!({"what": "ended", "recorded": recorded, "live": live}),
        };
        let findings = expect::of_server(self.judged).map(|finding| {
            json!({"rule": finding.rule.name, "severity": finding.severity.name(), "count": finding.count, "sentence": finding.sentence()})
        });
        let rounds = self
            .run
            .rounds
            .iter()
            .map(|round| json!({"open": round.open, "cancelled": round.cancelled, "usage": round.usage}));
        json!({
            "version": 1,
            "verdict": self.verdict(),
            "recording": self.script.recording.session.name,
            "target": self.run.session.target,
            "protocol": self.script.dialect.flag(),
            "requests": self.comparison.requests,
            "cut_short": self.cut_short(),
            "lifecycle": self.comparison.lifecycle().map(difference).collect::<Vec<_>>(),
            "payload": self.comparison.payload().map(difference).collect::<Vec<_>>(),
            "unlisted": self.comparison.unlisted,
            "transcript": self.comparison.rows.iter().map(|row| json!({
                "mark": row.mark.to_string(), "at_us": row.at, "text": row.text,
            })).collect::<Vec<_>>(),
            "expected": self.met.iter().map(|met| json!({
                "what": met.expectation.name(), "holds": met.holds, "because": met.because,
            })).collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
            "rounds": rounds.collect::<Vec<_>>(),
            "notes": self.run.notes.iter().map(|note| json!({"kind": note.kind.name(), "text": note.text})).collect::<Vec<_>>(),
        })
    }
}

pub(super) fn ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}
