//! The report page in a real browser: it shows its rows, filters and sorts, makes no script error and lets nothing
//! of a hostile recording act.
//!
//! Needs Chromium and its driver (Debian's `chromium` and `chromium-driver`). Without them the tests say so and
//! pass, unless `RPCTAP_BROWSER=required` is set, as the checks of every change do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// A browser behind its driver, ended when dropped.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// `None`, with a line that says why, where there is none.
    fn start() -> Option<Browser> {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut driver) = started else {
            let required = std::env::var("RPCTAP_BROWSER").is_ok_and(|word| word == "required");
            assert!(!required, "no chromedriver: install chromium and chromium-driver");
            eprintln!("SKIPPED: no chromedriver on this machine, so the page was not tried in a browser");
            return None;
        };
        let mut lines = BufReader::new(driver.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let port = loop {
            line.clear();
            assert!(lines.read_line(&mut line).expect("a line") > 0, "chromedriver ended");
            if let Some((_, rest)) = line.split_once("successfully on port ") {
                break rest.trim().trim_end_matches('.').parse().expect("a port");
            }
        };
        // Nobody reads the rest; a full pipe must not stop it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let profile = tempfile::tempdir().expect("a folder");
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=900,1400",
        ];
        let mut flags: Vec<String> = flags.map(str::to_string).to_vec();
        flags.push(format!("--user-data-dir={}", browser._profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let answer = browser.call("POST", "/session", &wanted);
        browser.session = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}")).to_string();
        Some(browser)
    }

    fn call(&self, verb: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            stream,
            "{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .expect("a request");
        // The driver keeps connections open whatever it is asked: the length says where the answer ends.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        let mut line = String::new();
        while reader.read_line(&mut line).expect("a head") > 2 {
            if let Some((_, value)) = line.to_ascii_lowercase().split_once("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            line.clear();
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).expect("an answer");
        serde_json::from_slice::<Value>(&answer).expect("JSON")["value"].take()
    }

    fn open(&self, page: &Path) {
        self.call(
            "POST",
            &format!("/session/{}/url", self.session),
            &json!({ "url": format!("file://{}", page.display()) }),
        );
    }

    fn run(&self, script: &str) -> Value {
        self.call("POST", &format!("/session/{}/execute/sync", self.session), &json!({ "script": script, "args": [] }))
    }

    /// Everything that was logged: errors of scripts, refusals of the content policy.
    fn log(&self) -> Vec<String> {
        let entries = self.call("POST", &format!("/session/{}/se/log", self.session), &json!({ "type": "browser" }));
        entries.as_array().expect("entries").iter().map(|entry| entry["message"].to_string()).collect()
    }

    fn screenshot(&self, to: &Path) {
        let shot = self.call("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        std::fs::write(to, shot.as_str().unwrap_or_default()).expect("a file");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Or else the browser outlives its driver.
            let ended = self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
            assert!(ended.is_null() || std::thread::panicking(), "the browser runs on: {ended}");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn page_of(recording: &Path, folder: &Path) -> std::path::PathBuf {
    let page = folder.join("report.html");
    let run = Command::new(env!("CARGO_BIN_EXE_rpctap"))
        .args(["analyze", "--format", "html", "--fail-on", "never", "--output"])
        .arg(&page)
        .arg(recording)
        .output()
        .expect("rpctap");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    page
}

const HOSTILE: [&str; 7] = [
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=\"window.pwned=1\">",
    "\u{202e}evil\u{2066}\u{200b}",
    "a\u{2028}b\u{2029}c</title><svg onload=window.pwned=1>",
    "\u{1b}[2J\u{7}\u{9b}31m",
    "{{constructor.constructor('window.pwned=1')()}}",
    "<!--<script>",
];

/// A recording in which everything a peer can choose is hostile: names, ids, tools, versions, tokens.
fn hostile_recording(folder: &Path) -> std::path::PathBuf {
    let mut lines = String::new();
    let mut say = |at: f64, dir: &str, message: Value| {
        lines += &json!({ "ts": 1_794_962_996.0 + at, "dir": dir, "raw": message.to_string() + "\n" }).to_string();
        lines.push('\n');
    };
    let name = HOSTILE[0];
    say(
        0.0,
        "c2s",
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": HOSTILE[1], "version": HOSTILE[3] } } }),
    );
    say(
        0.1,
        "s2c",
        json!({ "jsonrpc": "2.0", "id": 0, "result": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": name, "version": HOSTILE[2] } } }),
    );
    let mut at = 0.2;
    for round in 0..20 {
        for (place, text) in HOSTILE.iter().enumerate() {
            at += 0.1;
            let id = format!("{round}{text}");
            say(
                at,
                "c2s",
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": text, "arguments": {} } }),
            );
            if place % 2 == 0 {
                say(at + 0.01, "s2c", json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
                say(at + 0.02, "s2c", json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
            }
            say(at + 0.03, "c2s", json!({ "jsonrpc": "2.0", "id": format!("m{id}"), "method": text }));
        }
    }
    let path = folder.join("hostile.ndjson");
    std::fs::write(&path, lines).expect("a file");
    path
}

#[test]
fn a_hostile_recording_gives_a_page_in_which_nothing_acts() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = page_of(&hostile_recording(folder.path()), folder.path());
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.len() < 2_000_000, "{}", text.len());
    assert!(!text.contains("<script>window.pwned") && !text.contains("<img") && !text.contains("<svg onload"));
    assert!(!text.contains(['\u{202e}', '\u{2028}', '\u{1b}', '\u{9b}']));
    assert!(!text.contains("http://") || text.replace("http://www.w3.org/2000/svg", "").find("http://").is_none());
    let Some(browser) = Browser::start() else { return };
    browser.open(&page);
    assert_eq!(browser.run("return document.documentElement.dataset.ready"), json!("yes"));
    assert_eq!(browser.run("return typeof window.pwned"), json!("undefined"));
    assert_eq!(
        browser.run("return document.querySelectorAll('img, iframe, svg [onload], figure script').length"),
        json!(0)
    );
    let names =
        browser.run("return [...document.querySelectorAll('#methods-0 td.name')].map(cell => cell.textContent)");
    let names: Vec<&str> = names.as_array().expect("names").iter().filter_map(Value::as_str).collect();
    assert!(names.contains(&"tools/call:</script><script>window.pwned=1</script>"), "{names:?}");
    assert!(names.iter().any(|name| name.contains("\\u{202e}evil")), "{names:?}");
    assert_eq!(browser.log(), Vec::<String>::new(), "no script error, nothing refused");
}

#[test]
fn the_page_filters_sorts_and_unfolds() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/r1-pysdk-1.29.0-pathB.ndjson");
    let page = page_of(&sample, folder.path());
    let Some(browser) = Browser::start() else { return };
    browser.open(&page);
    assert_eq!(browser.run("return document.documentElement.dataset.ready"), json!("yes"));
    assert_eq!(browser.run("return document.querySelectorAll('figure svg').length"), json!(4));
    let card = browser.run("return document.querySelector('.card b').textContent");
    assert_eq!(card, json!("50"), "orphaned requests");
    let rows = "return [...document.querySelectorAll('#methods-0 tbody tr')].map(row => row.cells[0].textContent)";
    let all = browser.run(rows);
    let all: Vec<&str> = all.as_array().expect("rows").iter().filter_map(Value::as_str).collect();
    assert!(all.contains(&"tools/call:hangs_forever_async"), "{all:?}");
    // Sorted by requests, up: the busiest is the last.
    let sort =
        "const head = [...document.querySelectorAll('#methods-0 th button')].find(b => b.textContent === 'requests');
                head.click(); head.click();";
    browser.run(sort);
    let sorted = browser.run(rows);
    assert_eq!(sorted.as_array().and_then(|rows| rows.last()), Some(&json!("tools/call:hangs_forever_async")));
    let found = browser.run(
        "const box = document.querySelector('#findings-0 details.finding'); box.open = true;
         return [box.querySelector('summary').textContent, box.querySelector('pre') ? box.querySelector('pre').textContent : '']",
    );
    assert!(found[0].as_str().expect("a summary").starts_with("leak"), "{found}");
    assert!(found[1].as_str().expect("a transcript").contains("tools/call"), "{found}");
    let filtered = browser.run(
        "const box = document.querySelector('#findings-0 input'); box.value = 'no such finding';
         box.dispatchEvent(new Event('input')); return document.querySelectorAll('#findings-0 details.finding').length",
    );
    assert_eq!(filtered, json!(0));
    if let Some(to) = std::env::var_os("RPCTAP_SCREENSHOT") {
        browser.screenshot(Path::new(&to));
    }
    assert_eq!(browser.log(), Vec::<String>::new());
}
