//! peer: reaches the other program.
//!
//! Comes in: where it is (a command, an address). Goes out: a way to send it bytes or requests and to hear what it
//! says. This room refuses to know what is said, and uses nothing of ours but errors.

#[cfg(unix)]
pub mod child;
pub mod dial;
pub mod http;
