//! What the HTTP proxy costs, against nginx and against nothing, as ratios taken in one run.
//!
//! `cargo bench --bench proxy [-- PART…]`. Parts: `post` (small JSON POSTs: latency of one connection, rate of
//! sixteen), `stream` (one long event stream: events per second, delay of an event), `many` (500 event streams at
//! once; for a minute with RPCTAP_FULL=1, else for some seconds). Needs nginx in the PATH. The proxy records all the
//! time, into a store in a temporary folder; the upstream is this same program. The latency of POSTs is taken with everything
//! on one core, since it jumps with the scheduler's choice of cores otherwise, and on all cores, as it is used. What rpctap has put off in a rush is waited for
//! before the next measurement, and told.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const RPCTAP: &str = env!("CARGO_BIN_EXE_rpctap");
const ROUNDS: usize = 5;
const CONNECTIONS: usize = 16;
const ROUND: Duration = Duration::from_secs(2);
const TRIPS: usize = 4_000;
const EVENTS: usize = 400_000;
const PACED_EVENTS: usize = 1_000;
const STREAMS: usize = 500;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().is_some_and(|word| word == "serve") {
        return serve();
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("post") || wanted("stream") {
        let all = pinned_to_one();
        let scene = Scene::set();
        if wanted("post") {
            let table = scene.interleaved(latency);
            print("one connection, p50 of a POST on one core, µs (less is better)", &table, true);
        }
        if wanted("stream") {
            let table = scene.interleaved(delay);
            print(
                "one event stream, p50 from sending to hearing an event on one core, µs (less is better)",
                &table,
                true,
            );
        }
        scene.end();
        set_cores(&all);
    }
    let scene = Scene::set();
    if wanted("post") {
        let table = scene.interleaved(latency);
        print("one connection, p50 of a POST on all cores, µs (less is better)", &table, true);
        let table = scene.interleaved(rate);
        print("16 connections, POSTs per second", &table, false);
    }
    if wanted("stream") {
        let table = scene.interleaved(events_per_second);
        print("one event stream, events per second", &table, false);
        let table = scene.interleaved(delay);
        print("one event stream, p50 from sending to hearing an event on all cores, µs (less is better)", &table, true);
    }
    if wanted("many") {
        many(&scene.rpctap);
    }
    scene.end();
}

/// The cores this thread, and what it starts, may run on.
fn cores() -> libc::cpu_set_t {
    // SAFETY: the set is ours, and as long as is said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    }
}

fn set_cores(set: &libc::cpu_set_t) {
    // SAFETY: the set is only read.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

/// Keeps to the first core we have; gives those there were.
fn pinned_to_one() -> libc::cpu_set_t {
    let all = cores();
    // SAFETY: the sets are ours.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        if let Some(first) = (0..libc::CPU_SETSIZE as usize).find(|core| libc::CPU_ISSET(*core, &all)) {
            libc::CPU_SET(first, &mut one);
        }
        set_cores(&one);
    }
    all
}

/// All who take part.
struct Scene {
    folder: tempfile::TempDir,
    upstream: Helper,
    nginx: Helper,
    rpctap: Helper,
}

impl Scene {
    fn set() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let upstream = Helper::upstream();
        let nginx = Helper::nginx(folder.path(), upstream.address);
        let rpctap = Helper::rpctap(folder.path(), upstream.address);
        Scene { folder, upstream, nginx, rpctap }
    }

    /// Measures each way once per round, and gives the medians.
    fn interleaved(&self, measure: fn(SocketAddr) -> f64) -> Vec<(&'static str, f64)> {
        let ways = [("none", &self.upstream), ("nginx", &self.nginx), ("rpctap", &self.rpctap)];
        let mut found = vec![Vec::new(); ways.len()];
        let mut put_off = Duration::ZERO;
        for _ in 0..ROUNDS {
            for (list, (_, helper)) in found.iter_mut().zip(ways) {
                list.push(measure(helper.address));
                put_off = put_off.max(self.rpctap.settle());
            }
        }
        if put_off > 2 * QUIET {
            println!("\n(rpctap wrote up what it had put off for up to {:.1} s after a round)", put_off.as_secs_f64());
        }
        let median = |mut list: Vec<f64>| {
            list.sort_by(f64::total_cmp);
            list[list.len() / 2]
        };
        ways.iter().zip(found).map(|((name, _), list)| (*name, median(list))).collect()
    }

    fn end(self) {
        self.rpctap.end(self.folder.path());
    }
}

/// Who needs less processor time than this in a tenth of a second is at rest.
const QUIET: Duration = Duration::from_millis(100);

fn print(title: &str, table: &[(&str, f64)], latency: bool) {
    println!("\n{title}");
    let none = table[0].1;
    for (name, value) in table {
        let added = if latency { format!("  added {:.1}", value - none) } else { String::new() };
        println!("  {name:7} {value:12.1}{added}");
    }
    let (nginx, rpctap) = (table[1].1, table[2].1);
    match latency {
        true => println!("  rpctap adds {:.2} times what nginx adds", (rpctap - none) / (nginx - none)),
        false => println!("  rpctap reaches {:.2} of nginx", rpctap / nginx),
    }
}

// What is measured.

fn request(target: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"search","arguments":{{"query":"{}"}}}}}}"#,
        "x".repeat(110)
    );
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: 4b1d0d9e\r\nMCP-Protocol-Version: 2025-06-18\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    BufReader::new(stream)
}

/// Reads a head; gives the length of the body it announces.
fn read_head(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(length);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
}

fn round_trip(line: &mut BufReader<TcpStream>, request: &[u8], body: &mut Vec<u8>) {
    line.get_mut().write_all(request).expect("a request");
    let length = read_head(line).expect("an answer");
    body.resize(length, 0);
    line.read_exact(body).expect("a body");
    assert!(body.starts_with(b"{"), "{}", String::from_utf8_lossy(body));
}

fn latency(address: SocketAddr) -> f64 {
    let (mut line, request, mut body) = (connect(address), request("/mcp"), Vec::new());
    let mut trips: Vec<Duration> = (0..TRIPS)
        .map(|_| {
            let begin = Instant::now();
            round_trip(&mut line, &request, &mut body);
            begin.elapsed()
        })
        .collect();
    trips.sort();
    trips[trips.len() / 2].as_nanos() as f64 / 1000.0
}

fn rate(address: SocketAddr) -> f64 {
    let begin = Instant::now();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            thread::spawn(move || {
                let (mut line, request, mut body) = (connect(address), request("/mcp"), Vec::new());
                let mut trips = 0u64;
                while begin.elapsed() < ROUND {
                    round_trip(&mut line, &request, &mut body);
                    trips += 1;
                }
                trips
            })
        })
        .collect();
    let trips: u64 = clients.into_iter().map(|client| client.join().expect("a client")).sum();
    trips as f64 / begin.elapsed().as_secs_f64()
}

/// Undoes the chunks, which need not end where events do.
struct Chunked {
    line: BufReader<TcpStream>,
    left: usize,
}

impl Read for Chunked {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut size = String::new();
            if self.line.read_line(&mut size)? == 0 {
                return Ok(0);
            }
            match usize::from_str_radix(size.trim(), 16) {
                Ok(0) => return Ok(0),
                Ok(size) => self.left = size,
                // The line end behind the last chunk.
                Err(_) => {}
            }
        }
        let room = into.len().min(self.left);
        let read = self.line.read(&mut into[..room])?;
        self.left -= read;
        Ok(read)
    }
}

/// Opens an event stream; the lines of its events follow.
fn open_stream(address: SocketAddr, target: &str) -> BufReader<Chunked> {
    let mut line = connect(address);
    line.get_mut()
        .write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: 4b1d0d9e\r\n\r\n").as_bytes())
        .expect("a request");
    read_head(&mut line).expect("an answer");
    BufReader::new(Chunked { line, left: 0 })
}

fn events_per_second(address: SocketAddr) -> f64 {
    let mut line = open_stream(address, &format!("/flood/{EVENTS}"));
    let begin = Instant::now();
    let mut heard = 0;
    let mut text = Vec::new();
    while heard < EVENTS {
        text.clear();
        assert!(line.read_until(b'\n', &mut text).expect("an event") > 0, "only {heard} events came");
        heard += usize::from(text.starts_with(b"data:"));
    }
    EVENTS as f64 / begin.elapsed().as_secs_f64()
}

fn now_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos()
}

fn delay(address: SocketAddr) -> f64 {
    let mut line = open_stream(address, &format!("/paced/{PACED_EVENTS}"));
    let mut delays = Vec::new();
    let mut text = String::new();
    while delays.len() < PACED_EVENTS {
        text.clear();
        assert!(line.read_line(&mut text).expect("an event") > 0, "the stream ended");
        if let Some(sent) = text.split("\"at\":").nth(1).and_then(|rest| rest.split('}').next()) {
            delays.push(now_nanos().saturating_sub(sent.parse::<u128>().expect("a time")));
        }
    }
    delays.sort_unstable();
    delays[delays.len() / 2] as f64 / 1000.0
}

fn many(rpctap: &Helper) {
    let seconds = if std::env::var_os("RPCTAP_FULL").is_some() { 60 } else { 8 };
    let address = rpctap.address;
    let before = usage(rpctap.child.id());
    let clients: Vec<_> = (0..STREAMS)
        .map(|_| {
            let client = move || {
                let mut line = open_stream(address, &format!("/slow/{seconds}"));
                let (mut heard, mut text) = (0, String::new());
                while heard < seconds {
                    text.clear();
                    assert!(line.read_line(&mut text).expect("an event") > 0, "the stream ended after {heard}");
                    heard += usize::from(text.starts_with("data:"));
                }
                heard
            };
            thread::Builder::new().stack_size(128 * 1024).spawn(client).expect("a client")
        })
        .collect();
    thread::sleep(Duration::from_secs(seconds as u64 / 4));
    let early = usage(rpctap.child.id());
    thread::sleep(Duration::from_secs(seconds as u64 / 2));
    let late = usage(rpctap.child.id());
    let heard: usize = clients.into_iter().map(|client| client.join().expect("a client")).sum();
    thread::sleep(Duration::from_secs(1));
    let after = usage(rpctap.child.id());
    println!(
        "\n{STREAMS} event streams for {seconds} s, one event a second each: {heard} of {} heard",
        STREAMS * seconds
    );
    for (when, (kilobytes, files)) in
        [("before", before), ("a quarter in", early), ("near the end", late), ("after", after)]
    {
        println!("  {when:13} {kilobytes:8} kB  {files:5} files");
    }
}

/// Resident memory in kB and open files.
fn usage(pid: u32) -> (u64, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kilobytes = resident.trim().split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (kilobytes, fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count))
}

// Who is measured.

struct Helper {
    child: Child,
    address: SocketAddr,
}

impl Helper {
    fn upstream() -> Helper {
        let own = std::env::current_exe().expect("our own path");
        let mut child = Command::new(own).arg("serve").stdout(Stdio::piped()).spawn().expect("the upstream");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its stdout")).read_line(&mut line).expect("its address");
        Helper { child, address: line.trim().parse().expect("an address") }
    }

    fn nginx(folder: &Path, upstream: SocketAddr) -> Helper {
        let address = free();
        let conf = folder.join("nginx.conf");
        let text = format!(
            "worker_processes 2; pid {0}/nginx.pid; error_log {0}/nginx.log; events {{ worker_connections 4096; }}
             http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy;
             fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
             upstream up {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}
             server {{ listen {address}; tcp_nodelay on; location / {{ proxy_pass http://up; proxy_http_version 1.1;
             proxy_set_header Connection \"\"; proxy_buffering off; proxy_read_timeout 1h; }} }} }}",
            folder.display()
        );
        fs::write(&conf, text).expect("nginx's configuration");
        let child = Command::new("nginx").arg("-c").arg(&conf).args(["-g", "daemon off;"]).spawn();
        let helper = Helper { child: child.expect("nginx in the PATH"), address };
        helper.await_listening()
    }

    fn rpctap(folder: &Path, upstream: SocketAddr) -> Helper {
        let mut child = Command::new(RPCTAP)
            .args(["proxy", "--upstream", &format!("http://{upstream}"), "--store"])
            .arg(folder.join("store.db"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("rpctap");
        let mut line = String::new();
        let mut talk = BufReader::new(child.stderr.take().expect("its stderr"));
        talk.read_line(&mut line).expect("its address");
        thread::spawn(move || std::io::copy(&mut talk, &mut std::io::stderr()));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        Helper { child, address: address.parse().expect("an address") }
    }

    fn await_listening(self) -> Helper {
        while TcpStream::connect(self.address).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Waits until it has nothing to do; gives how long that took.
    fn settle(&self) -> Duration {
        let ticks = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
            let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
            let mut next = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            next() + next()
        };
        let begin = Instant::now();
        loop {
            let before = ticks();
            thread::sleep(QUIET);
            if ticks() <= before + 1 {
                return begin.elapsed();
            }
        }
    }

    /// Ends rpctap in order, and says how long it took to write the rest and what lies in the store.
    fn end(mut self, folder: &Path) {
        let begin = Instant::now();
        terminate(self.child.id());
        let status = self.child.wait().expect("its end");
        let store = rpctap::store::Store::open_readonly(&folder.join("store.db")).expect("the store");
        let count = store.query("select count(*) from events").expect("a count");
        let size = fs::metadata(folder.join("store.db")).map_or(0, |found| found.len());
        println!(
            "\nrpctap ended with {status}, {:.1} s after SIGTERM; {} events and {} MB in the store",
            begin.elapsed().as_secs_f64(),
            count[0][0].as_deref().unwrap_or("?"),
            size / 1_000_000
        );
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        terminate(self.child.id());
        let _ = self.child.wait();
    }
}

fn terminate(pid: u32) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::Signal::SIGTERM);
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

// The upstream: this same program.

fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    for stream in listener.incoming().flatten() {
        let _ = thread::Builder::new().stack_size(128 * 1024).spawn(move || answer(stream));
    }
}

fn answer(stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut line = BufReader::new(stream);
    let result = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
        "y".repeat(230)
    );
    let canned = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{result}",
        result.len()
    );
    let mut body = Vec::new();
    let mut first = String::new();
    loop {
        first.clear();
        if line.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let target = first.split(' ').nth(1)?.to_string();
        let length = read_head(&mut line)?;
        body.resize(length, 0);
        line.read_exact(&mut body).ok()?;
        let mut words = target.split('/').skip(1);
        let (kind, count) = (words.next()?, words.next().and_then(|count| count.parse().ok()).unwrap_or(0));
        let pause = match kind {
            "flood" => None,
            "paced" => Some(Duration::from_millis(1)),
            "slow" => Some(Duration::from_secs(1)),
            _ => {
                line.get_mut().write_all(canned.as_bytes()).ok()?;
                continue;
            }
        };
        let out = line.get_mut();
        out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            .ok()?;
        for number in 0..count {
            if let Some(pause) = pause {
                thread::sleep(pause);
            }
            let at = now_nanos();
            let event = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"n\":{number},\"at\":{at}}}}}\n\n"
            );
            out.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).ok()?;
        }
        out.write_all(b"0\r\n\r\n").ok()?;
    }
}
