//! What the tapped process and everything it started use, about once a second.
//!
//! Comes in: a process number. Goes out: a [`Sample`] of the whole tree below it, from `/proc`; nothing where there is
//! no such thing. Runs on a thread of its own, far from the bytes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::event::Sample;

/// A tree with more processes than this is read in part: reading must stay cheap.
const MOST_PROCESSES: usize = 1_000;

/// Past this many open files of one process the rest is counted without looking what they are.
const MOST_LOOKED_AT: usize = 10_000;

/// A reading of the tree below (and with) this process; `None` when it is gone.
pub fn sample(pid: u32) -> Option<Sample> {
    sample_below(Path::new("/proc"), pid)
}

fn sample_below(proc: &Path, pid: u32) -> Option<Sample> {
    let mut whole = Sample::default();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        let folder = proc.join(pid.to_string());
        if let Some(one) = read_one(&folder) {
            whole.rss_bytes += one.rss_bytes;
            whole.threads += one.threads;
            whole.files += one.files;
            whole.sockets += one.sockets;
            whole.cpu_ms += one.cpu_ms;
            whole.processes += 1;
            if whole.processes as usize + open.len() < MOST_PROCESSES {
                open.extend(children(&folder));
            }
        }
    }
    (whole.processes > 0).then_some(whole)
}

fn read_one(folder: &Path) -> Option<Sample> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let (cpu_ticks, threads, rss_pages) = parse_stat(&stat)?;
    let (files, sockets) = count_files(&folder.join("fd"));
    Some(Sample {
        rss_bytes: rss_pages * page_bytes(),
        threads,
        files,
        sockets,
        cpu_ms: cpu_ticks * 1000 / ticks_per_second(),
        processes: 1,
    })
}

/// CPU time (its own and that of children it has waited for), threads and resident pages. The name in brackets may
/// hold anything, so that fields are counted from the last bracket.
fn parse_stat(stat: &str) -> Option<(u64, u64, u64)> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<i64>().ok();
    let ticks = field(14)? + field(15)? + field(16)? + field(17)?;
    // A process that has ended and was not waited for uses nothing any more.
    let threads = if fields.first() == Some(&"Z") { 0 } else { field(20)? };
    Some((ticks.max(0) as u64, threads.max(0) as u64, field(24)?.max(0) as u64))
}

fn count_files(folder: &Path) -> (u64, u64) {
    let (mut files, mut sockets) = (0, 0);
    let Ok(entries) = fs::read_dir(folder) else { return (0, 0) };
    for entry in entries.flatten() {
        files += 1;
        let is_socket = |target: PathBuf| target.to_string_lossy().starts_with("socket:");
        if files as usize <= MOST_LOOKED_AT && fs::read_link(entry.path()).is_ok_and(is_socket) {
            sockets += 1;
        }
    }
    (files, sockets)
}

fn children(folder: &Path) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(folder.join("task")) else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    (unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).max(1) as u64
}

fn ticks_per_second() -> u64 {
    // SAFETY: asks for a constant of the system.
    (unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194304 100 0 0 0 7 5 2 1 20 0 3 0 100 1000000 250 18446744073709551615";
        assert_eq!(parse_stat(stat), Some((15, 3, 250)));
        assert_eq!(parse_stat("12 (a"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn we_see_ourselves_and_our_children() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let (_reader, _writer) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let sample = sample(std::process::id()).expect("ourselves");
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert!(sample.processes >= 2 && sample.threads >= 2 && sample.sockets >= 2, "{sample:?}");
        assert!(sample.rss_bytes > 100_000 && sample.files > sample.sockets, "{sample:?}");
    }

    #[test]
    fn nobody_is_not_sampled() {
        assert_eq!(sample_below(Path::new("/nowhere"), 1), None);
    }
}
