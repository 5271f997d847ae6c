//! `--redact`: forty secrets in a dozen places, and none of them in the store, its WAL or anything that is printed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::tapped::*;

/// Where each is planted is told by the number in front: see [`client`], [`stdout`], [`stderr`] and the command line.
const SECRETS: [&str; 40] = [
    "hunter2-correct-horse",
    "s3cr3t-battery-staple",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_0123456789abcdefghijABCDEFGHIJ456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123",
    "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789",
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz-0123456789AA",
    "xoxb-123456789012-abcdefghijklmnop",
    "xapp-1-A0123456789-abcdefghijklmnop",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "ya29.a0AfH6SMBabcdefghijklmnopqrstuvwxyz",
    "GOCSPX-abcdefghijklmnopqrstuvwx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "MIIEpAIBAAKCAQEA7bq0secretkeymaterial",
    "bearer-value-0001-abcdef",
    "dXNlcjpwYXNzd29yZC1pbi1iYXNlNjQ=",
    "session-cookie-9f8e7d6c",
    "glpat-abcdefghijklmnopqrst",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "sk_live_abcdefghijklmnop01",
    "hf_abcdefghijklmnopqrstuvwxyz012345",
    "url-password-77",
    "query-token-88",
    "flag-token-99",
    "env-key-value-11",
    "nested-json-secret-22",
    "twice-nested-secret-33",
    "escaped\\u002dsecret\\/44",
    "array-key-one-55",
    "array-key-two-66",
    "pair-cookie-77",
    "tree-secret-88",
    "stderr-password-99",
    "error-message-secret-10",
    "progress-secret-20",
    "stray-print-secret-30",
    "margarethe",
    "refresh-token-40-value",
    "client-secret-50-value",
];

fn client() -> String {
    let s = SECRETS;
    [
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"login","arguments":{{"password":"{}","x":{{"client_secret":"{}"}},"aws":"{}","AWS_SECRET_ACCESS_KEY":"{}"}}}}}}"#, s[0], s[39], s[2], s[3]),
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"auth/login","params":{{"token":"{}","refreshToken":"{}"}}}}"#, s[1], s[38]),
        format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"http","arguments":{{"headers":{{"Authorization":"Bearer {}","Cookie":"sid={}"}},"list":[{{"name":"Set-Cookie","value":"{}"}}],"apiKey":["{}","{}"]}}}}}}"#, s[15], s[17], s[31], s[29], s[30]),
        format!(r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"raw","arguments":{{"config":"{{\"api_key\":\"{}\",\"inner\":\"{{\\\"password\\\":\\\"{}\\\"}}\"}}","secret":"{}"}}}}}}"#, s[26], s[27], s[28]),
        format!(r#"{{"jsonrpc":"2.0","id":5,"method":"initialize","params":{{"rootUri":"file:///home/{}/project","credentials":{{"who":"{}"}}}}}}"#, s[37], s[32]),
        format!(r#"{{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{{"name":"fetch","arguments":{{"url":"https://bob:{}@example.org/?access_token={}&q=1"}}}}}}"#, s[22], s[23]),
        String::new(),
    ]
    .join("\n")
}

fn stdout() -> String {
    let s = SECRETS;
    let tokens: Vec<&str> = s[4..14].iter().chain(&s[18..22]).copied().collect();
    let text = tokens.iter().map(|token| format!("found {token} here. ")).collect::<String>();
    [
        format!("starting with password={} now", s[36]),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":2,"error":{{"code":-1,"message":"login of {} failed: password={}"}}}}"#, s[37], s[34]),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"}}}}"#, s[14]),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":7,"progress":1,"message":"api_key={}"}}}}"#, s[35]),
        format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"echo":"Authorization: Basic {}","home":"/home/{}/x","env":"OPENAI_API_KEY={}"}}}}"#, s[16], s[37], s[25]),
        format!(r#"{{"jsonrpc":"2.0","id":4,"result":{{"again":"Bearer {}"}}}}"#, s[15]),
        String::new(),
    ]
    .join("\n")
}

fn stderr() -> String {
    let s = SECRETS;
    format!(
        "connecting as {}\nlogin {{\"password\": \"{}\"}} with {}\nkey /home/{}/.ssh/id\n",
        s[37], s[33], s[4], s[37]
    )
}

/// Every secret that can be read in these bytes.
fn seen(bytes: &[u8]) -> Vec<&'static str> {
    SECRETS.into_iter().filter(|secret| bytes.windows(secret.len()).any(|part| part == secret.as_bytes())).collect()
}

fn nothing_on_disk(folder: &Path, when: &str) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() && path.extension().is_none_or(|ending| ending != "txt") {
            let bytes = std::fs::read(&path).expect("readable");
            assert_eq!(seen(&bytes), Vec::<&str>::new(), "{when}, in {}", path.display());
        }
    }
}

fn output(args: &[&str], place: &Place) -> Vec<u8> {
    let done = Command::new(env!("CARGO_BIN_EXE_rpctap"))
        .args(args)
        .env("RPCTAP_STORE", place.store())
        .current_dir(place.folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("rpctap runs");
    assert!(matches!(done.status.code(), Some(0 | 1)), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    [done.stdout, done.stderr].concat()
}

fn nothing_printed(place: &Place) {
    let commands: &[&[&str]] = &[
        &["sessions"],
        &["show", "last"],
        &["analyze"],
        &["analyze", "--format", "json"],
        &["analyze", "--format", "markdown"],
        &["export", "last"],
        &["export", "last", "--format", "har"],
        &["export", "last", "--format", "lsp-trace"],
        &[
            "fixture",
            "last",
            "--request",
            "1",
            "2",
            "3",
            "4",
            "5",
            "6",
            "--output",
            "cut",
            "--for",
            "shell",
            "--for",
            "rust",
            "--for",
            "pytest",
            "--for",
            "node",
        ],
    ];
    for command in commands {
        let printed = output(command, place);
        assert_eq!(seen(&printed), Vec::<&str>::new(), "{command:?} printed {}", String::from_utf8_lossy(&printed));
    }
    nothing_on_disk(&place.folder.path().join("cut"), "in a fixture");
    let exported = output(&["export", "last"], place);
    let exported = String::from_utf8_lossy(&exported);
    assert!(
        exported.contains("tools/call") && exported.contains("progressToken"),
        "what is no secret stays: {exported}"
    );
}

#[test]
fn nothing_secret_reaches_the_disk_or_a_report() {
    let joined = format!("{}{}{}{}", client(), stdout(), stderr(), SECRETS[24]);
    assert_eq!(seen(joined.as_bytes()).len(), 40, "all of them are planted");
    let place = Place::new();
    let (out, err) = (place.folder.path().join("out.txt"), place.folder.path().join("err.txt"));
    std::fs::write(&out, stdout()).expect("written");
    std::fs::write(&err, stderr()).expect("written");
    let script = format!("cat '{}' >&2; head -c 1 >/dev/null; cat '{}'; cat >/dev/null", err.display(), out.display());
    let mut server = sh(&script);
    server.extend(words(&["server", "--token", SECRETS[24], "--root", &format!("/home/{}", SECRETS[37])]));
    let mut tap = Tapped::start(record(&place.store(), &["--redact"], &server));
    tap.say(&client());
    let heard: Vec<String> = (0..7).map(|_| tap.hear()).collect();
    // What is forwarded is untouched.
    assert_eq!(heard.concat(), stdout());
    wait_until("the last answer is in the store", || {
        rpctap::store::Store::open_readonly(&place.store())
            .and_then(|store| store.query("SELECT count(*) FROM events"))
            .is_ok_and(|rows| {
                rows[0][0].as_deref().and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count >= 13)
            })
    });
    nothing_on_disk(place.folder.path(), "while it is recorded");
    tap.end();
    nothing_on_disk(place.folder.path(), "after it was recorded");
    nothing_printed(&place);
}

#[test]
fn an_import_is_redacted_too() {
    let place = Place::new();
    let mut log = String::new();
    for (direction, text) in [("c2s", client()), ("s2c", stdout())] {
        for line in text.lines().filter(|line| line.starts_with('{')) {
            log.push_str(&format!("{{\"ts\":1790000000.5,\"dir\":\"{direction}\",\"raw\":{line}}}\n"));
        }
    }
    let path = place.folder.path().join("log.txt");
    std::fs::write(&path, log).expect("written");
    output(&["import", "--redact", "log.txt"], &place);
    nothing_on_disk(place.folder.path(), "after the import");
    let commands: &[&[&str]] = &[&["sessions"], &["show", "last"], &["analyze"], &["export", "last"]];
    for command in commands {
        let printed = output(command, &place);
        assert_eq!(seen(&printed), Vec::<&str>::new(), "{command:?} printed {}", String::from_utf8_lossy(&printed));
    }
    assert!(String::from_utf8_lossy(&output(&["export", "last"], &place)).contains("auth/login"));
}

/// A process that tells on stderr where it listens.
struct Listening(std::process::Child, String);

impl Listening {
    fn start(args: &[&str]) -> Listening {
        use std::io::BufRead;
        let mut child = rpctap().args(args).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = std::io::BufReader::new(child.stderr.take().expect("stderr"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
        let url = url.trim_end_matches('/').to_string();
        Listening(child, url)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // SAFETY: signals a child of ours that has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

#[test]
fn what_passes_a_proxy_is_redacted_too() {
    let place = Place::new();
    let s = SECRETS;
    let talk = format!(
        r#"// rpctap recording: through a proxy
0ms   -> {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{{}}}}}}
5ms   <- {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-06-18","capabilities":{{}}}}}}
6ms   -> {{"jsonrpc":"2.0","method":"notifications/initialized"}}
10ms  -> {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"login","arguments":{{"password":"{}"}}}}}}
12ms  <- {{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{} of /home/{}/x"}}]}}}}
"#,
        s[0], s[4], s[37]
    );
    let recording = place.folder.path().join("talk.txt");
    std::fs::write(&recording, talk).expect("written");
    let recording = recording.to_str().expect("a path");
    let server = Listening::start(&["replay", "server", recording, "--listen", "127.0.0.1:0"]);
    let store = place.store();
    let store = store.to_str().expect("a path");
    let proxy =
        Listening::start(&["proxy", "--redact", "--store", store, "--listen", "127.0.0.1:0", "--upstream", &server.1]);
    let (bearer, cookie) = (format!("Authorization: Bearer {}", s[15]), format!("Cookie: sid={}", s[17]));
    let url = proxy.1.as_str();
    output(
        &["replay", "client", recording, "--pace", "instant", "--url", url, "--header", &bearer, "--header", &cookie],
        &place,
    );
    drop(proxy);
    nothing_on_disk(place.folder.path(), "after the proxy");
    let printed = output(&["export", "last"], &place);
    assert_eq!(seen(&printed), Vec::<&str>::new(), "{}", String::from_utf8_lossy(&printed));
    assert!(String::from_utf8_lossy(&printed).contains("tools/call"), "it was recorded");
}
