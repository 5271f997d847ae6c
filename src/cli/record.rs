//! `rpctap record`: put before any stdio server; forwards everything and keeps a copy.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;

use super::place::StorePlace;
use super::revive::revive;
use crate::error::Result;
use crate::event::stdio::StdioScribe;
use crate::event::tape::Tape;
use crate::event::{Knows, Session, Source, Stamper};
use crate::peer::child::{Launch, NotStarted};
use crate::store::recorder::{Ending, Heading, Recorder, Recording};
use crate::tap::{signals, stdio};

/// Record a stdio JSON-RPC server: forwards everything unchanged and keeps a copy
#[derive(Args)]
pub struct Record {
    #[command(flatten)]
    place: StorePlace,

    /// What to call this session [default: made from the command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Take secrets, home folders and user names out before anything is kept
    #[arg(long)]
    redact: bool,

    /// Do not look at the server's memory, threads and files once a second
    #[arg(long)]
    no_samples: bool,

    /// How long to wait for output after the server has ended, when something it started holds its pipes
    #[arg(long, value_name = "MS", default_value_t = 500)]
    drain_ms: u64,

    /// The server and its arguments
    #[arg(last = true, required = true, value_name = "SERVER ARGS")]
    command: Vec<OsString>,
}

impl Record {
    pub fn run(self) -> Result<ExitCode> {
        let store = self.place.path()?;
        self.place.make_folder(&store);
        signals::hold_back()?;
        let stamper = Stamper::start();
        // From the main thread: the child dies with the thread that started it.
        let launch = Launch { command: self.command.clone(), ..Launch::default() };
        let (child, pipes) = match launch.start() {
            Ok(started) => started,
            Err(refusal) => return Ok(not_started(&self.command, &refusal)),
        };
        let child = Arc::new(child);
        let hurry = Arc::new(AtomicBool::new(false));
        signals::pass_on(Arc::clone(&child), Arc::clone(&hurry))?;

        let session = Session {
            key: 1,
            name: self.name.clone().unwrap_or_else(|| name_from(&self.command)),
            source: Source::Stdio,
            target: command_line(&self.command),
            started_at: stamper.now(),
            knows: Knows::ALL,
        };
        let heading = Heading {
            kind: "stdio".to_string(),
            number: None,
            session: Some(session.clone()),
            veiled: self.redact,
            setup: None,
        };
        let tape = Tape::new(Some(heading.spill(&store)));
        let recorder = Recorder::start(Recording {
            store,
            tape: Arc::clone(&tape),
            transcriber: Box::new(StdioScribe::new(session)),
            heading,
            session: 1,
            redact: self.redact,
            revive,
            backlog_bytes: 0,
            tell: Box::new(tell),
        })?;
        let manner = stdio::Manner { drain: Duration::from_millis(self.drain_ms), samples: !self.no_samples };
        let exit = stdio::run(&child, pipes, &tape, stamper, &hurry, manner)?;
        tell_ending(&recorder.finish());
        Ok(ExitCode::from(exit.as_code()))
    }
}

/// Says a line on stderr; that nobody listens there is no reason to end.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "rpctap: {line}");
}

/// What the user must know of how the recording ended: nothing, if all went well.
pub fn tell_ending(ending: &Ending) {
    if ending.lost.records > 0 && !ending.told_of_loss {
        let lost = &ending.lost;
        tell(&format!("{} pieces of traffic ({} bytes) were not recorded: {}", lost.records, lost.bytes, lost.why));
    }
    if let Some((path, bytes)) = &ending.left
        && !ending.told_of_wait
    {
        tell(&format!("{bytes} bytes wait in {} and are taken in by the next start", path.display()));
    }
}

fn not_started(command: &[OsString], refusal: &NotStarted) -> ExitCode {
    let program = command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
    match refusal {
        NotStarted::NotFound(cause) => {
            tell(&format!("starting {program}: {cause}; is it installed, and in the PATH that this client gives?"));
            ExitCode::from(127)
        }
        NotStarted::NotRunnable(cause) => {
            tell(&format!("starting {program}: {cause}"));
            ExitCode::from(126)
        }
    }
}

/// Programs that are only there to start another: the next word says more than they do.
const LAUNCHERS: &[&str] = &[
    "npx", "uvx", "bunx", "uv", "run", "tool", "node", "deno", "bun", "python", "python3", "pipx", "env", "sh", "bash",
    "docker", "podman", "java", "dotnet", "npm", "exec", "cargo",
];

fn name_from(command: &[OsString]) -> String {
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let base = |word: &str| Path::new(word).file_name().map_or(word.to_string(), |name| name.to_string_lossy().into());
    let telling = words.iter().filter(|word| !word.starts_with('-') && !word.contains('=') && !word.contains(' '));
    let telling = telling.map(|word| base(word)).find(|word| !LAUNCHERS.contains(&word.as_str()));
    telling.or_else(|| words.first().map(|word| base(word))).unwrap_or_default()
}

/// The command as a shell would take it.
fn command_line(command: &[OsString]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy();
        match !word.is_empty() && word.chars().all(plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn sessions_are_named_after_what_matters() {
        for (command, name) in [
            ("/usr/bin/gopls serve", "gopls"),
            ("npx -y @modelcontextprotocol/server-everything", "server-everything"),
            ("uvx --from mcp-server-time mcp-server-time", "mcp-server-time"),
            ("python3 -u /srv/tools/server.py --port=3", "server.py"),
            ("env A=1 node dist/index.js", "index.js"),
            ("npx", "npx"),
        ] {
            assert_eq!(name_from(&words(command)), name, "{command}");
        }
    }

    #[test]
    fn the_command_line_can_be_pasted_into_a_shell() {
        let command: Vec<OsString> = ["a b", "it's", "", "x=1"].iter().map(Into::into).collect();
        assert_eq!(command_line(&command), r"'a b' 'it'\''s' '' x=1");
    }
}
