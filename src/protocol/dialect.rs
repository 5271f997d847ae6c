//! A protocol in one of its versions, and what that version says about ids, cancels, batches and directions.

/// The rule set a message stands under.
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

/// What the receiver of a cancel owes the one whose request it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owes {
    /// A reply, whatever happens: LSP, BSP, ACP, and JSON-RPC where nothing else is said.
    Reply,
    /// Nothing: it should not answer.
    Silence,
    /// Nothing: it must not answer.
    StrictSilence,
}

/// What a version says about arrays on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Batches {
    Allowed,
    /// Not mentioned, or the version is not known.
    Undefined,
    Forbidden,
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
            Dialect::Lsp => "lsp",
            Dialect::Bsp => "bsp",
            Dialect::Acp1 | Dialect::Acp2 => "acp",
            Dialect::A2a03 | Dialect::A2a10 => "a2a",
            _ => "mcp",
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

    /// For people: `MCP 2025-11-25`, `LSP`, `plain JSON-RPC`.
    pub fn words(self) -> String {
        let name = match self.name() {
            "json-rpc" => return "plain JSON-RPC".to_string(),
            "mcp" => "MCP",
            "lsp" => "LSP",
            "bsp" => "BSP",
            "acp" => "ACP",
            _ => "A2A",
        };
        match self.version() {
            Some(version) => format!("{name} {version}"),
            None => name.to_string(),
        }
    }

    /// `mcp`, `mcp-2025-11-25`, `acp-2`, …: the values of `--protocol`.
    pub fn flag(self) -> String {
        match self.version() {
            Some(version) => format!("{}-{version}", self.name()),
            None => self.name().to_string(),
        }
    }

    /// Takes what [`Dialect::flag`] gives, and the bare names of protocols with versions.
    pub fn from_flag(text: &str) -> Option<Dialect> {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "plain" | "jsonrpc" => return Some(Dialect::Plain),
            "acp" => return Some(Dialect::Acp1),
            "a2a" => return Some(Dialect::A2a10),
            _ => {}
        }
        Dialect::ALL.into_iter().find(|dialect| dialect.flag() == text)
    }

    pub fn is_mcp(self) -> bool {
        self.name() == "mcp"
    }

    /// MCP without sessions and handshake: each request names its version.
    pub fn is_modern_mcp(self) -> bool {
        self == Dialect::Mcp20260728
    }

    pub fn is_legacy_mcp(self) -> bool {
        self.is_mcp() && !self.is_modern_mcp()
    }

    pub fn is_lsp_like(self) -> bool {
        matches!(self, Dialect::Lsp | Dialect::Bsp)
    }

    pub fn is_acp(self) -> bool {
        self.name() == "acp"
    }

    pub fn is_a2a(self) -> bool {
        self.name() == "a2a"
    }

    pub fn owes_after_cancel(self) -> Owes {
        match self {
            Dialect::Mcp20260728 => Owes::StrictSilence,
            _ if self.is_mcp() => Owes::Silence,
            _ => Owes::Reply,
        }
    }

    pub fn batches(self) -> Batches {
        match self {
            Dialect::Plain | Dialect::Mcp20250326 | Dialect::Acp2 => Batches::Allowed,
            Dialect::Mcp | Dialect::Mcp20241105 | Dialect::A2a03 | Dialect::A2a10 => Batches::Undefined,
            _ => Batches::Forbidden,
        }
    }

    /// Closing the HTTP response is a cancel.
    pub fn disconnect_cancels(self) -> bool {
        self.is_modern_mcp()
    }

    /// The server may send requests too.
    pub fn server_may_ask(self) -> bool {
        !self.is_modern_mcp() && !self.is_a2a()
    }

    /// An id must never be used twice in a session, answered or not.
    pub fn ids_are_used_up(self) -> bool {
        self.is_legacy_mcp() && self != Dialect::Mcp
    }

    /// The session opens with a handshake: a recording without it began late.
    pub fn has_handshake(self) -> bool {
        self.is_legacy_mcp() || self.is_lsp_like() || self.is_acp()
    }

    /// MCP by its date: the newest version known that is not newer than this one.
    pub fn mcp_of(version: &str) -> Dialect {
        let dated = version.len() == 10 && version.bytes().filter(|byte| *byte == b'-').count() == 2;
        if !dated {
            return Dialect::Mcp;
        }
        Dialect::ALL
            .into_iter()
            .filter(|dialect| dialect.is_mcp() && dialect.version().is_some_and(|known| known <= version))
            .max()
            .unwrap_or(Dialect::Mcp20241105)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_every_dialect_and_lead_back() {
        for dialect in Dialect::ALL {
            let back = Dialect::from_flag(&dialect.flag());
            let expected = match dialect.flag().as_str() {
                "json-rpc" => Dialect::Plain,
                _ => dialect,
            };
            assert_eq!(back, Some(expected), "{}", dialect.flag());
        }
        assert_eq!(Dialect::from_flag("smtp"), None);
    }

    #[test]
    fn unknown_versions_of_mcp_fall_back_to_the_one_before() {
        assert_eq!(Dialect::mcp_of("2025-11-25"), Dialect::Mcp20251125);
        assert_eq!(Dialect::mcp_of("2025-12-31"), Dialect::Mcp20251125);
        assert_eq!(Dialect::mcp_of("2024-10-07"), Dialect::Mcp20241105);
        assert_eq!(Dialect::mcp_of("2027-01-01"), Dialect::Mcp20260728);
        assert_eq!(Dialect::mcp_of("latest"), Dialect::Mcp);
    }
}
