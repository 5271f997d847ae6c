//! Import and analysis of two million messages, beside sqlite3, DuckDB and a bare serde_json loop, in one run.
//!
//! `cargo bench --bench import`; smaller with `RPCTAP_BENCH_MESSAGES=200000`. Needs `sqlite3` in the path, and DuckDB in
//! the Python named by `RPCTAP_BENCH_PYTHON` (default `python3`); what is missing is said and left out. Files go to
//! `RPCTAP_BENCH_DIR` (default: the target folder). Times are the best of `RPCTAP_BENCH_ROUNDS` (default 3) interleaved rounds.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

fn main() -> io::Result<()> {
    // `cargo test --benches` passes flags of the test harness: there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let messages: u64 = setting("RPCTAP_BENCH_MESSAGES", 2_000_000);
    let rounds: usize = setting("RPCTAP_BENCH_ROUNDS", 3);
    let folder = std::env::var_os("RPCTAP_BENCH_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-import"), PathBuf::from);
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("talk-{messages}.ndjson"));
    if !file.exists() {
        make(&file, messages)?;
    }
    let size = fs::metadata(&file)?.len();
    println!("{messages} messages, {:.0} MB of NDJSON ({})", size as f64 / 1e6, file.display());
    let store = folder.join("import.db");
    let python = std::env::var("RPCTAP_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_string());
    type Way<'a> = (&'a str, Box<dyn Fn() -> io::Result<Option<Took>> + 'a>);
    let ways: Vec<Way<'_>> = vec![
        ("split and serde_json envelope", Box::new(|| envelope_loop(&file).map(Some))),
        ("rpctap analyze", Box::new(|| rpctap(&["analyze".into(), file.clone().into()], None))),
        (
            "rpctap import",
            Box::new(|| {
                let _ = fs::remove_file(&store);
                rpctap(&["import".into(), file.clone().into(), "--store".into(), store.clone().into()], Some(&store))
            }),
        ),
        ("sqlite3 .import, unparsed lines", Box::new(|| sqlite3(&folder, &file))),
        ("DuckDB, the same columns", Box::new(|| duckdb(&python, &folder, &file, true))),
        ("DuckDB, rows not numbered", Box::new(|| duckdb(&python, &folder, &file, false))),
    ];
    let mut best: Vec<Option<Took>> = ways.iter().map(|_| None).collect();
    for _ in 0..rounds {
        for (way, best) in ways.iter().zip(&mut best) {
            // Nobody waits for the disk to take what another wrote.
            nix::unistd::sync();
            let took = way.1()?;
            if let Some(took) = took
                && best.as_ref().is_none_or(|best| took.seconds < best.seconds)
            {
                *best = Some(took);
            }
        }
    }
    println!("{:34} {:>8} {:>10} {:>9}", "way", "seconds", "on disk", "memory");
    for ((name, _), took) in ways.iter().zip(&best) {
        match took {
            Some(took) => {
                let disk = took.disk.map_or("-".to_string(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6));
                let memory = took.memory_kib.map_or("-".to_string(), |kib| format!("{} MiB", kib / 1024));
                println!("{name:34} {:>8.2} {disk:>10} {memory:>9}", took.seconds);
            }
            None => println!("{name:34} not to be had here"),
        }
    }
    let seconds = |at: usize| best[at].as_ref().map(|took| took.seconds);
    let ratio = |what: &str, over: Option<f64>, under: Option<f64>, goal: &str| {
        if let (Some(over), Some(under)) = (over, under) {
            println!("{what}: {:.2} (goal: {goal})", over / under);
        }
    };
    ratio("sqlite3 .import / rpctap import", seconds(3), seconds(2), "at least 3");
    ratio("DuckDB / rpctap import", seconds(4), seconds(2), "at least 4");
    ratio("DuckDB, rows not numbered / rpctap import", seconds(5), seconds(2), "none");
    ratio("rpctap analyze / serde_json loop", seconds(1), seconds(0), "at most 1.5");
    let disk = best[2].as_ref().and_then(|took| took.disk).map(|bytes| bytes as f64);
    ratio("store / file", disk, Some(size as f64), "at most 1");
    Ok(())
}

fn setting<N: std::str::FromStr>(name: &str, otherwise: N) -> N {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

struct Took {
    seconds: f64,
    disk: Option<u64>,
    memory_kib: Option<u64>,
}

/// Runs a program to its end and asks the system how much memory it had.
fn run(mut command: Command, most_code: i32, disk: Option<&Path>) -> io::Result<Option<Took>> {
    let start = Instant::now();
    let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut status = 0;
    // SAFETY: both places are ours and live until the call returns; the child is our own and not yet waited for.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage), usage)
    };
    let seconds = start.elapsed().as_secs_f64();
    let fine = waited > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) <= most_code;
    if !fine {
        return Ok(None);
    }
    let disk = disk.and_then(|path| fs::metadata(path).ok()).map(|about| about.len());
    Ok(Some(Took { seconds, disk, memory_kib: Some(usage.ru_maxrss as u64) }))
}

fn rpctap(arguments: &[std::ffi::OsString], disk: Option<&Path>) -> io::Result<Option<Took>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rpctap"));
    command.args(arguments);
    // 1 is what analyze says when it found something.
    run(command, 1, disk)
}

fn sqlite3(folder: &Path, file: &Path) -> io::Result<Option<Took>> {
    let database = folder.join("sqlite3.db");
    let _ = fs::remove_file(&database);
    let mut command = Command::new("sqlite3");
    command.arg(&database).args([
        "CREATE TABLE lines (line TEXT)",
        ".mode ascii",
        ".separator \"\\037\" \"\\n\"",
        &format!(".import {} lines", file.display()),
    ]);
    run(command, 0, Some(&database))
}

/// The columns of our `events` and the bodies, each message parsed once. Numbering the rows in their order, as the store
/// does, keeps DuckDB from reading the file with two threads, so it is measured with and without.
fn duckdb(python: &str, folder: &Path, file: &Path, numbered: bool) -> io::Result<Option<Took>> {
    let database = folder.join("duck.db");
    let _ = fs::remove_file(&database);
    let key = if numbered { "row_number() OVER () AS key, " } else { "" };
    let script = format!(
        r#"
import duckdb
c = duckdb.connect({database:?})
c.execute("""CREATE TABLE messages AS SELECT {key}CAST(ts * 1000000 AS BIGINT) AS at,
    CASE WHEN x[2] IS NOT NULL THEN CASE WHEN x[1] IS NOT NULL THEN 0 ELSE 1 END WHEN x[3] IS NOT NULL THEN 3 ELSE 2 END AS kind,
    dir = 's2c' AS sender, x[1] AS id, x[2] AS method, x[3] AS code, x[4] AS tool, x[5] AS ask_progress, x[6] AS token,
    x[7] AS progress, x[8] AS request_id, x[9] AS is_error, hash(x[10]) AS print, length(raw) AS len, raw
FROM (SELECT ts, dir, raw, json_extract(raw, ['$.id', '$.method', '$.error.code', '$.params.name',
    '$.params._meta.progressToken', '$.params.progressToken', '$.params.progress', '$.params.requestId',
    '$.result.isError', '$.params']) AS x
    FROM read_ndjson('{file}', columns={{ts: 'DOUBLE', dir: 'VARCHAR', raw: 'VARCHAR'}}))""")
c.close()
"#,
        database = database.display().to_string(),
        file = file.display(),
    );
    let mut command = Command::new(python);
    command.args(["-c", &script]).stderr(Stdio::null());
    run(command, 0, Some(&database))
}

#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(rename = "ts")]
    _ts: f64,
    #[serde(borrow, rename = "dir")]
    _dir: Cow<'a, str>,
    #[serde(borrow, default)]
    raw: Cow<'a, str>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    params: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// What anyone would write first: read a line, read its fields, read the envelope of the message in it.
fn envelope_loop(file: &Path) -> io::Result<Took> {
    let start = Instant::now();
    let mut input = BufReader::with_capacity(256 * 1024, File::open(file)?);
    let mut line = Vec::new();
    let (mut requests, mut others) = (0u64, 0u64);
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Ok(outer) = serde_json::from_slice::<Outer<'_>>(&line) else { continue };
        match serde_json::from_str::<Envelope<'_>>(outer.raw.trim_end()) {
            Ok(envelope) if envelope.method.is_some() && envelope.id.is_some() => requests += 1,
            _ => others += 1,
        }
    }
    std::hint::black_box((requests, others));
    Ok(Took { seconds: start.elapsed().as_secs_f64(), disk: None, memory_kib: None })
}

/// A steady generator, so that every run makes the same file.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What tools are asked and what they say: plain words for the most part, names, figures, a quote or a line end here and
/// there.
const WORDS: [&str; 40] = [
    "the",
    "request",
    "was",
    "answered",
    "after",
    "a",
    "while",
    "by",
    "server",
    "which",
    "holds",
    "its",
    "connection",
    "open",
    "until",
    "client",
    "tells",
    "that",
    "it",
    "gives",
    "up",
    "path/to/file.rs",
    "src/main.py",
    "README.md",
    "error",
    "warning",
    "true",
    "0.12345",
    "42",
    "2026-07-28",
    "\"quoted\"",
    "longer words here",
    "line\nline",
    "null",
    "größer",
    "session",
    "[x]",
    "{}",
    "<b>",
    "a=b",
];

/// A text of about this length, as a JSON string.
fn text(dice: &mut Dice, len: u64) -> String {
    let mut text = String::new();
    while (text.len() as u64) < len {
        match dice.roll(8) {
            0 => text.push_str(&format!("{:x}", dice.roll(1 << 32))),
            _ => text.push_str(WORDS[dice.roll(WORDS.len() as u64) as usize]),
        }
        text.push(' ');
    }
    serde_json::Value::from(text).to_string()
}

/// Tool calls, their answers, progress and log messages, with a few cancels and a few calls that never end: 402 bytes a
/// line in the mean.
fn make(file: &Path, messages: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut dice = Dice(0x5eed_cafe_f00d_d00d);
    let mut told = 0;
    let mut id = 0u64;
    let mut micros = 1_794_962_996_000_000u64;
    writeln!(out, "{{\"ts\": {}.000000, \"dir\": \"meta\", \"event\": \"start\"}}", micros / 1_000_000)?;
    let line = |out: &mut BufWriter<File>, micros: u64, dir: &str, body: &str| -> io::Result<()> {
        let raw = serde_json::to_string(&format!("{body}\n"))?;
        writeln!(
            out,
            "{{\"ts\": {}.{:06}, \"dir\": \"{dir}\", \"raw\": {raw}}}",
            micros / 1_000_000,
            micros % 1_000_000
        )
    };
    while told < messages {
        id += 1;
        let (length, tool) = (60 + dice.roll(140), dice.roll(12));
        let argument = text(&mut dice, length);
        micros += 20 + dice.roll(400);
        let call = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"tool_{tool}\",\
             \"arguments\":{{\"query\":{argument},\"limit\":{}}},\"_meta\":{{\"progressToken\":{id}}}}}}}",
            dice.roll(1000)
        );
        line(&mut out, micros, "c2s", &call)?;
        told += 1;
        if dice.roll(10) == 0 {
            micros += dice.roll(200);
            let length = 120 + dice.roll(100);
            let told_text = text(&mut dice, length);
            let progress = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{id},\
                 \"progress\":{},\"message\":{told_text}}}}}",
                dice.roll(100)
            );
            line(&mut out, micros, "s2c", &progress)?;
            told += 1;
        }
        let fate = dice.roll(10_000);
        micros += dice.roll(2_000);
        if fate < 2 {
            continue;
        }
        if fate < 20 {
            let cancel = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\
                 \"reason\":\"the user went away\"}}}}"
            );
            line(&mut out, micros, "c2s", &cancel)?;
            told += 1;
            continue;
        }
        let length = 150 + dice.roll(235);
        let told_text = text(&mut dice, length);
        let answer = if fate < 200 {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32603,\"message\":{told_text}}}}}")
        } else {
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":{told_text}}}],\
                 \"isError\":false}}}}"
            )
        };
        line(&mut out, micros, "s2c", &answer)?;
        told += 1;
    }
    out.flush()
}
