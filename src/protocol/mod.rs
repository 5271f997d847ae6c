//! protocol: message → meaning.
//!
//! Comes in: a message. Goes out: answers to a few questions: which protocol and version is this; does it cancel
//! something, and what; is a reply still owed after a cancel; may this request stay open for ever; does it open,
//! advance or end a task, a stream, a token. This room refuses to remember: what was open before is known to
//! `exchange`.

pub mod a2a;
pub mod acp;
pub mod dialect;
pub mod lsp;
pub mod mcp;
pub mod plain;
pub mod software;

pub use dialect::{Batches, Dialect, Owes};

use crate::rpc::{Mark, Message};

/// A protocol answers what its methods mean. Versions differ in rules ([`Dialect`]), hardly in names.
pub trait Protocol: Sync {
    /// As in [`Dialect::name`].
    fn name(&self) -> &'static str;

    /// What a method means here.
    fn role(&self, method: &str) -> Role;

    /// Does this message show that the protocol is spoken, and which version?
    fn hears(&self, message: &Message) -> Option<Heard>;

    /// Where a request says which tool (prompt, command) it is for.
    fn tool(&self, _method: &str) -> Option<Mark> {
        None
    }
}

/// To add a protocol: its file, a row here.
pub const PROTOCOLS: &[&dyn Protocol] = &[&mcp::Mcp, &acp::Acp, &lsp::Lsp, &lsp::Bsp, &a2a::A2a, &plain::Plain];

/// The protocol a dialect belongs to.
pub fn protocol(dialect: Dialect) -> &'static dyn Protocol {
    PROTOCOLS.iter().copied().find(|protocol| protocol.name() == dialect.name()).unwrap_or(&plain::Plain)
}

/// What a message tells about the protocol spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub dialect: Dialect,
    /// The version as written, where one is.
    pub version: Option<String>,
    pub strength: Strength,
    /// For people: what told us.
    pub by: String,
}

/// How sure it is. A stronger one replaces a weaker; of equals the first stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Nothing told us.
    Nothing,
    /// The name of a method.
    Name,
    /// A version named by one side.
    Version,
    /// The version both sides agreed on.
    Agreed,
    /// The user said so.
    Told,
}

/// Which protocol does this message show, if any?
pub fn hear(message: &Message) -> Option<Heard> {
    PROTOCOLS.iter().filter_map(|protocol| protocol.hears(message)).max_by(|a, b| {
        // Of equals the first in the list: `max_by` would take the last.
        a.strength.cmp(&b.strength).then(std::cmp::Ordering::Greater)
    })
}

/// Which protocol does the head of an HTTP request show?
pub fn hear_header(name: &str, value: &str) -> Option<Heard> {
    if name.eq_ignore_ascii_case("mcp-protocol-version") {
        return Some(Heard {
            dialect: Dialect::mcp_of(value),
            version: Some(value.to_string()),
            strength: Strength::Version,
            by: format!("the header MCP-Protocol-Version: {value}"),
        });
    }
    if name.eq_ignore_ascii_case("a2a-version") {
        return Some(Heard {
            dialect: if value.starts_with("0.") { Dialect::A2a03 } else { Dialect::A2a10 },
            version: Some(value.to_string()),
            strength: Strength::Version,
            by: format!("the header A2A-Version: {value}"),
        });
    }
    None
}

fn by_name(dialect: Dialect, method: &str) -> Option<Heard> {
    Some(Heard { dialect, version: None, strength: Strength::Name, by: format!("the method {method}") })
}

/// What a method means to the pairing. `Ordinary` for nearly all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Ordinary,
    /// Opens the session; in MCP it must not be cancelled.
    Initialize,
    Initialized,
    /// Asks a server what it is; an old server need not answer.
    Discover,
    Ping,
    Shutdown,
    Exit,
    /// A notification that may come before the handshake is done.
    EarlyNotice,
    /// May be answered with "input required" (MCP 2026-07-28) or become a task.
    Call,
    /// May stay open as long as it likes: it waits for a person, a process or a build.
    LongPoll,
    /// Cancels the request named by this mark.
    CancelRequest(Mark),
    /// Cancels whatever runs in a session (ACP).
    CancelSession,
    /// A request that cancels the task named by this mark.
    CancelTask(Mark),
    /// Cancels a progress token (LSP).
    CancelToken,
    /// Progress of a request (MCP).
    Progress,
    /// Progress on a token (LSP).
    TokenProgress,
    /// Makes a token (LSP).
    TokenCreate,
    /// Asks how a task is; the mark names it.
    TaskGet(Mark),
    /// Waits for the result of a task.
    TaskResult(Mark),
    TaskUpdate(Mark),
    /// Tells how a task is.
    TaskStatus(Mark),
    /// Opens a subscription that lives as long as the request (MCP 2026-07-28).
    Listen,
    ListenAcknowledged,
    /// A call that a task may come of and that may block until it is done (A2A).
    Send,
    /// Answered many times, until the stream ends (A2A).
    StreamCall,
    /// A prompt: in ACP v1 open until the turn is over.
    Turn,
    Permission,
    /// News of an ACP session.
    SessionUpdate,
    SessionClose,
}

impl Role {
    /// No deadline applies.
    pub fn may_stay_open(self) -> bool {
        matches!(
            self,
            Role::LongPoll
                | Role::TaskResult(_)
                | Role::Listen
                | Role::Send
                | Role::StreamCall
                | Role::Turn
                | Role::Permission
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{Kind, Marks, Oddities};

    fn request(method: &str, marks: &[(Mark, &str)]) -> Message {
        Message {
            kind: Kind::Request,
            id: None,
            method: Some(method.into()),
            marks: Marks::from_literals(marks.iter().copied()),
            oddities: Oddities::default(),
            params_print: 0,
            batch_index: None,
        }
    }

    #[test]
    fn each_protocol_is_heard_from_its_handshake() {
        let told = |method: &str, marks: &[(Mark, &str)]| hear(&request(method, marks)).map(|heard| heard.dialect);
        assert_eq!(told("initialize", &[(Mark::ParamVersion, "\"2025-06-18\"")]), Some(Dialect::Mcp20250618));
        assert_eq!(told("initialize", &[(Mark::ParamVersion, "1")]), Some(Dialect::Acp1));
        assert_eq!(told("initialize", &[(Mark::ParamVersion, "2")]), Some(Dialect::Acp2));
        assert_eq!(told("initialize", &[(Mark::ProcessId, "null")]), Some(Dialect::Lsp));
        assert_eq!(told("build/initialize", &[(Mark::BspVersion, "\"2.1.0\"")]), Some(Dialect::Bsp));
        assert_eq!(told("tools/call", &[(Mark::MetaVersion, "\"2026-07-28\"")]), Some(Dialect::Mcp20260728));
        assert_eq!(told("tools/call", &[]), Some(Dialect::Mcp));
        assert_eq!(told("server/discover", &[]), Some(Dialect::Mcp20260728));
        assert_eq!(told("message/send", &[]), Some(Dialect::A2a03));
        assert_eq!(told("SendMessage", &[]), Some(Dialect::A2a10));
        assert_eq!(told("session/prompt", &[]), Some(Dialect::Acp1));
        assert_eq!(told("textDocument/hover", &[]), Some(Dialect::Lsp));
        assert_eq!(told("tasks/get", &[]), None);
        assert_eq!(told("tasks/get", &[(Mark::ParamTaskId, "\"t\"")]), Some(Dialect::Mcp));
        assert_eq!(told("eth_call", &[]), None);
        assert_eq!(told("initialize", &[]), None);
    }

    #[test]
    fn headers_tell_too() {
        assert_eq!(hear_header("MCP-Protocol-Version", "2025-06-18").map(|h| h.dialect), Some(Dialect::Mcp20250618));
        assert_eq!(hear_header("a2a-version", "0.3").map(|h| h.dialect), Some(Dialect::A2a03));
        assert_eq!(hear_header("accept", "text/event-stream"), None);
    }

    #[test]
    fn every_dialect_has_its_protocol() {
        for dialect in Dialect::ALL {
            assert_eq!(protocol(dialect).name(), dialect.name());
        }
    }
}
