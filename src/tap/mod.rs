//! tap: live peers → events.
//!
//! Comes in: the bytes of a conversation as they pass. Goes out: the same bytes, at once, and a copy of them for the
//! recorder. A tap writes to a sink and never knows the store.

pub mod http;
