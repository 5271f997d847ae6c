//! What a tap costs, as ratios taken in one run: `cargo bench --bench tap [-- PART…]`.
//!
//! Parts: `latency`, `throughput`, `gigabyte`, `store`. Each prints a table; none passes or fails. mcp-rec (PyPI) is
//! measured as well when `MCP_REC` names it or it is in the PATH (`pip install mcp-rec`).

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const RPCTAP: &str = env!("CARGO_BIN_EXE_rpctap");

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.first().map(String::as_str) {
        Some("serve-echo") => return serve_echo(),
        Some("serve-sink") => return serve_sink(),
        Some("serve-big") => return serve_big(),
        _ => {}
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let folder = tempfile::tempdir().expect("a folder");
    if wanted("latency") {
        latency(folder.path());
    }
    if wanted("throughput") {
        throughput(folder.path(), "300 B messages", 500_000, 300);
        throughput(folder.path(), "1 MB messages", 500, 1_000_000);
    }
    if wanted("gigabyte") {
        gigabyte(folder.path());
    }
    if wanted("store") {
        store::measure(folder.path());
    }
}

// The servers: this same program.

/// Answers each line with itself.
fn serve_echo() {
    let (mut input, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

/// Takes everything.
fn serve_sink() {
    let mut input = std::io::stdin().lock();
    let mut chunk = vec![0; 1 << 20];
    while input.read(&mut chunk).is_ok_and(|len| len > 0) {}
}

/// Sends one message of a gibibyte.
fn serve_big() {
    let mut out = std::io::stdout().lock();
    let chunk = vec![b'x'; 1 << 20];
    let _ = out.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"");
    for _ in 0..1024 {
        if out.write_all(&chunk).is_err() {
            return;
        }
    }
    let _ = out.write_all(b"\"}\n");
}

// The ways to a server.

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Direct,
    Relay,
    Rpctap,
    McpRec,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct => "nothing between",
            Way::Relay => "cat | server | cat",
            Way::Rpctap => "rpctap record",
            Way::McpRec => "mcp-rec record",
        }
    }

    fn all() -> Vec<Way> {
        let mut ways = vec![Way::Direct, Way::Relay, Way::Rpctap];
        if mcp_rec().is_some() {
            ways.push(Way::McpRec);
        } else {
            println!("(mcp-rec is not installed: `pip install mcp-rec`, or name it in MCP_REC)");
        }
        ways
    }

    fn start(self, folder: &Path, server: &str) -> Running {
        let this = std::env::current_exe().expect("our own path");
        let kept = folder.join(format!("{}-{}", self.name().replace([' ', '|'], "-"), counter()));
        let mut command = match self {
            Way::Direct => Command::new(&this),
            Way::Relay => {
                let mut command = Command::new("sh");
                command.args(["-c", "cat | \"$0\" \"$1\" | cat"]).arg(&this);
                command
            }
            Way::Rpctap => {
                let mut command = Command::new(RPCTAP);
                command.arg("record").arg("--store").arg(kept.with_extension("db")).arg("--").arg(&this);
                command
            }
            Way::McpRec => {
                let mut command = Command::new(mcp_rec().expect("found before"));
                command.args(["record", "-o"]).arg(kept.with_extension("jsonl")).arg("--").arg(&this);
                command
            }
        };
        command.arg(server).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let (stdin, stdout) = (child.stdin.take().expect("stdin"), child.stdout.take().expect("stdout"));
        Running { child, stdin, stdout: BufReader::with_capacity(1 << 20, stdout), kept }
    }
}

struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    kept: PathBuf,
}

impl Running {
    fn end(mut self) -> PathBuf {
        drop(self.stdin);
        let _ = std::io::copy(&mut self.stdout, &mut std::io::sink());
        let _ = self.child.wait();
        self.kept
    }
}

fn counter() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn mcp_rec() -> Option<PathBuf> {
    let named = std::env::var_os("MCP_REC").map(PathBuf::from).filter(|path| path.is_file());
    let in_path = || {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join("mcp-rec"))
            .find(|path| path.is_file())
    };
    named.or_else(in_path)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

// The measurements.

/// Round trips of 200 bytes, everything on one core, rounds of the different ways in turn.
fn latency(folder: &Path) {
    const ROUNDS: usize = 7;
    const TRIPS: usize = 10_000;
    let ways = Way::all();
    pin(true);
    let mut found: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, (halves, hundredths)) in ways.iter().zip(&mut found) {
            let mut running = way.start(folder, "serve-echo");
            let mut line = String::new();
            let mut times = Vec::with_capacity(TRIPS);
            for id in 0..TRIPS + 500 {
                let head =
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"");
                let request = format!("{head}{}\"}}}}\n", "n".repeat(200 - head.len() - 4));
                let start = Instant::now();
                running.stdin.write_all(request.as_bytes()).expect("sent");
                line.clear();
                running.stdout.read_line(&mut line).expect("answered");
                if id >= 500 {
                    times.push(start.elapsed().as_secs_f64() * 1e6);
                }
            }
            running.end();
            times.sort_by(f64::total_cmp);
            halves.push(times[TRIPS / 2]);
            hundredths.push(times[TRIPS * 99 / 100]);
        }
    }
    pin(false);
    println!("\nround trip of 200 B, one core, median of {ROUNDS} rounds of {TRIPS}");
    println!("{:<22} {:>9} {:>9} {:>11} {:>11}", "", "p50 µs", "p99 µs", "added p50", "added p99");
    let (p50, p99): (Vec<f64>, Vec<f64>) =
        found.into_iter().map(|(halves, hundredths)| (median(halves), median(hundredths))).unzip();
    for (at, way) in ways.iter().enumerate() {
        let added = (p50[at] - p50[0], p99[at] - p99[0]);
        println!("{:<22} {:>9.1} {:>9.1} {:>11.1} {:>11.1}", way.name(), p50[at], p99[at], added.0, added.1);
    }
    let added = |values: &[f64], way: Way| ways.iter().position(|known| *known == way).map(|at| values[at] - values[0]);
    let ratio = |values: &[f64], way: Way| Some(added(values, Way::Rpctap)? / added(values, way)?);
    for (what, values, way) in [("p50", &p50, Way::Relay), ("p99", &p99, Way::Relay), ("p50", &p50, Way::McpRec)] {
        if let Some(ratio) = ratio(values, way) {
            println!("rpctap adds {ratio:.2} times what {} adds ({what})", way.name());
        }
    }
}

/// Messages as fast as the pipe takes them, until all are on disk.
fn throughput(folder: &Path, what: &str, count: usize, bytes: usize) {
    println!("\n{what}, streamed, until all are on disk, median of 3");
    let ways = Way::all();
    let mut rates = vec![Vec::new(); ways.len()];
    for _ in 0..3 {
        for (way, rates) in ways.iter().zip(&mut rates) {
            let mut running = way.start(folder, "serve-sink");
            let over = give_up_on(running.child.id());
            let start = Instant::now();
            let sent = send_many(&mut running.stdin, count, bytes);
            let kept = running.end();
            over.store(true, Ordering::Relaxed);
            let took = start.elapsed();
            rates.push(if sent.is_ok() && took < GIVE_UP_AFTER { count as f64 / took.as_secs_f64() } else { 0.0 });
            for ending in ["db", "jsonl"] {
                let _ = std::fs::remove_file(kept.with_extension(ending));
            }
        }
    }
    let rates: Vec<f64> = rates.into_iter().map(median).collect();
    for (way, rate) in ways.iter().zip(&rates) {
        if *rate == 0.0 {
            println!("{:<22} hangs (given up after {} s)", way.name(), GIVE_UP_AFTER.as_secs());
            continue;
        }
        println!("{:<22} {:>12.0} messages/s {:>8.0} MB/s", way.name(), rate, rate * bytes as f64 / 1e6);
    }
    if let (Some(ours), Some(theirs)) = (rates.get(2), rates.get(3)) {
        println!("rpctap takes {:.1} times what mcp-rec takes", ours / theirs);
    }
}

/// What takes longer than this hangs.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Ends a program that hangs, unless told in time that it is over.
fn give_up_on(pid: u32) -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&over);
    std::thread::spawn(move || {
        let start = Instant::now();
        while start.elapsed() < GIVE_UP_AFTER {
            if flag.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // SAFETY: signals a child of ours that has not been waited for, as its end would have been told.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    });
    over
}

fn send_many(to: &mut ChildStdin, count: usize, bytes: usize) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 18, to);
    for id in 0..count {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"text\":\"");
        out.write_all(head.as_bytes())?;
        let filling = [b't'; 4096];
        let mut left = bytes - head.len() - 4;
        while left > 0 {
            let part = left.min(filling.len());
            out.write_all(&filling[..part])?;
            left -= part;
        }
        out.write_all(b"\"}}\n")?;
    }
    out.flush()
}

/// One message of a gibibyte: memory, first byte, whole.
fn gigabyte(folder: &Path) {
    println!("\none message of 1 GiB from the server");
    println!("{:<22} {:>14} {:>10} {:>16}", "", "first byte ms", "whole s", "peak memory MiB");
    let mut firsts = Vec::new();
    for way in [Way::Direct, Way::Relay, Way::Rpctap] {
        let mut first = Vec::new();
        let (mut whole, mut peak) = (0.0, None);
        for round in 0..5 {
            let start = Instant::now();
            let Running { mut child, stdin, mut stdout, kept } = way.start(folder, "serve-big");
            // The relay's first `cat` would wait for it.
            drop(stdin);
            let mut byte = [0];
            stdout.read_exact(&mut byte).expect("a first byte");
            first.push(start.elapsed().as_secs_f64() * 1e3);
            if round > 0 {
                // Only the first byte was wanted.
                let _ = child.kill();
                let _ = child.wait();
                continue;
            }
            let status = format!("/proc/{}/status", child.id());
            let mut chunk = vec![0; 1 << 20];
            while stdout.read(&mut chunk).is_ok_and(|len| len > 0) {
                peak = peak.max(high_water(&status));
            }
            whole = start.elapsed().as_secs_f64();
            while child.try_wait().is_ok_and(|ended| ended.is_none()) {
                peak = peak.max(high_water(&status));
                std::thread::sleep(Duration::from_millis(5));
            }
            if way == Way::Rpctap {
                let drained = start.elapsed().as_secs_f64();
                let size = std::fs::metadata(kept.with_extension("db")).map_or(0, |found| found.len());
                println!("  (recorded: all on disk after {drained:.1} s, {} MiB)", size >> 20);
            }
        }
        let peak =
            peak.filter(|_| way == Way::Rpctap).map_or("-".to_string(), |kib| format!("{:.1}", kib as f64 / 1024.0));
        println!("{:<22} {:>14.2} {:>10.2} {:>16}", way.name(), median(first.clone()), whole, peak);
        firsts.push(median(first));
    }
    let idle = Way::Rpctap.start(folder, "serve-echo");
    std::thread::sleep(Duration::from_millis(300));
    let resting = high_water(&format!("/proc/{}/status", idle.child.id())).unwrap_or(0);
    idle.end();
    println!(
        "an idle tap takes {:.1} MiB; first byte {:.2} times the relay's",
        resting as f64 / 1024.0,
        firsts[2] / firsts[1]
    );
}

fn high_water(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    text.lines().find(|line| line.starts_with("VmHWM:"))?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(target_os = "linux")]
fn pin(on: bool) {
    // SAFETY: sets which cores this thread, and what it starts, may use.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for core in 0..if on { 1 } else { 64 } {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_: bool) {}

/// Two million messages: into a store, and out again.
mod store {
    use std::ops::ControlFlow;
    use std::path::Path;
    use std::process::Command;
    use std::time::Instant;

    use rpctap::event::{Knows, Scribe, Session, Side, Sink, Source};
    use rpctap::store::{Bulk, Store};

    const EXCHANGES: u64 = 1_000_000;

    pub fn measure(folder: &Path) {
        println!("\n{} messages in a store", EXCHANGES * 2);
        let path = folder.join("many.db");
        let text = conversation();
        let start = Instant::now();
        let mut bulk = Bulk::create(&path).expect("a new store");
        let bytes = fill(&mut bulk, &text);
        drop(bulk.finish().expect("written"));
        let size = std::fs::metadata(&path).map_or(0, |found| found.len());
        println!(
            "{:<44} {:>7.2} s  ({:.0} MB in, {:.0} B a message on disk)",
            "read, cut, scanned and written (two threads)",
            start.elapsed().as_secs_f64(),
            bytes as f64 / 1e6,
            size as f64 / (EXCHANGES * 2) as f64
        );
        println!("from here on the best of three; CPU time, which other work does not touch, and by the clock:");
        let (bare, bare_clock) = best_of_three(|| bare_loop(&path));
        let (events, events_clock) = best_of_three(|| through_events(&path));
        println!("{:<44} {bare:>7.2} s {bare_clock:>7.2} s", "a bare loop over the same rows");
        println!(
            "{:<44} {events:>7.2} s {events_clock:>7.2} s  ({:.2} and {:.2} times)",
            "the same rows as events",
            events / bare,
            events_clock / bare_clock
        );
        let mut peak = 0;
        let (analyze, analyze_clock) = best_of_three(|| {
            let mut command = Command::new(super::RPCTAP);
            command.arg("analyze").arg(&path).stdout(std::process::Stdio::null());
            let Ok(child) = command.spawn() else { return f64::NAN };
            // SAFETY: waits for our own child, into values of the right type.
            let used = unsafe {
                let mut used: libc::rusage = std::mem::zeroed();
                libc::wait4(child.id() as i32, std::ptr::null_mut(), 0, &raw mut used);
                used
            };
            peak = peak.max(used.ru_maxrss as u64);
            let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
            seconds(used.ru_utime) + seconds(used.ru_stime)
        });
        println!(
            "{:<44} {analyze:>7.2} s {analyze_clock:>7.2} s  ({:.2} and {:.2} times; peak memory {:.1} MiB)",
            "rpctap analyze (two threads)",
            analyze / bare,
            analyze_clock / bare_clock,
            peak as f64 / 1024.0
        );
    }

    /// What this thread has used so far.
    fn cpu_seconds() -> f64 {
        // SAFETY: fills a value of the right type.
        let now = unsafe {
            let mut now: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now);
            now
        };
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    }

    /// CPU seconds as the run tells them, and seconds by the clock.
    fn best_of_three(mut run: impl FnMut() -> f64) -> (f64, f64) {
        let mut best = (f64::INFINITY, f64::INFINITY);
        for _ in 0..3 {
            let start = Instant::now();
            let used = run();
            best = (best.0.min(used), best.1.min(start.elapsed().as_secs_f64()));
        }
        best
    }

    /// A few thousand different lines, used over and over: about 400 bytes each.
    fn conversation() -> Vec<(String, String)> {
        let tools = ["search", "read_file", "fetch", "list", "query"];
        (0..1000usize)
            .map(|n| {
                let ask = format!(
                    "\"method\":\"tools/call\",\"params\":{{\"name\":\"{}\",\"arguments\":{{\"text\":\"{}\"}}}}",
                    tools[n % 5],
                    "a".repeat(150 + n % 150)
                );
                let answer = format!(
                    "\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}],\"isError\":false}}",
                    "b".repeat(300 + n % 200)
                );
                (ask, answer)
            })
            .collect()
    }

    fn fill(sink: &mut dyn Sink, text: &[(String, String)]) -> u64 {
        let session = Session {
            key: 1,
            name: "many".to_string(),
            source: Source::Import("bench".to_string()),
            target: "two million messages".to_string(),
            started_at: 1_700_000_000_000_000,
            knows: Knows::ALL,
        };
        sink.session(&session);
        let mut scribe = Scribe::new(1);
        let (mut asks, mut answers) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for id in 0..EXCHANGES {
            let (ask, answer) = &text[id as usize % text.len()];
            let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
            for (out, part) in [(&mut asks, ask), (&mut answers, answer)] {
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(part.as_bytes());
                out.extend_from_slice(b"}\n");
            }
            if asks.len() > 64 * 1024 || id == EXCHANGES - 1 {
                let at = session.started_at + id as i64 * 1000;
                scribe.bytes(Side::Client, at, &asks, sink);
                scribe.bytes(Side::Server, at + 500, &answers, sink);
                bytes += asks.len() as u64 + answers.len() as u64;
                asks.clear();
                answers.clear();
            }
        }
        bytes
    }

    /// What SQLite itself needs: each row stepped over, each of its columns read.
    fn bare_loop(path: &Path) -> f64 {
        let start = cpu_seconds();
        let conn = rusqlite::Connection::open(path).expect("a store");
        let mut select = conn.prepare("SELECT * FROM events ORDER BY key").expect("a statement");
        let width = select.column_count();
        let mut rows = select.query([]).expect("rows");
        let mut sum = 0i64;
        while let Some(row) = rows.next().expect("a row") {
            for at in 0..width {
                if let rusqlite::types::ValueRef::Integer(int) = row.get_ref_unwrap(at) {
                    sum = sum.wrapping_add(int);
                }
            }
        }
        std::hint::black_box(sum);
        cpu_seconds() - start
    }

    fn through_events(path: &Path) -> f64 {
        let start = cpu_seconds();
        let store = Store::open_readonly(path).expect("a store");
        let mut count = 0u64;
        let mut look = |event: rpctap::event::Event| {
            count += event.seq & 1;
            ControlFlow::Continue(())
        };
        store.for_each_event(1, &mut look).expect("readable");
        std::hint::black_box(count);
        cpu_seconds() - start
    }
}
