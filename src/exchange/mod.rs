//! exchange: events → facts.
//!
//! Comes in: the events of one session, in order, once. Goes out: [`Fact`]s: what became of every request (in both
//! directions), every cancel, task, progress token and stream, and what was irregular on the way. Requests are
//! keyed by who asked, the id and its generation; memory grows with what is open, never with what has passed.
//! This room refuses to judge: whether a silence is right or a leak is a question for `finding`.

mod answering;
mod asking;
mod cancelling;
mod carriers;
mod clients;
mod ending;
pub mod ends;
mod examples;
pub mod fact;
pub mod fold;
pub mod gauge;
mod hang_ups;
mod hash;
mod ids;
pub mod latency;
pub mod leak;
mod leavings;
pub mod let_go;
mod let_go_work;
pub mod limits;
pub mod names;
mod open;
pub mod outcome;
mod pending;
mod progress;
pub mod series;
pub mod sessions;
pub mod statistics;
mod strays;
mod subscriptions;
mod tasks;
pub mod trend;
mod twice;

pub use ends::{CancelEnd, CancelOf, CancelTarget, StreamEnd, TaskEnd, TokenEnd};
pub use fact::{Cancel, Cause, Exchange, Fact, Mark, MovedOn, Sign, Slip, SlipKind, Stream, Task, Token};
pub use fold::Fold;
pub use latency::Latency;
pub use limits::{CancelPolicy, Limits};
pub use outcome::{Outcome, Outcomes};
pub use series::{Leak, LeakKind, Series, Track};
pub use sessions::{HttpSession, SessionEnd};
pub use trend::{Growth, Trend};
