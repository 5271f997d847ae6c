//! `rpctap replay`: play a recording to a live server, or be the recorded server.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::limits::LimitArgs;
use super::place::StorePlace;
use super::replayed::{Outcome, ended};
use crate::error::{Error, Result};
use crate::event::{Happening, Stamper, What};
use crate::finding::Options;
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
