//! rpc: frame → messages.
//!
//! Comes in: the body of a frame, in pieces. Goes out: [`Message`]s: the envelope (what kind, [`Id`] exactly as
//! written, method) and the [`Marks`]: the few values inside params, result and error that protocols give a
//! meaning to. No tree is built, depth costs nothing, and memory is bounded whatever the length of a body. This
//! room refuses to know which protocol is spoken.

pub mod edit;
mod envelope;
pub mod id;
pub mod marks;
pub mod message;
pub mod print;
pub mod scanner;
mod skip;
mod string;
pub mod text;
mod trie;

pub use id::Id;
pub use marks::{Mark, Marks};
pub use message::{Kind, Message, Name, Oddities, Oddity, Unreadable};
pub use scanner::Scanner;
