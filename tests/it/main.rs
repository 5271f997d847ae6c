//! Tests in which a process or a socket is involved, in one binary. One sentence per module on what belongs there.

/// `analyze` and `chart` as a user or a pipeline runs them.
mod analyze;
/// The doors between the rooms: who may use whom, and which packages stand where.
mod doors;

/// Captures that lack a packet, each of them once.
mod dropped_packets;

/// Whatever befalls the store, traffic goes on: a folder, no database, read-only, locked, a full disk.
#[cfg(target_os = "linux")]
mod faults;
/// Fixtures cut from real servers: they fail on the server with the bug and pass on the mended one.
#[cfg(target_os = "linux")]
mod fixtures;
/// Logs through `rpctap import`: kept once, in any packing, refused in one line.
mod imports;
/// kill -9 at random points: what was committed is there, whole and in order.
#[cfg(target_os = "linux")]
mod kills;
/// Messages longer than memory should be.
#[cfg(target_os = "linux")]
mod long_messages;
/// Servers for the other tests: this same binary, run again.
#[cfg(unix)]
mod peer;
/// The official MCP SDK on both ends of a tap.
#[cfg(unix)]
mod real_peers;
/// What a client sees of a server behind a tap: bytes, ends, signals, exit codes.
#[cfg(target_os = "linux")]
mod tap;
/// Runs a tap for a test and reads what it kept.
#[cfg(unix)]
mod tapped;

/// The report page, in a real browser.
mod page;

/// The HTTP proxy between real sockets: faithfulness, ends, faults, refusals, real peers.
mod proxy;
/// The README's console blocks: what they show is what is printed.
#[cfg(unix)]
mod readme;
/// Recordings of real software with known truth: everything is found, nobody is accused wrongly.
mod recordings;
/// Secrets that must reach neither the disk nor a report.
#[cfg(target_os = "linux")]
mod redaction;
/// Replays with processes and sockets: the recorded server to real clients, the recorded client to any server.
#[cfg(target_os = "linux")]
mod replays;
/// The views of the store, held against the analyzer.
mod views;

/// Random conversations with known truth, thousands of them, judged.
mod truth;

/// Rough input and long sessions: nothing breaks, nothing is paired wrongly, memory stays with what is open.
mod rough;
