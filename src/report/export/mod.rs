//! Recordings for other tools: HAR for HTTP tools, VS Code's trace for language server tools.
//!
//! Comes in: one recording. Goes out: the text of the file. What the format has no place for is left out; rpctap's
//! own event lines lose nothing and are written by `event`.

pub mod har;
pub mod lsp_trace;
