//! `rpctap proxy` as a process: the line that says where it listens, the store, the signals.

use super::*;
use std::process::{Child, Command, Stdio};

struct Running {
    child: Child,
    address: SocketAddr,
    talk: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(upstream: SocketAddr, store: &std::path::Path, more: &[&str]) -> Running {
        Running::start_for(&format!("http://{upstream}"), store, more, None)
    }

    fn start_for(upstream: &str, store: &std::path::Path, more: &[&str], trusted: Option<&std::path::Path>) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rpctap"));
        if let Some(trusted) = trusted {
            command.env("SSL_CERT_FILE", trusted);
        }
        let mut child = command
            .args(["proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", "--store"])
            .arg(store)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut talk = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        talk.read_line(&mut line).unwrap();
        let address = line.strip_prefix("rpctap: listening on http://").and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Running { child, address, talk }
    }

    fn post(&self, body: &str) -> (String, String) {
        let mut line = Line::to(self.address);
        let length = body.len();
        line.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        line.message()
    }

    /// Asks it to end; gives its exit code and what else it said.
    fn terminate(mut self) -> (Option<i32>, String) {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let mut said = String::new();
        self.talk.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answering() -> Upstream {
    Upstream::start(|mut line| {
        while !line.message().0.is_empty() {
            line.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n{RESULT}"
            ));
        }
    })
}

#[test]
fn what_passed_is_in_the_store_after_sigterm() {
    let upstream = answering();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let running = Running::start(upstream.address, &store, &["--name", "mine"]);
    for _ in 0..3 {
        assert_eq!(running.post(CALL).1, RESULT);
    }
    assert_eq!(running.terminate(), (Some(0), String::new()));
    let store = rpctap::store::Store::open_readonly(&store).unwrap();
    let found = store.find_session("mine").unwrap();
    let mut messages = 0;
    store
        .for_each_event(found.number(), &mut |event| {
            messages += usize::from(event.message().is_some());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(messages, 6);
}

#[test]
fn a_signal_right_after_the_first_line_ends_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..20 {
        let store = folder.path().join(format!("{number}.db"));
        let running = Running::start("127.0.0.1:9".parse().unwrap(), &store, &[]);
        assert_eq!(running.terminate().0, Some(0));
    }
}

#[test]
fn a_folder_that_is_made_for_the_store_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("a/slip/store.db");
    for told in [true, false] {
        let running = Running::start("127.0.0.1:9".parse().unwrap(), &store, &[]);
        let (code, said) = running.terminate();
        assert_eq!(
            (code, said.contains("made the folder") && said.contains("a/slip for the store")),
            (Some(0), told),
            "{said:?}"
        );
    }
}

#[test]
fn a_store_that_cannot_be_used_does_not_stop_traffic() {
    let upstream = answering();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    std::fs::write(&store, "this is no database, and longer than the header of one would be, by far and for sure")
        .unwrap();
    let running = Running::start(upstream.address, &store, &[]);
    for _ in 0..3 {
        assert_eq!(running.post(CALL).1, RESULT);
    }
    let (code, said) = running.terminate();
    assert_eq!(code, Some(0));
    assert!(said.contains("traffic goes on"), "{said:?}");
}

#[test]
fn an_open_stream_holds_up_the_end_only_so_long() {
    let upstream = Upstream::start(|mut line| {
        line.message();
        line.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n");
        line.gone();
    });
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(upstream.address, &folder.path().join("store.db"), &["--drain-seconds", "0"]);
    let mut client = Line::to(running.address);
    client.send("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    client.head();
    assert_eq!(running.terminate().0, Some(0));
}

#[test]
fn a_wrong_upstream_is_one_line_and_exit_code_2() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_rpctap")).args(["proxy", "--upstream", "localhost:80"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("write http://host:port"), "{said}");
}

/// The report of a store, as JSON.
fn report(store: &std::path::Path) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_rpctap"))
        .args(["analyze", "--format", "json", "--fail-on", "never", "--store"])
        .arg(store)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_stream_that_breaks_is_resumed_and_what_comes_again_is_no_second_answer() {
    let initialized = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    let upstream = Upstream::start(move |mut line| {
        loop {
            let (head, body) = line.message();
            let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            match () {
                () if head.is_empty() => return,
                () if head.starts_with("GET") => {
                    assert_eq!(field(&head, "last-event-id"), Some("e0"));
                    // From the beginning: the progress and the first answer come a second time.
                    line.send(format!("{stream}id: e1\ndata: {progress}\n\nid: e2\ndata: {RESULT}\n\n"));
                    return line.close();
                }
                () if body.contains("initialize\"") => {
                    line.send(format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: abc\r\nContent-Length: {}\r\n\r\n{initialized}",
                        initialized.len()
                    ));
                }
                () if body.contains("tools/call") => {
                    line.send(format!(
                        "{stream}id: e0\ndata:\n\nid: e1\ndata: {progress}\n\nid: e2\ndata: {RESULT}\n\n"
                    ));
                    return line.tear();
                }
                () => drop(line.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")),
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let running = Running::start(upstream.address, &store, &[]);
    let session = "Mcp-Session-Id: abc\r\nMCP-Protocol-Version: 2025-06-18\r\n";
    let post = |more: &str, body: &str| {
        let mut line = Line::to(running.address);
        let length = body.len();
        line.send(format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n{body}"
        ));
        line
    };
    let mut first = post(
        "",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    assert_eq!(first.message().1, initialized);
    let mut second = post(session, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert!(second.head().starts_with("HTTP/1.1 202"));
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":7}}}"#;
    let mut torn = post(session, call);
    torn.head();
    let _ = torn.rest();
    let mut again = Line::to(running.address);
    again.send(format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{session}Last-Event-ID: e0\r\nConnection: close\r\n\r\n"
    ));
    again.head();
    assert!(again.rest().unwrap().contains("e2"));
    assert_eq!(running.terminate().0, Some(0));
    let report = report(&store);
    let session = &report["sessions"][0];
    assert_eq!(report["sessions"].as_array().map(Vec::len), Some(1), "{report:#}");
    assert_eq!(session["outcomes"]["client"], serde_json::json!({ "answered": 2 }), "{session:#}");
    let rules: Vec<&str> =
        session["findings"].as_array().unwrap().iter().filter_map(|finding| finding["rule"].as_str()).collect();
    assert!(!rules.contains(&"duplicate-response"), "{rules:?}");
}

#[test]
fn an_https_upstream_is_reached_when_its_signer_is_trusted_and_told_of_when_not() {
    let folder = tempfile::tempdir().unwrap();
    let signer_key = rcgen::KeyPair::generate().unwrap();
    let mut signer = rcgen::CertificateParams::new(Vec::new()).unwrap();
    signer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    signer.distinguished_name.push(rcgen::DnType::CommonName, "the signer");
    let signer_cert = signer.self_signed(&signer_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    let cert = params.signed_by(&key, &rcgen::Issuer::new(signer, signer_key)).unwrap();
    let trusted = folder.path().join("signer.pem");
    std::fs::write(&trusted, signer_cert.pem()).unwrap();

    let private = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], private)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut tls = BufReader::new(rustls::StreamOwned::new(connection, stream.unwrap()));
            let (mut head, mut length) = (String::new(), 0);
            // A client that does not trust us says so and leaves.
            while tls.read_line(&mut head).is_ok_and(|read| read > 2) {}
            if let Some(said) = field(&head, "content-length") {
                length = said.parse().unwrap();
            }
            let mut body = vec![0; length];
            if tls.read_exact(&mut body).is_ok() && length > 0 {
                let answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n{RESULT}");
                let _ = tls.get_mut().write_all(answer.as_bytes());
            }
        }
    });

    let upstream = format!("https://localhost:{port}");
    let store = folder.path().join("store.db");
    let running = Running::start_for(&upstream, &store, &[], Some(&trusted));
    assert_eq!(running.post(CALL).1, RESULT);
    assert_eq!(running.terminate().0, Some(0));
    assert_eq!(report(&store)["sessions"][0]["outcomes"]["client"], serde_json::json!({ "answered": 1 }));

    let other = rcgen::generate_simple_self_signed(vec!["elsewhere".to_string()]).unwrap();
    std::fs::write(&trusted, other.cert.pem()).unwrap();
    let running = Running::start_for(&upstream, &folder.path().join("other.db"), &[], Some(&trusted));
    let (head, body) = running.post(CALL);
    assert!(head.starts_with("HTTP/1.1 502") && body.contains("SSL_CERT_FILE"), "{head}{body}");
}
