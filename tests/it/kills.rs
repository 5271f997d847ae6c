//! kill -9 of the tap at random points under load: what was committed is there, whole, and in order.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rpctap::event::Side;
use rpctap::rpc::Id;
use rpctap::store::Store;

use crate::peer;
use crate::tapped::*;

#[test]
fn a_killed_tap_leaves_a_whole_prefix() {
    let rounds = if std::env::var_os("RPCTAP_FULL").is_some() { 100 } else { 12 };
    // Points that differ from run to run find more; the number is told when it fails.
    let seed = u64::from(std::process::id());
    for round in 0..rounds {
        let wait_for = (seed * 2_654_435_761 + round * 40_503) % 400 * 50;
        kill_after(wait_for, &format!("seed {seed}, round {round}, after {wait_for} answers"));
    }
}

fn kill_after(answers: u64, case: &str) {
    let place = Place::new();
    let mut tap = Tapped::start(record(&place.store(), &[], &peer::command("echo")));
    let mut stdin = tap.stdin.take().unwrap();
    let sending = std::thread::spawn(move || {
        let mut id = 0;
        loop {
            let many: String = (0..50).map(|at| peer::request(id + at + 1)).collect();
            id += 50;
            if stdin.write_all(many.as_bytes()).is_err() {
                return id;
            }
        }
    });
    let heard = Arc::new(AtomicU64::new(0));
    let (mut stdout, count) = (tap.stdout.take().unwrap(), Arc::clone(&heard));
    let hearing = std::thread::spawn(move || {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = stdout.read(&mut chunk) {
            count.fetch_add(len as u64, Ordering::Relaxed);
        }
    });
    let enough = answers * peer::answer(1).len() as u64;
    wait_until("answers", || heard.load(Ordering::Relaxed) >= enough);
    // What a reader has seen is committed, and must be there afterwards.
    let committed = || -> u64 {
        let Ok(store) = Store::open_readonly(&place.store()) else { return 0 };
        store.find_session("last").map_or(0, |found| found.events)
    };
    let mut before = 0;
    if answers > 0 {
        wait_until("a commit under load", || {
            before = committed();
            before > 0
        });
    }
    tap.signal(libc::SIGKILL);
    tap.child.wait().unwrap();
    let sent = sending.join().unwrap();
    hearing.join().unwrap();
    if !place.store().exists() {
        assert_eq!(before, 0, "{case}");
        return;
    }
    let store = Store::open(&place.store()).expect(case);
    assert_eq!(store.integrity().unwrap(), "ok", "{case}");
    let Ok(found) = store.find_session("last") else {
        assert_eq!(before, 0, "{case}");
        return;
    };
    assert!(found.events >= before, "{case}: {} events, {before} had been committed", found.events);
    let events = events(&store, found.number());
    assert!(events.iter().enumerate().all(|(at, event)| event.seq == at as u64 + 1), "{case}");
    assert_eq!(events.len() as u64, found.events, "{case}");
    wait_until("the child dies with its tap", || !is_alive(child_pid(&events)));
    for (side, number, line) in
        [(Side::Client, 0, peer::request as fn(u64) -> String), (Side::Server, 1, peer::answer as fn(u64) -> String)]
    {
        let whole: Vec<u8> = (1..=sent).flat_map(|id| line(id).into_bytes()).collect();
        let kept = stream(&store, found.number(), number);
        assert!(whole.starts_with(&kept), "{case}: {side:?} is no prefix");
        let ids: Vec<_> =
            messages(&events, side).into_iter().map(|event| event.message().unwrap().1.id.clone()).collect();
        let wanted = (1..=ids.len() as i64).map(|id| Some(Id::Int(id)));
        assert!(ids.iter().cloned().eq(wanted), "{case}: {side:?} is out of order");
        // Every whole line that is stored has become an event.
        assert_eq!(kept.iter().filter(|byte| **byte == b'\n').count(), ids.len(), "{case}: {side:?}");
    }
}
