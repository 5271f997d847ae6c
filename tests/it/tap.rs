//! A tap is not there: bytes, ends, signals and exit codes are those of the server behind it.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rpctap::event::{Happening, How, Party, Side, What};

use crate::peer;
use crate::tapped::*;

#[test]
fn bytes_pass_unchanged_and_are_kept_unchanged() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &["--name", "odd"], &sh("cat; echo gone >&2")));
    let mut odd: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    odd.extend_from_slice(b"\xff\xfe\0{\"id\":1,\"method\":\"x\"}\r\nno end of line");
    let (mut stdin, sent) = (tap.stdin.take().unwrap(), odd.clone());
    let sending = std::thread::spawn(move || stdin.write_all(&sent).is_ok());
    let heard = tap.hear_all();
    assert!(sending.join().unwrap() && heard == odd);
    let (code, stderr) = tap.end();
    assert_eq!((code, stderr.as_str()), (0, "gone\n"));
    let (store, events) = last(&place.store());
    let recorded = store.find_session("odd").expect("by its name");
    assert!(stream(&store, recorded.number(), 0) == odd && stream(&store, recorded.number(), 1) == odd);
    assert_eq!(events.iter().filter(|event| matches!(event.what, What::Stderr { .. })).count(), 1);
    assert!(events.iter().enumerate().all(|(at, event)| event.seq == at as u64 + 1));
}

#[test]
fn answers_after_the_clients_end_of_input_are_delivered_and_recorded_as_such() {
    let place = Place::new();
    let server = "cat >/dev/null; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}'; exit 5";
    let mut tap = Tapped::start(record(&place.store(), &[], &sh(server)));
    tap.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\"}\n");
    drop(tap.stdin.take());
    assert!(String::from_utf8(tap.hear_all()).unwrap().contains("\"result\":null"));
    assert_eq!(tap.end().0, 5);
    let (_, events) = last(&place.store());
    let kinds: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::Message { from, .. } => Some(from.name().to_string()),
            What::Happening(Happening::Closed { from, by, how }) => Some(format!("{from:?} by {by:?} {how:?}")),
            What::Happening(Happening::Exited { code, .. }) => Some(format!("exit {}", code.unwrap())),
            _ => None,
        })
        .collect();
    let in_order = ["client", "Client by Client Eof", "server", "Server by Server Eof"];
    let places: Vec<_> = in_order.iter().map(|wanted| kinds.iter().position(|kind| kind == wanted)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{kinds:?}");
    assert!(kinds.contains(&"exit 5".to_string()), "{kinds:?}");
}

#[test]
fn a_server_that_closes_stdout_and_lives_passes_its_end_of_output_on() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &[], &sh("echo {}; exec >&-; read line; exit 4")));
    assert_eq!(tap.hear_all(), b"{}\n");
    assert!(tap.child.try_wait().unwrap().is_none(), "the server lives, so the tap does");
    tap.stdout = None;
    tap.say("now\n");
    drop(tap.stdin.take());
    assert_eq!(tap.child.wait().unwrap().code(), Some(4));
    let (_, events) = last(&place.store());
    let wanted = Happening::Closed { from: Side::Server, by: Party::Server, how: How::Eof };
    let closed = happenings(&events).iter().position(|happening| *happening == wanted).expect("closed");
    assert!(happenings(&events)[closed..].iter().any(|what| matches!(what, Happening::Exited { code: Some(4), .. })));
}

#[test]
fn a_server_that_closes_stdin_turns_the_client_away() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &[], &sh("exec <&-; echo ready; sleep 100")));
    assert_eq!(tap.hear(), "ready\n");
    let mut stdin = tap.stdin.take().unwrap();
    // Nobody will ever read this: it fails as soon as the tap has noticed, as it would without a tap.
    wait_until("the broken pipe reaches us", || stdin.write_all(&[b'x'; 1000]).is_err());
    tap.signal(libc::SIGTERM);
    tap.hear_all();
    assert_eq!(tap.end().0, 128 + 15);
    let (_, events) = last(&place.store());
    let wanted = Happening::Closed { from: Side::Client, by: Party::Server, how: How::Reset };
    assert!(happenings(&events).contains(&wanted), "{:?}", happenings(&events));
}

#[test]
fn a_client_that_takes_no_more_is_told_as_the_one_who_closed() {
    let place = Place::new();
    let mut tap =
        Tapped::start(record(&place.store(), &[], &sh("echo first; read go; while echo x; do :; done; exit 9")));
    assert_eq!(tap.hear(), "first\n");
    drop(tap.stdout.take());
    tap.say("go\n");
    let code = tap.child.wait().unwrap().code();
    assert!(matches!(code, Some(9 | 141)), "it ended by its own broken pipe: {code:?}");
    let (_, events) = last(&place.store());
    let wanted = Happening::Closed { from: Side::Server, by: Party::Client, how: How::Reset };
    assert!(happenings(&events).contains(&wanted), "{:?}", happenings(&events));
}

#[test]
fn the_tap_ends_as_its_child_did() {
    for (server, code) in [("exit 0", 0), ("exit 77", 77), ("kill -SEGV $$", 139), ("kill -KILL $$", 137)] {
        let place = Place::new();
        let tap = Tapped::start(record(&place.store(), &[], &sh(server)));
        let (found, stderr) = tap.end();
        assert_eq!((found, stderr.as_str()), (code, ""), "{server}");
        let (_, events) = last(&place.store());
        let exited = happenings(&events).into_iter().find_map(|happening| match happening {
            Happening::Exited { code, signal } => Some(code.unwrap_or_else(|| 128 + signal.unwrap_or(0))),
            _ => None,
        });
        assert_eq!(exited, Some(code), "{server}");
    }
}

#[test]
fn a_command_that_does_not_exist_is_127_and_a_line_that_says_so() {
    let place = Place::new();
    let (code, stderr) = Tapped::start(record(&place.store(), &[], &words(&["no-such-server-here"]))).end();
    assert_eq!(code, 127);
    assert!(stderr.starts_with("rpctap: starting no-such-server-here: ") && stderr.lines().count() == 1, "{stderr}");
    let (code, stderr) = Tapped::start(record(&place.store(), &[], &words(&["/dev/null"]))).end();
    assert_eq!((code, stderr.lines().count()), (126, 1));
}

#[test]
fn a_signal_is_passed_on_once() {
    let place = Place::new();
    let server =
        "trap 'echo term' TERM; trap 'echo usr' USR1; echo ready; while :; do read line && echo \"$line\"; done";
    let mut tap = Tapped::start(record(&place.store(), &[], &sh(server)));
    assert_eq!(tap.hear(), "ready\n");
    tap.signal(libc::SIGTERM);
    tap.say("one\n");
    let mut heard = vec![tap.hear(), tap.hear()];
    tap.signal(libc::SIGUSR1);
    tap.say("two\n");
    heard.extend([tap.hear(), tap.hear()]);
    tap.say("three\n");
    heard.push(tap.hear());
    heard.sort();
    assert_eq!(heard, ["one\n", "term\n", "three\n", "two\n", "usr\n"]);
    assert!(tap.child.try_wait().unwrap().is_none(), "a server that ignores SIGTERM keeps its tap");
    tap.signal(libc::SIGKILL);
}

#[test]
fn sigterm_flushes_what_is_queued() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &[], &peer::command("echo")));
    for id in 1..=500 {
        tap.say(&peer::request(id));
    }
    for id in 1..=500 {
        assert_eq!(tap.hear(), peer::answer(id));
    }
    tap.signal(libc::SIGTERM);
    assert_eq!(tap.hear_all(), b"");
    assert_eq!(tap.end().0, 128 + 15);
    let (_, events) = last(&place.store());
    assert_eq!((messages(&events, Side::Client).len(), messages(&events, Side::Server).len()), (500, 500));
    assert!(happenings(&events).contains(&Happening::Exited { code: None, signal: Some(15) }));
}

#[test]
fn when_the_tap_is_killed_its_child_goes_too() {
    let place = Place::new();
    let mut tap =
        Tapped::start(record(&place.store(), &[], &sh("trap '' TERM HUP; echo $$; while :; do sleep 1; done")));
    let pid: u32 = tap.hear().trim().parse().expect("the child's number");
    assert!(is_alive(pid));
    tap.signal(libc::SIGKILL);
    tap.child.wait().unwrap();
    wait_until("the child dies with its tap", || !is_alive(pid));
}

#[test]
fn what_a_launcher_leaves_behind_does_not_hold_the_tap() {
    let place = Place::new();
    let server = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & exit 6";
    let mut tap = Tapped::start(record(&place.store(), &["--drain-ms", "50"], &sh(server)));
    let pid: u32 = tap.hear().trim().parse().expect("the grandchild's number");
    assert_eq!(tap.child.wait().unwrap().code(), Some(6));
    wait_until("what holds the pipes is ended", || !is_alive(pid));
    let (_, events) = last(&place.store());
    let happened = happenings(&events);
    let ended = |what: &Happening| matches!(what, Happening::Closed { from: Side::Server, .. });
    assert!(happened.iter().any(ended), "{happened:?}");
}

#[test]
fn the_last_words_of_what_was_left_behind_are_delivered() {
    let place = Place::new();
    let server = "(trap 'echo last; exit' TERM; echo first; while :; do sleep 0.01; done) & exit 0";
    let mut tap = Tapped::start(record(&place.store(), &["--drain-ms", "100"], &sh(server)));
    assert_eq!(tap.hear_all(), b"first\nlast\n");
    assert_eq!(tap.end().0, 0);
}

#[test]
fn a_slow_reader_slows_the_sender_and_memory_stays_bounded() {
    let place = Place::new();
    // 200 MB, while the client takes nothing at first.
    let server = "dd if=/dev/zero bs=1000000 count=200 2>/dev/null | tr '\\0' 'x'; echo done >&2";
    let mut tap = Tapped::start(record(&place.store(), &["--no-samples"], &sh(server)));
    let status = format!("/proc/{}/status", tap.child.id());
    wait_until("a recording has begun", || {
        place.store().exists()
            && rpctap::store::Store::open_readonly(&place.store()).is_ok_and(|store| store.find_session("last").is_ok())
    });
    let peak = || -> u64 {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
    };
    let mut stdout = tap.stdout.take().unwrap();
    let (mut chunk, mut all, mut highest) = (vec![0; 1 << 20], 0u64, 0);
    loop {
        highest = highest.max(peak());
        let len = stdout.read(&mut chunk).unwrap();
        if len == 0 {
            break;
        }
        assert!(chunk[..len].iter().all(|byte| *byte == b'x'));
        all += len as u64;
    }
    assert_eq!((all, tap.end().1.as_str()), (200_000_000, "done\n"));
    assert!(highest > 0 && highest < 120_000, "the tap took {highest} kB at its peak");
    let (store, _) = last(&place.store());
    let number = store.find_session("last").unwrap().number();
    assert_eq!(store.tail(number).unwrap().streams, [(1, 200_000_000), (2, 5)]);
}

#[test]
fn thousands_of_requests_may_be_in_the_pipe_at_once() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &[], &peer::command("echo")));
    let mut stdin = tap.stdin.take().unwrap();
    let sending = std::thread::spawn(move || {
        let text: String = (1..=20_000).map(peer::request).collect();
        stdin.write_all(text.as_bytes()).unwrap();
    });
    for id in 1..=20_000 {
        assert_eq!(tap.hear(), peer::answer(id));
    }
    sending.join().unwrap();
    assert_eq!(tap.end().0, 0);
    let (store, events) = last(&place.store());
    assert_eq!((messages(&events, Side::Client).len(), messages(&events, Side::Server).len()), (20_000, 20_000));
    let unanswered = store.query("SELECT count(*), count(answered_seq) FROM exchanges").unwrap();
    assert_eq!(unanswered[0], [Some("20000".to_string()), Some("20000".to_string())]);
}

#[test]
fn the_process_is_looked_at_unless_told_otherwise() {
    for (options, wanted) in [(&[][..], true), (&["--no-samples"][..], false)] {
        let place = Place::new();
        let mut tap = Tapped::start(record(&place.store(), options, &sh("sleep 100 & echo up; read line; kill $!")));
        assert_eq!(tap.hear(), "up\n");
        if wanted {
            wait_until("a sample is recorded", || {
                let is_sample = |what: &What| matches!(what, What::Happening(Happening::Sample(s)) if s.processes == 2);
                // The store may not be there yet.
                rpctap::store::Store::open_readonly(&place.store()).is_ok_and(|store| {
                    let number = store.find_session("last").map(|found| found.number());
                    number.is_ok_and(|number| events(&store, number).iter().any(|event| is_sample(&event.what)))
                })
            });
        }
        tap.end();
        let (_, events) = last(&place.store());
        let samples = events.iter().filter(|event| matches!(event.what, What::Happening(Happening::Sample(_))));
        assert_eq!(samples.count() > 0, wanted);
    }
}

#[test]
fn a_thin_environment_and_a_strange_folder_are_enough() {
    let place = Place::new();
    let home = place.folder.path().join("home");
    let mut command = rpctap();
    command.args(["record", "--", "/bin/sh", "-c", "echo {}"]);
    command.env_clear().env("HOME", &home).current_dir("/");
    let (code, stderr) = Tapped::start(command).end();
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (_, events) = last(&home.join(".local/share/rpctap/store.db"));
    assert_eq!(messages(&events, Side::Server).len(), 1);
}

#[test]
fn secrets_do_not_reach_the_store_when_told() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &["--redact"], &sh("cat")));
    let secret = "sk-live-4242424242424242424242";
    let line =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"login\",\"params\":{{\"api_key\":\"{secret}\"}}}}\n");
    tap.say(&line);
    assert_eq!(tap.hear(), line);
    assert_eq!(tap.end().0, 0);
    let (store, events) = last(&place.store());
    assert_eq!(messages(&events, Side::Client).len(), 1);
    assert_eq!(stream(&store, 1, 0).len(), line.len());
    drop(store);
    for entry in std::fs::read_dir(place.folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
}

#[test]
fn nothing_waits_for_a_record_that_is_idle() {
    let place = Place::new();
    let start = Instant::now();
    let tap = Tapped::start(record(&place.store(), &[], &sh("exit 0")));
    tap.end();
    assert!(start.elapsed() < Duration::from_secs(10));
}
