//! Whatever befalls the store, traffic goes on untouched, the user hears one line, and what can be kept is kept.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rpctap::event::{Event, Happening, Side};
use rpctap::rpc::Id;

use crate::peer;
use crate::tapped::*;

/// Says requests `from..=to` through a tap and hears each answered, unchanged.
fn converse(tap: &mut Tapped, from: u64, to: u64) {
    for id in from..=to {
        tap.say(&peer::request(id));
    }
    for id in from..=to {
        assert_eq!(tap.hear(), peer::answer(id));
    }
}

/// Traffic is untouched and there is one line on stderr that says this.
fn passes_with_one_line(command: Command, said: &str) {
    let mut tap = Tapped::start(command);
    converse(&mut tap, 1, 200);
    let (code, stderr) = tap.end();
    assert_eq!((code, stderr.lines().count()), (0, 1), "{stderr}");
    assert!(stderr.starts_with("rpctap: opening the store ") && stderr.contains(said), "{stderr}");
}

#[test]
fn a_store_that_is_a_folder() {
    let place = Place::new();
    passes_with_one_line(record(place.folder.path(), &[], &peer::command("echo")), "it is a folder");
}

#[test]
fn a_store_that_is_no_database() {
    let place = Place::new();
    let text = "Dear diary,\n".repeat(1000);
    std::fs::write(place.store(), &text).unwrap();
    passes_with_one_line(record(&place.store(), &[], &peer::command("echo")), "not a database");
    assert_eq!(std::fs::read_to_string(place.store()).unwrap(), text);
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_store_that_may_not_be_written() {
    let place = Place::new();
    drop(rpctap::store::Store::open(&place.store()).unwrap());
    let mode = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&place.store(), 0o444);
    mode(place.folder.path(), 0o555);
    let mut command = record(&place.store(), &[], &peer::command("echo"));
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } == 0 {
        // Permissions do not bind the superuser: go as nobody.
        command.uid(65534).gid(65534);
    }
    passes_with_one_line(command, "");
    mode(place.folder.path(), 0o755);
}

#[test]
fn a_store_that_is_locked_for_a_while() {
    let place = Place::new();
    drop(rpctap::store::Store::open(&place.store()).unwrap());
    let other = rusqlite::Connection::open(place.store()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut tap = Tapped::start(record(&place.store(), &[], &peer::command("echo")));
    let rounds = if std::env::var_os("RPCTAP_FULL").is_some() { 30 } else { 2 };
    let mut next = 1;
    for _ in 0..rounds {
        converse(&mut tap, next, next + 199);
        next += 200;
        std::thread::sleep(Duration::from_secs(1));
    }
    let spool = rpctap::store::spooled::beside(&place.store());
    assert_eq!(spool.len(), 1, "what waits is on disk");
    assert_eq!(std::fs::metadata(&spool[0]).unwrap().permissions().mode() & 0o777, 0o600);
    other.execute_batch("ROLLBACK").unwrap();
    converse(&mut tap, next, next + 199);
    let (code, stderr) = tap.end();
    assert_eq!((code, stderr.lines().count()), (0, 1), "{stderr}");
    assert!(stderr.contains("locked") && stderr.contains("traffic goes on"), "{stderr}");
    everything_once(&place.store(), next + 199);
    assert_eq!(rpctap::store::spooled::beside(&place.store()).len(), 0, "the spool is taken away");
}

/// Requests and answers `1..=count` are in the last session, each once and in order.
fn everything_once(store: &Path, count: u64) {
    let (store, events) = last(store);
    for side in [Side::Client, Side::Server] {
        let ids = messages(&events, side).into_iter().map(|event| event.message().unwrap().1.id.clone());
        let wanted = (1..=count).map(|id| Some(Id::Int(id as i64)));
        assert!(ids.eq(wanted), "{side:?}: {} of {count}", messages(&events, side).len());
    }
    assert!(events.iter().enumerate().all(|(at, event)| event.seq == at as u64 + 1));
    let number = store.find_session("last").unwrap().number();
    let all = |line: fn(u64) -> String| (1..=count).map(line).collect::<String>();
    assert!(stream(&store, number, 0) == all(peer::request).as_bytes());
    assert!(stream(&store, number, 1) == all(peer::answer).as_bytes());
    assert_eq!(store.integrity().unwrap(), "ok");
}

#[test]
fn what_a_lock_kept_out_until_the_end_is_taken_in_by_the_next_start() {
    let place = Place::new();
    drop(rpctap::store::Store::open(&place.store()).unwrap());
    let other = rusqlite::Connection::open(place.store()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut tap = Tapped::start(record(&place.store(), &["--name", "kept"], &peer::command("echo")));
    converse(&mut tap, 1, 300);
    let (code, stderr) = tap.end();
    assert_eq!(code, 0);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(".spool-") && stderr.contains("taken in"), "{stderr}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(Tapped::start(record(&place.store(), &["--name", "next"], &sh("exit 0"))).end(), (0, String::new()));
    let store = rpctap::store::Store::open_readonly(&place.store()).unwrap();
    let kept = store.find_session("kept").expect("taken in");
    let events = events(&store, kept.number());
    assert_eq!((messages(&events, Side::Client).len(), messages(&events, Side::Server).len()), (300, 300));
    assert!(happenings(&events).contains(&Happening::Exited { code: Some(0), signal: None }));
    assert_eq!(rpctap::store::spooled::beside(&place.store()).len(), 0);
}

#[test]
fn a_tap_killed_while_its_store_was_locked_leaves_nothing_out_and_nothing_twice() {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &[], &peer::command("echo")));
    // Some of it is in the store already, the last frame cut in the middle.
    converse(&mut tap, 1, 100);
    let (head, tail) = (&peer::request(101)[..40], &peer::request(101)[40..]);
    tap.say(head);
    let stored = |store: &Path| -> usize {
        let open = rpctap::store::Store::open_readonly(store).and_then(|store| store.tail(1));
        open.map_or(0, |tail| tail.streams.iter().map(|(_, end)| *end as usize).sum())
    };
    let all: usize = (1..=100).map(|id| peer::request(id).len() + peer::answer(id).len()).sum::<usize>() + 40;
    wait_until("the first part is in the store", || stored(&place.store()) == all);
    let other = rusqlite::Connection::open(place.store()).unwrap();
    other.busy_timeout(LONG).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    tap.say(tail);
    assert_eq!(tap.hear(), peer::answer(101));
    converse(&mut tap, 102, 300);
    let spooled = || {
        let beside = rpctap::store::spooled::beside(&place.store());
        beside.first().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |found| found.len())
    };
    let rest: usize = (101..=300).map(|id| peer::request(id).len() + peer::answer(id).len()).sum::<usize>() - 40;
    wait_until("the rest is in the spool", || spooled() > rest as u64);
    tap.signal(libc::SIGKILL);
    tap.child.wait().unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    let out = rpctap().arg("sessions").arg("--store").arg(place.store()).output().unwrap();
    assert!(out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("took in what an interrupted recording had left"));
    everything_once(&place.store(), 300);
    assert_eq!(rpctap::store::spooled::beside(&place.store()).len(), 0);
}

/// A tap whose files may not grow past `bytes`, which is what a full disk feels like.
fn on_a_full_disk(command: &mut Command, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: two plain system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

#[test]
fn a_full_disk_leaves_a_gap_that_is_recorded_once_there_is_room() {
    let place = Place::new();
    let mut command = record(&place.store(), &["--no-samples"], &words(&["cat"]));
    on_a_full_disk(&mut command, 1 << 20);
    let mut tap = Tapped::start(command);
    let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"big\",\"params\":\"{}\"}}\n", "b".repeat(1 << 20));
    // More than the tape and the load in hand can hold, both ways.
    for _ in 0..40 {
        tap.say(&line);
        assert!(tap.hear() == line, "traffic is untouched");
    }
    let free = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: lifts the limit of a child of ours.
    let lifted =
        unsafe { libc::prlimit(tap.child.id() as i32, libc::RLIMIT_FSIZE, &raw const free, std::ptr::null_mut()) };
    assert_eq!(lifted, 0);
    let lost = || {
        let Ok(store) = rpctap::store::Store::open_readonly(&place.store()) else { return false };
        store.find_session("last").is_ok_and(|found| {
            let is_lost = |what: &Happening| matches!(what, Happening::Lost { events, bytes, .. } if *events > 0 && *bytes > 1 << 20);
            happenings(&events(&store, found.number())).iter().any(is_lost)
        })
    };
    wait_until("the gap is recorded", || {
        tap.say("{\"jsonrpc\":\"2.0\",\"method\":\"after\"}\n");
        tap.hear();
        lost()
    });
    tap.say("{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n");
    tap.hear();
    let (code, stderr) = tap.end();
    assert_eq!(code, 0);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("the recording will have a gap") || stderr.contains("not recorded"), "{stderr}");
    let (store, events) = last(&place.store());
    let newest = messages(&events, Side::Server).into_iter().next_back();
    assert_eq!(newest.and_then(Event::message).map(|(_, message)| message.method()), Some("last"));
    assert_eq!(store.integrity().unwrap(), "ok");
}

#[test]
fn a_disk_that_stays_full_is_told_and_costs_nothing_else() {
    let place = Place::new();
    let mut command = record(&place.store(), &[], &peer::command("echo"));
    on_a_full_disk(&mut command, 4096);
    let mut tap = Tapped::start(command);
    converse(&mut tap, 1, 200);
    let (code, stderr) = tap.end();
    assert_eq!((code, stderr.lines().count()), (0, 1), "{stderr}");
    assert!(stderr.contains("the recording will have a gap") || stderr.contains("not recorded"), "{stderr}");
}

#[test]
fn a_disk_that_fills_up_and_stays_full_is_told_in_the_store_too() {
    let place = Place::new();
    let mut command = record(&place.store(), &["--no-samples"], &words(&["cat"]));
    on_a_full_disk(&mut command, 1 << 20);
    let mut tap = Tapped::start(command);
    let (small, long) = ("small".to_string(), "b".repeat(1 << 20));
    for params in [&small, &small, &long, &long] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"some\",\"params\":\"{params}\"}}\n");
        tap.say(&line);
        assert!(tap.hear() == line, "traffic is untouched");
        wait_until("what is small is in the store", || {
            params.len() > 100
                || rpctap::store::Store::open_readonly(&place.store())
                    .is_ok_and(|store| store.find_session("last").is_ok())
        });
    }
    let (code, stderr) = tap.end();
    assert_eq!((code, stderr.lines().count()), (0, 1), "{stderr}");
    assert!(!stderr.trim_end().ends_with(':'), "{stderr}");
    let (store, events) = last(&place.store());
    assert!(!messages(&events, Side::Client).is_empty());
    let lost = happenings(&events).into_iter().find_map(|what| match what {
        Happening::Lost { events, bytes, why, .. } => Some((events, bytes, why)),
        _ => None,
    });
    let (lost, bytes, why) = lost.expect("the loss is in the store");
    assert!(lost > 0 && bytes > 1 << 20 && why.contains("the store refused until the end: "), "{lost} {bytes} {why}");
    assert_eq!(store.integrity().unwrap(), "ok");
    let left = std::fs::read_dir(place.store().parent().unwrap()).unwrap().flatten();
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("reserve")));
}
