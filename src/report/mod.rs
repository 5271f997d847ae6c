//! report: findings and series → bytes.
//!
//! Comes in: what was judged. Goes out: text for a person, JSON for a program, a page, Markdown, pictures. This
//! room decides about words and looks, never about verdicts, and prints nothing itself.

pub mod safe;
