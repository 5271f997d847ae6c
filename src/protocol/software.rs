//! Known behaviour of named software: hints, never proof.
//!
//! Names and versions come from `clientInfo` and `serverInfo`, where programs write what they like. Each row says
//! what the sources of that software showed, for the versions looked at; it explains a finding, it makes none.

/// What one side says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub version: String,
}

struct Known {
    name: &'static str,
    /// Only for versions from here (inclusive) to there (exclusive); `""` is open.
    from: &'static str,
    to: &'static str,
    /// Only as the client, or only as the server.
    client: bool,
    says: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        name: "mcp",
        from: "",
        to: "",
        client: true,
        says: "\"mcp\" 0.1.0 is the name the MCP Python SDK gives a client that names none. Its releases 1.x send no \
               cancel when a call times out or its caller gives up, so each such call stays open in the server; \
               releases 2.x send one.",
    },
    Known {
        name: "codex-mcp-client",
        from: "",
        to: "",
        client: true,
        says: "Codex's MCP client has been seen to time out without sending a cancel.",
    },
    Known {
        name: "codex-mcp-server",
        from: "",
        to: "",
        client: false,
        says: "codex mcp-server stops the work on a cancel and never answers the cancelled call. MCP asks for that; a \
               client that waits for a reply hangs.",
    },
    Known {
        name: "rmcp",
        from: "",
        to: "",
        client: true,
        says: "rmcp sends a cancel on a timeout only where one was set, and none when a call's future is dropped.",
    },
    Known {
        name: "rmcp",
        from: "",
        to: "2.2.0",
        client: false,
        says: "rmcp before 2.2.0 still answers a request after it was cancelled; later releases are silent.",
    },
    Known {
        name: "claude-code",
        from: "",
        to: "",
        client: true,
        says: "Claude Code has been seen to drop a stdio server that answers an id it had cancelled.",
    },
];

/// What is known of this software in this role.
pub fn hints(named: &Named, client: bool) -> Vec<&'static str> {
    let within = |known: &Known| {
        (known.from.is_empty() || !before(&named.version, known.from))
            && (known.to.is_empty() || before(&named.version, known.to))
    };
    KNOWN
        .iter()
        .filter(|known| known.client == client && known.name == named.name && within(known))
        .filter(|known| known.name != "mcp" || named.version == "0.1.0")
        .map(|known| known.says)
        .collect()
}

/// What the words of an acknowledgement tell about who wrote them.
pub fn acknowledgement_hint(code: i64, message: &str) -> Option<&'static str> {
    match code {
        0 if message == "Request cancelled" => Some(
            "Error 0 \"Request cancelled\" is how servers made with the MCP Python SDK 1.3 to 1.29 answer a cancelled request.",
        ),
        _ if message.contains("context canceled") => {
            Some("\"context canceled\" is how servers made with the MCP Go SDK up to 1.7 answer a cancelled request.")
        }
        _ => None,
    }
}

/// What the reason of a cancel tells about who wrote it.
pub fn reason_hint(reason: &str) -> Option<&'static str> {
    if reason == "caller cancelled" || reason.starts_with("timed out after ") {
        return Some("The reasons of the cancels are worded as by clients made with the MCP Python SDK 2.x.");
    }
    if reason.contains("McpError") && reason.contains("Request timed out") {
        return Some("The reasons of the cancels are worded as by clients made with the MCP TypeScript SDK.");
    }
    None
}

/// Compares dotted versions number by number; what is no number counts as 0.
fn before(a: &str, b: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.trim_start_matches('v').split(['.', '-', '+']).take(3).map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(a) < numbers(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, version: &str) -> Named {
        Named { name: name.into(), version: version.into() }
    }

    #[test]
    fn hints_go_by_name_role_and_version() {
        assert_eq!(hints(&named("mcp", "0.1.0"), true).len(), 1);
        assert_eq!(hints(&named("mcp", "0.1.0"), false).len(), 0);
        assert_eq!(hints(&named("mcp", "7"), true).len(), 0);
        assert_eq!(hints(&named("rmcp", "2.1.9"), false).len(), 1);
        assert_eq!(hints(&named("rmcp", "2.10.0"), false).len(), 0);
        assert!(before("1.9", "1.10") && !before("2.2.0", "2.2.0"));
    }
}
