//! protocol: message → meaning.
//!
//! Comes in: a message. Goes out: answers to a few questions: which protocol and version is this; does it cancel
//! something, and what; is a reply still owed after a cancel; may this request stay open for ever; does it open,
//! advance or end a task, a stream, a token. This room refuses to remember: what was open before is known to
//! `exchange`.

/// A protocol in one of its versions: the rule set a message stands under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dialect {
    Plain,
    /// MCP, version not seen: only what holds in all of them is a violation.
    Mcp,
    Mcp20241105,
    Mcp20250326,
    Mcp20250618,
    Mcp20251125,
    Mcp20260728,
    Lsp,
    Bsp,
    Acp1,
    Acp2,
    A2a03,
    A2a10,
}

impl Dialect {
    pub const ALL: [Dialect; 13] = [
        Dialect::Plain,
        Dialect::Mcp,
        Dialect::Mcp20241105,
        Dialect::Mcp20250326,
        Dialect::Mcp20250618,
        Dialect::Mcp20251125,
        Dialect::Mcp20260728,
        Dialect::Lsp,
        Dialect::Bsp,
        Dialect::Acp1,
        Dialect::Acp2,
        Dialect::A2a03,
        Dialect::A2a10,
    ];

    /// `mcp`, `lsp`, …: the protocol without its version.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Plain => "json-rpc",
            Dialect::Mcp
            | Dialect::Mcp20241105
            | Dialect::Mcp20250326
            | Dialect::Mcp20250618
            | Dialect::Mcp20251125
            | Dialect::Mcp20260728 => "mcp",
            Dialect::Lsp => "lsp",
            Dialect::Bsp => "bsp",
            Dialect::Acp1 | Dialect::Acp2 => "acp",
            Dialect::A2a03 | Dialect::A2a10 => "a2a",
        }
    }

    /// As the protocol writes it; `None` where the wire does not tell (LSP) or has not told.
    pub fn version(self) -> Option<&'static str> {
        match self {
            Dialect::Mcp20241105 => Some("2024-11-05"),
            Dialect::Mcp20250326 => Some("2025-03-26"),
            Dialect::Mcp20250618 => Some("2025-06-18"),
            Dialect::Mcp20251125 => Some("2025-11-25"),
            Dialect::Mcp20260728 => Some("2026-07-28"),
            Dialect::Acp1 => Some("1"),
            Dialect::Acp2 => Some("2"),
            Dialect::A2a03 => Some("0.3"),
            Dialect::A2a10 => Some("1.0"),
            Dialect::Plain | Dialect::Mcp | Dialect::Lsp | Dialect::Bsp => None,
        }
    }
}
