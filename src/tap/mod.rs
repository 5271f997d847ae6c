//! tap: live peers → events.
//!
//! Comes in: two peers that talk. Goes out: the same bytes, at once and unchanged, and a copy of them on a tape. It
//! forwards first and records second, never waits for the store, and does not know there is one.

pub mod http;
#[cfg(unix)]
pub mod pump;
#[cfg(unix)]
pub mod samples;
#[cfg(unix)]
pub mod signals;
#[cfg(unix)]
pub mod stdio;
