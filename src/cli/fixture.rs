//! `rpctap fixture`: cut a finding out of a recording, as a small recording and a test that runs as it is.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::limits::LimitArgs;
use super::place::StorePlace;
use super::replay::{How, duration};
use crate::error::{Doing, Error, Result};
use crate::event::{Collected, Recording, Side, Stamper};
use crate::finding::{Analyzer, Finding, Judged, Options, Severity};
use crate::fixture::cut::{cut_nothing, keep_lines, scrub};
use crate::fixture::shrink::{Budget, shrink};
use crate::fixture::write::slug;
use crate::fixture::{self, Fixture, Language, Slice, cut_finding, cut_requests};
use crate::replay::child::ChildPeer;
use crate::replay::{Play, Script, expect};
use crate::report::safe::safe;

#[derive(Args)]
pub struct FixtureArgs {
    /// The session: its number or name in the store, `last`, or a recording file
    session: String,
    /// The finding to guard against, by its number in the report [default: the first]
    #[arg(long, value_name = "N", conflicts_with_all = ["request", "all"])]
    finding: Option<usize>,
    /// Guard these requests, by id
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with = "all")]
    request: Vec<String>,
    /// One fixture for each finding that a server can be held to
    #[arg(long)]
    all: bool,
    /// Where to write the files
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// What the test is written in: shell, rust, pytest, node (more than one may be given)
    #[arg(long = "for", value_name = "LANGUAGE", default_value = "shell", value_parser = language)]
    languages: Vec<Language>,
    /// Drop messages as long as the finding still appears against the server after --
    #[arg(long, requires = "command")]
    shrink: bool,
    /// Most runs of the server while shrinking
    #[arg(long, value_name = "N", default_value_t = 200)]
    shrink_runs: usize,
    /// Longest time to shrink
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    shrink_limit: Duration,
    /// Leave secrets, home folders and user names in
    #[arg(long)]
    keep_secrets: bool,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    place: StorePlace,
    #[command(flatten)]
    limits: LimitArgs,
    /// The server and its arguments, for the test
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// How often the slice of something that grows is played: enough to tell a slope from a straggler.
const GROWTH_ROUNDS: u32 = 20;

fn language(name: &str) -> std::result::Result<Language, String> {
    Language::from_name(name).ok_or_else(|| "it is shell, rust, pytest or node".to_string())
}

impl FixtureArgs {
    pub fn run(self) -> Result<ExitCode> {
        let mut kept = super::recording::collect(&self.place, &self.session)?;
        let judged = judge(&mut kept, &self.limits.options());
        let recording = super::recording::recording_of(kept);
        let mut told = String::new();
        for fixture in self.fixtures(&recording, &judged)? {
            self.write(&fixture, &mut told)?;
        }
        super::print(&told)?;
        Ok(ExitCode::SUCCESS)
    }

    fn fixtures(&self, recording: &Recording, judged: &Judged) -> Result<Vec<Fixture>> {
        if !self.request.is_empty() {
            let slice = cut_requests(recording, &self.request)?;
            let ids: Vec<&str> = self.request.iter().map(String::as_str).collect();
            let guards = format!("the requests {} of {}", ids.join(", "), recording.session.name);
            let name = slug(&[&["request"], ids.as_slice(), &["no leaks"]].concat());
            return Ok(vec![self.fixture(recording, slice, name, guards, "no-leaks".to_string(), None)?]);
        }
        let chosen: Vec<&Finding> = match self.finding {
            _ if self.all => judged
                .findings
                .iter()
                .filter(|finding| expect::is_of_server(finding) && finding.severity > Severity::Info)
                .collect(),
            Some(number) => {
                let finding = number.checked_sub(1).and_then(|at| judged.findings.get(at));
                vec![finding.ok_or_else(|| {
                    Error::new(format!(
                        "cutting a fixture: the session has {} findings, not {number}",
                        judged.findings.len()
                    ))
                })?]
            }
            None => judged.findings.iter().find(|finding| expect::is_of_server(finding)).into_iter().collect(),
        };
        if chosen.is_empty() {
            return Err(Error::new(
                "cutting a fixture: the session has no finding that a server can be held to; name requests with --request ID",
            ));
        }
        let mut names = BTreeSet::new();
        let mut fixtures = Vec::new();
        for finding in chosen {
            if !expect::is_of_server(finding) {
                return Err(Error::new(format!(
                    "cutting a fixture: {} is the client's fault; no server can pass a test for it. Run the client against rpctap replay server instead",
                    finding.rule.name
                )));
            }
            let slice = cut_finding(recording, finding, &self.limits.options())?;
            let words = [
                finding.method.as_deref().unwrap_or(""),
                finding.tool.as_deref().unwrap_or(""),
                "no",
                finding.rule.name,
            ];
            let mut name = slug(&words);
            while !names.insert(name.clone()) {
                name.push('x');
            }
            // A server without the bug leaves nothing behind, by whatever name.
            let expect = match finding.severity {
                _ if finding.events.is_empty() => "no-growth".to_string(),
                Severity::Leak => "no-leaks".to_string(),
                _ => format!("no-{}", finding.rule.name),
            };
            let mut fixture = self.fixture(recording, slice, name, finding.sentence(), expect, Some(finding))?;
            if finding.events.is_empty() {
                fixture.options.extend(["--times".to_string(), GROWTH_ROUNDS.to_string()]);
            }
            fixtures.push(fixture);
        }
        Ok(fixtures)
    }

    fn fixture(
        &self,
        recording: &Recording,
        slice: Slice,
        name: String,
        guards: String,
        expect: String,
        finding: Option<&Finding>,
    ) -> Result<Fixture> {
        let mut slice = slice;
        if let (true, Some(finding)) = (self.shrink, finding.filter(|finding| !finding.events.is_empty())) {
            // Where the slice by itself does not do it, something else in the session matters: look for it in all.
            slice = match self.shrunk(&slice, finding)? {
                Some(smaller) => smaller,
                None => self.shrunk(&cut_nothing(recording), finding)?.unwrap_or_else(|| {
                    let rule = finding.rule.name;
                    eprintln!("rpctap: the server does not show {rule} with this recording; nothing was dropped");
                    slice
                }),
            };
        }
        let mut guards = guards;
        if !self.keep_secrets {
            scrub(&mut slice.recording);
            guards = crate::event::redact::Redactor::for_fixtures().text(&guards);
        }
        let command = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(Fixture { options: self.options(&slice), slice, name, guards, expect, command })
    }

    /// Limits that fit: long enough for the slowest answer on record, short enough to run often.
    fn options(&self, slice: &Slice) -> Vec<String> {
        let lines = &slice.recording.lines;
        let lives = crate::replay::lifecycle::lives(lines, slice.dialect);
        let slowest = lives
            .iter()
            .filter(|life| life.cancel.is_none())
            .filter_map(|life| Some(lines[*life.answers.first()?].at - lines[life.asked].at))
            .max()
            .unwrap_or(0);
        let hang = self.how.hang_after.max(Duration::from_micros(3 * slowest.max(0) as u64)).as_millis();
        let mut options = vec!["--hang-after".to_string(), format!("{hang}ms")];
        if self.how.pace != crate::replay::Pace::Recorded {
            options.extend(["--pace".to_string(), "instant".to_string()]);
        }
        if let Some(window) = self.limits.race_window {
            options.extend(["--race-window".to_string(), format!("{window}ms")]);
        }
        if let Some(policy) = self.limits.cancel_policy {
            options.extend(["--cancel-policy".to_string(), policy.name().to_string()]);
        }
        if let Some(dialect) = self.limits.protocol {
            options.extend(["--protocol".to_string(), dialect.flag()]);
        }
        options
    }

    /// Drops messages as long as the finding still appears against the real server.
    fn shrunk(&self, slice: &Slice, finding: &Finding) -> Result<Option<Slice>> {
        let deadline = Instant::now() + self.shrink_limit;
        let lines = slice.recording.lines.clone();
        let opening = Script::new(slice.recording.clone())?.opening;
        let script = Script::new(slice.recording.clone())?;
        let fixed: BTreeSet<usize> =
            script.steps[..opening].iter().flat_map(|step| step.lines.iter().copied()).collect();
        // What is dropped is dropped with all that answers it.
        let units: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].from == Side::Client && !fixed.contains(at)).collect();
        let keep = |subset: &[usize]| -> BTreeSet<usize> {
            let mut keep = fixed.clone();
            keep.extend(subset.iter().map(|unit| units[*unit]));
            for life in &script.lives {
                if keep.contains(&life.asked) || life.asked_by == Side::Server {
                    keep.extend(&life.answers);
                    keep.insert(life.asked);
                } else {
                    keep.retain(|at| Some(*at) != life.cancel);
                }
            }
            let noticed =
                (0..lines.len()).filter(|at| lines[*at].from == Side::Server && lines[*at].message.method.is_some());
            keep.extend(noticed);
            keep
        };
        let mut trouble = None;
        let mut shows = |subset: &[usize]| -> Option<bool> {
            if Instant::now() >= deadline {
                return None;
            }
            let candidate = fixture::reread(&keep_lines(&slice.recording, &keep(subset)));
            match self.appears(candidate, finding) {
                Ok(appears) => Some(appears),
                Err(error) => {
                    trouble.get_or_insert(error);
                    Some(false)
                }
            }
        };
        let all: Vec<usize> = (0..units.len()).collect();
        if shows(&all) != Some(true) {
            if let Some(trouble) = trouble {
                return Err(trouble.while_doing("shrinking"));
            }
            return Ok(None);
        }
        let shrunk = shrink(units.len(), Budget { runs: self.shrink_runs }, &mut shows);
        let kept = keep_lines(&slice.recording, &keep(&shrunk.kept));
        let smaller = Slice { recording: fixture::reread(&without_idle_notices(kept)), ..slice.clone() };
        eprintln!(
            "rpctap: {} messages → {} ({} runs, {} remembered{})",
            slice.out_of,
            smaller.recording.lines.len(),
            shrunk.runs + 1,
            shrunk.remembered,
            if shrunk.finished { "" } else { "; the budget ran out" }
        );
        Ok(Some(smaller))
    }

    fn appears(&self, candidate: Recording, finding: &Finding) -> Result<bool> {
        let script = Script::new(candidate)?;
        let stamper = Stamper::start();
        let mut peer = ChildPeer::start(&self.command, script.recording.framing, stamper)?;
        let play = Play { pace: self.how.pace, patience: self.how.patience(), times: 1, target: String::new() };
        let mut run = play.run(&script, &mut peer, stamper);
        let judged = expect::judge(&mut run, &self.how.judging(&self.limits));
        Ok(judged.findings.iter().any(|other| fixture::is_same(other, finding)))
    }

    fn write(&self, fixture: &Fixture, told: &mut String) -> Result<()> {
        fs::create_dir_all(&self.output).doing(format!("making {}", self.output.display()))?;
        for note in &fixture.slice.notes {
            eprintln!("rpctap: {}", safe(note));
        }
        told.push_str(&format!("{}: {}\n", fixture.name, safe(&fixture.guards)));
        told.push_str(&format!(
            "  {} of {} messages; expects {}\n",
            fixture.slice.recording.lines.len(),
            fixture.slice.out_of,
            fixture.expect
        ));
        for file in fixture.files(&self.languages) {
            let path = self.output.join(&file.name);
            fs::write(&path, &file.text).doing(format!("writing {}", path.display()))?;
            if file.is_program {
                make_program(&path)?;
            }
            told.push_str(&format!("  {}\n", path.display()));
        }
        Ok(())
    }
}

/// Notifications of the server that stood about after the last thing the client said of them are not needed.
fn without_idle_notices(recording: Recording) -> Recording {
    let tokens: BTreeSet<String> = recording
        .lines
        .iter()
        .filter(|line| line.from == Side::Client)
        .filter_map(|line| line.message.marks.raw(crate::rpc::Mark::RequestProgressToken).map(str::to_string))
        .collect();
    let keep = recording.lines.iter().enumerate().filter(|(_, line)| {
        let token = line.message.marks.raw(crate::rpc::Mark::ProgressToken);
        line.from == Side::Client
            || line.is_response()
            || line.is_request()
            || token.is_some_and(|token| tokens.contains(token))
    });
    let keep = keep.map(|(at, _)| at).collect();
    keep_lines(&recording, &keep)
}

fn judge(kept: &mut Collected, options: &Options) -> Judged {
    let mut analyzer = Analyzer::new(&kept.sessions[0].clone(), options);
    let events = std::mem::take(&mut kept.events);
    for event in &events {
        analyzer.event(event, kept);
    }
    kept.events = events;
    analyzer.finish(None)
}

#[cfg(unix)]
fn make_program(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).doing(format!("making {} a program", path.display()))
}

#[cfg(not(unix))]
fn make_program(_: &Path) -> Result<()> {
    Ok(())
}
