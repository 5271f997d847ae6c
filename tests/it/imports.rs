//! Files of all kinds through the command line: kept once, read compressed and from a pipe, refused in one line.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rpctap::store::Store;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

fn rpctap(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rpctap"))
        .args(arguments)
        .env_remove("RPCTAP_STORE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rpctap starts");
    let mut to = child.stdin.take().expect("a pipe");
    // A command that refuses its input may be gone before it is written.
    let _ = to.write_all(stdin);
    drop(to);
    child.wait_with_output().expect("rpctap ends")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_file_is_kept_once_however_often_it_is_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let file = sample("r1-pysdk-1.29.0-pathB.ndjson");
    for round in 0..3 {
        let done = rpctap(&["import", text(&file), text(&file), "--store", text(&store)], b"");
        assert!(done.status.success(), "round {round}: {}", String::from_utf8_lossy(&done.stderr));
        let sessions = Store::open_readonly(&store).expect("a store").sessions().expect("sessions");
        assert_eq!(sessions.len(), 1, "round {round}");
        assert_eq!(sessions[0].events, 63);
    }
    let other = sample("strace.txt");
    let done = rpctap(&["import", text(&other), "--store", text(&store), "--name", "traced"], b"");
    assert!(done.status.success());
    let sessions = Store::open_readonly(&store).expect("a store").sessions().expect("sessions");
    assert_eq!(sessions.iter().map(|recorded| recorded.session.name.as_str()).collect::<Vec<_>>()[1..], ["traced"]);
}

#[test]
fn compressed_and_piped_files_give_the_same_as_plain_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = fs::read(sample("r6-lsp-pyright.ndjson")).expect("the sample");
    let squeezed = zstd::encode_all(&plain[..], 3).expect("in memory");
    let mut events = Vec::new();
    for (number, bytes) in [&plain, &squeezed].into_iter().enumerate() {
        let store = folder.path().join(format!("{number}.db"));
        let done = rpctap(&["import", "-", "--store", text(&store)], bytes);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let opened = Store::open_readonly(&store).expect("a store");
        let mut told = Vec::new();
        let number = opened.find_session("1").expect("a session").number();
        opened
            .for_each_event(number, &mut |event| {
                told.push(event);
                std::ops::ControlFlow::Continue(())
            })
            .expect("events");
        events.push(told);
    }
    assert_eq!(events[0].len(), 96);
    assert_eq!(events[0], events[1]);
}

#[test]
fn what_cannot_be_read_ends_in_one_line_and_exit_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let noise: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut bomb_cut = zstd::encode_all(&noise[..], 3).expect("in memory");
    bomb_cut.truncate(10);
    for (what, bytes) in [
        ("nothing", &b""[..]),
        ("noise", &noise),
        ("a picture", b"\x89PNG\r\n\x1a\n"),
        ("a cut archive", &bomb_cut),
        ("plain text", b"dear diary\n"),
        ("a list", b"[1, 2, 3]"),
        ("SQLite", b"SQLite format 3\0 and then nothing"),
        (
            "a capture of nothing",
            b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x01\x00\x00\x00",
        ),
    ] {
        let file = folder.path().join("file");
        fs::write(&file, bytes).expect("written");
        for command in [&["import", text(&file), "--store", text(&store)][..], &["analyze", text(&file)]] {
            let done = rpctap(command, b"");
            let stderr = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(2), "{what}: {command:?}: {stderr}");
            assert_eq!(stderr.trim_end().lines().count(), 1, "{what}: {stderr}");
        }
    }
    assert!(!store.exists(), "a store was made of nothing");
}

#[test]
fn a_folder_is_all_the_files_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).expect("a folder");
    for name in ["strace.txt", "vscode-mcp.log", "README.md"] {
        fs::copy(sample(name), logs.join(name)).expect("copied");
    }
    fs::create_dir(logs.join("older")).expect("a folder");
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", logs.join("gone")).expect("a link");
    for command in
        [&["import", text(&logs), "--store", text(&store)][..], &["analyze", text(&logs), "--fail-on", "never"]]
    {
        let done = rpctap(command, b"");
        let told = [done.stdout, done.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("passed over older (a folder)"), "{command:?}: {told}");
        assert!(!cfg!(unix) || told.contains("gone (a link to nothing)"), "{command:?}: {told}");
    }
    fs::remove_file(&store).expect("a store");
    let done = rpctap(&["import", text(&logs), "--store", text(&store)], b"");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{stderr}");
    assert!(stderr.contains("README.md"), "what was passed over is named: {stderr}");
    assert_eq!(Store::open_readonly(&store).expect("a store").sessions().expect("sessions").len(), 2);
}

#[test]
fn pairs_and_pipes_are_kept_once_and_many_files_go_into_a_store_that_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store.db");
    let (client, server) = (folder.path().join("client.jsonl"), folder.path().join("server.jsonl"));
    fs::write(&client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("written");
    fs::write(&server, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").expect("written");
    let traced = fs::read(sample("strace.txt")).expect("the sample");
    let names = ["r1-pysdk-1.29.0-pathB.ndjson", "r2-pysdk-2.3.0-pathB.ndjson", "r6-lsp-pyright.ndjson"];
    let [one, two, three] = names.map(sample);
    let into = ["--store", text(&store)];
    for round in 0..2 {
        for (arguments, stdin) in [
            (vec!["import", "--client", text(&client), "--server", text(&server)], &b""[..]),
            (vec!["import", "-"], &traced[..]),
            (vec!["import", text(&one), text(&two), text(&three)], &b""[..]),
        ] {
            let done = rpctap(&[&arguments[..], &into[..]].concat(), stdin);
            assert!(done.status.success(), "round {round}: {}", String::from_utf8_lossy(&done.stderr));
        }
        let sessions = Store::open_readonly(&store).expect("a store").sessions().expect("sessions");
        let events: Vec<u64> = sessions.iter().map(|recorded| recorded.events).collect();
        assert_eq!((events.len(), events[2]), (5, 63), "round {round}: {events:?}");
    }
}

#[test]
fn lines_that_cannot_be_read_are_named() {
    let line = |at: u32, text: &str| format!("{{\"ts\":{at},\"dir\":\"c2s\",\"raw\":\"{text}\\n\"}}\n");
    let ping = |id: u32| {
        line(1000 + id, &format!("{{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":{id},\\\"method\\\":\\\"ping\\\"}}"))
    };
    let log = format!("{}{}garbage\n{}{{\"ts\":1}}\n", ping(1), ping(2), ping(3));
    let told = rpctap(&["analyze", "-"], log.as_bytes());
    let report = String::from_utf8_lossy(&told.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("line 3: not a JSON object; line 5: no dir"), "{report}");
    let folder = tempfile::tempdir().expect("a folder");
    let kept = rpctap(&["import", "-", "--store", text(&folder.path().join("store.db"))], log.as_bytes());
    let said = String::from_utf8_lossy(&kept.stderr).into_owned();
    assert!(kept.status.success() && said.contains("line 3: not a JSON object; line 5: no dir"), "{said}");
}
