//! `rpctap replay`: play a recording to a live server, or be the recorded server.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::limits::LimitArgs;
use super::place::StorePlace;
use crate::error::{Error, Result};
use crate::event::{Happening, Stamper, What};
use crate::finding::{Judged, Options};
use crate::replay::child::ChildPeer;
use crate::replay::expect::{self, Expectation, Met};
use crate::replay::fault::Fault;
use crate::replay::http::HttpPeer;
use crate::replay::serve_http::{self, Hall};
use crate::replay::server::{Stage, Unmatched};
use crate::replay::stdio;
use crate::replay::{Comparison, Ending, Ignore, Pace, Patience, Peer, Play, Run, Script};
use crate::report::safe::safe;

#[derive(Args)]
pub struct Replay {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Play the recorded client to a live server and compare what became of each request
    Client(ClientArgs),
    /// Be the recorded server: answer a live client as the recording did, silences included
    Server(ServerArgs),
}

#[derive(Args)]
struct ServerArgs {
    /// The session: its number or name in the store, `last`, or a recording file
    session: String,
    /// Serve Streamable HTTP here instead of stdio
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// How fast: instant, recorded, or 10x
    #[arg(long, default_value = "instant")]
    pace: Pace,
    /// Do not compare this when a request is matched: a JSON pointer such as /params/arguments/now
    #[arg(long, value_name = "POINTER")]
    ignore: Vec<String>,
    /// What to do with a request that is not in the recording
    #[arg(long, value_enum, default_value_t = UnmatchedWord::Error)]
    unmatched: UnmatchedWord,
    /// A fault on top: `METHOD: delay=2s`, `drop`, `error=-32000` or `disconnect`; `tools/call(search): …` for one tool
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<Fault>,
    #[command(flatten)]
    place: StorePlace,
    /// The server that unmatched requests are forwarded to
    #[arg(last = true, required_if_eq("unmatched", "forward"))]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnmatchedWord {
    /// Answer with an error that says what is nearest
    Error,
    /// Never answer
    Hang,
    /// Ask the server after --
    Forward,
}

#[derive(Args)]
struct ClientArgs {
    /// The session: its number or name in the store, `last`, or a recording file
    session: String,
    /// The server to play to, over Streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// A header to send along, as `Name: value` (with --url)
    #[arg(long = "header", value_name = "HEADER", requires = "url")]
    headers: Vec<String>,
    #[command(flatten)]
    how: How,
    /// What must hold: no-leaks, no-violations, no-findings, no-growth, no-RULE, or RULE; then only the lifecycle is judged
    #[arg(long, value_name = "WHAT")]
    expect: Vec<Expectation>,
    /// Do not compare this: a JSON pointer (`*` for any one step), or a method
    #[arg(long, value_name = "POINTER|METHOD")]
    ignore: Vec<String>,
    /// Play the session this often on one connection, and tell what piles up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StorePlace,
    #[command(flatten)]
    limits: LimitArgs,
    /// The server and its arguments
    #[arg(last = true, required_unless_present = "url")]
    command: Vec<OsString>,
}

/// The pace and the limits of a run against a live server.
#[derive(Args, Debug, Clone)]
pub struct How {
    /// How fast recorded pauses are played: instant, recorded, or 10x
    #[arg(long, default_value = "recorded")]
    pub pace: Pace,
    /// Answer limit: how long to wait for an answer that came in the recording
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub answer_limit: Duration,
    /// A request without an answer for this long counts as left hanging
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub hang_after: Duration,
    /// Run limit: give up after this long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub run_limit: Duration,
    /// Longest pause: recorded pauses are cut to this
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub longest_pause: Duration,
}

impl How {
    pub fn patience(&self) -> Patience {
        Patience {
            answer_ms: self.answer_limit.as_millis() as u64,
            hang_ms: self.hang_after.as_millis() as u64,
            run_ms: self.run_limit.as_millis() as u64,
            pause_ms: self.longest_pause.as_millis() as u64,
            ..Patience::default()
        }
    }

    /// How to judge a live run: what we saw hang for `--hang-after` is past its deadline.
    pub fn judging(&self, limits: &LimitArgs) -> Options {
        let mut options = limits.options();
        let hung_ms = (self.hang_after.as_millis() as u64).saturating_mul(9) / 10;
        options.limits.deadline_ms = options.limits.deadline_ms.min(hung_ms);
        options
    }
}

/// Reads `300ms`, `2s`, `1.5s`, `5m`, `1h`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().map_err(|_| format!("{text} is no time: write 300ms, 2s or 5m"))?;
    let seconds = match &text[split..] {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("{text} is no time: write 300ms, 2s or 5m")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is too long"))
}

impl Replay {
    pub fn run(self) -> Result<ExitCode> {
        match self.role {
            Role::Client(args) => args.run(),
            Role::Server(args) => args.run(),
        }
    }
}

impl ServerArgs {
    fn run(self) -> Result<ExitCode> {
        let script = Script::new(super::recording::load(&self.place, &self.session)?)?;
        let session = script.recording.session.clone();
        let unmatched = match self.unmatched {
            UnmatchedWord::Error => Unmatched::Error,
            UnmatchedWord::Hang => Unmatched::Hang,
            UnmatchedWord::Forward => Unmatched::Forward,
        };
        let ignore = Ignore::new(self.ignore.iter().map(String::as_str));
        let tell = |note: &str| eprintln!("rpctap: {}", safe(note));
        let stamper = Stamper::start();
        let command = self.command.clone();
        let start =
            move |framing| -> Result<Box<dyn Peer>> { Ok(Box::new(ChildPeer::start(&command, framing, stamper)?)) };
        let (pace, faults) = (self.pace, self.faults.clone());
        let make_stage = move || Stage::new(script.clone(), pace, unmatched, faults.clone(), ignore.clone());
        if let Some(address) = &self.listen {
            let hall = Hall {
                make_stage: Box::new(make_stage),
                session,
                start: Some(Box::new(start)),
                stamper,
                tell: Box::new(tell),
            };
            serve_http::serve(address, hall, &|bound| eprintln!("rpctap: listening on http://{bound}/"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut stage = make_stage();
        let mut tell = tell;
        let mut stdout = std::io::stdout().lock();
        stdio::serve(&mut stage, &session, std::io::stdin(), &mut stdout, stamper, Some(&start), &mut tell)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ClientArgs {
    fn run(self) -> Result<ExitCode> {
        let script = Script::new(super::recording::load(&self.place, &self.session)?)?;
        let stamper = Stamper::start();
        let mut peer = self.peer(&script, stamper)?;
        let play =
            Play { pace: self.how.pace, patience: self.how.patience(), times: self.times, target: self.target() };
        let mut run = play.run(&script, &mut *peer, stamper);
        drop(peer);
        if let Some(trouble) = trouble(&script, &run) {
            return Err(trouble);
        }
        let ignore = Ignore::new(self.ignore.iter().map(String::as_str));
        let comparison = Comparison::new(&script, &run, &ignore);
        let judged = expect::judge(&mut run, &self.how.judging(&self.limits));
        let met: Vec<Met> = self.expect.iter().map(|wanted| expect::met(wanted, &judged, &run.rounds)).collect();
        let result = Outcome { script: &script, run: &run, comparison: &comparison, judged: &judged, met: &met };
        let text = if self.json { format!("{:#}\n", result.json()) } else { result.text() };
        super::print(&text)?;
        Ok(if result.passed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn peer(&self, script: &Script, stamper: Stamper) -> Result<Box<dyn Peer>> {
        if let Some(url) = &self.url {
            let opened = script.recording.others.iter().any(|event| {
                matches!(&event.what, What::Happening(Happening::CarrierOpened { method, .. }) if method == "GET")
            });
            return Ok(Box::new(HttpPeer::start(url, &self.headers, opened, stamper)?));
        }
        Ok(Box::new(ChildPeer::start(&self.command, script.recording.framing, stamper)?))
    }

    fn target(&self) -> String {
        match &self.url {
            Some(url) => url.clone(),
            None => self.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
        }
    }
}

/// What leaves nothing to compare.
fn trouble(script: &Script, run: &Run) -> Option<Error> {
    let heard = run.lines.iter().any(|line| line.from == crate::event::Side::Server);
    let stderr = match run.stderr_tail.trim().lines().last() {
        Some(line) => format!("; its last words on stderr: {}", safe(line)),
        None => String::new(),
    };
    let _ = script;
    match &run.ending {
        Ending::Unreachable(why) => Some(Error::new(format!("replaying: the server cannot be reached: {why}"))),
        Ending::RunLimit => Some(Error::new("replaying: not done within the run limit; raise it with --run-limit")),
        Ending::ServerEnded { code, signal } if !heard => {
            Some(Error::new(format!("replaying: the server {} before it said anything{stderr}", ended(*code, *signal))))
        }
        Ending::ServerClosed if !heard => {
            Some(Error::new(format!("replaying: the server closed its output before it said anything{stderr}")))
        }
        _ => None,
    }
}

fn ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}

/// Everything there is to tell about a replay.
struct Outcome<'a> {
    script: &'a Script,
    run: &'a Run,
    comparison: &'a Comparison,
    judged: &'a Judged,
    met: &'a [Met],
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

    fn passed(&self) -> bool {
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

    fn text(&self) -> String {
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

    fn json(&self) -> Value {
        use crate::replay::Difference;
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
