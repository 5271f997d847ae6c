//! report: findings and series → bytes.
//!
//! Comes in: what was judged. Goes out: text for a person, JSON for a program, a page, Markdown, pictures. This
//! room decides about words and looks, never about verdicts, and prints nothing itself.

pub mod chart;
pub mod growth_words;
pub mod safe;
pub mod samples;
pub mod words;

/// A method and, where it calls one, the tool: `tools/call:search`, as `--gauge` takes it. Not yet safe to print.
pub fn label(method: &str, tool: Option<&str>) -> String {
    match tool {
        Some(tool) => format!("{method}:{tool}"),
        None if method.is_empty() => "(no method)".to_string(),
        None => method.to_string(),
    }
}
