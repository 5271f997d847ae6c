//! The Agent Client Protocol, v1 and v2.
//!
//! `$/cancel_request` names a request, which must still be answered. `session/cancel` names a session: in v1 the
//! pending prompt must then be answered with stop reason `cancelled`; in v2 the agent must go idle.

use crate::rpc::{Kind, Mark, Message};

use super::{Dialect, Heard, Protocol, Role, Strength, by_name};

pub struct Acp;

fn version(raw: &str) -> Option<Dialect> {
    match raw.parse::<u64>().ok()? {
        0 | 1 => Some(Dialect::Acp1),
        _ => Some(Dialect::Acp2),
    }
}

impl Protocol for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn role(&self, method: &str) -> Role {
        match method {
            "initialize" => Role::Initialize,
            "session/prompt" => Role::Turn,
            "session/request_permission" => Role::Permission,
            "session/update" => Role::SessionUpdate,
            "session/cancel" => Role::CancelSession,
            "session/close" => Role::SessionClose,
            "$/cancel_request" => Role::CancelRequest(Mark::ParamRequestId),
            "terminal/wait_for_exit" | "authenticate" => Role::LongPoll,
            _ if method.starts_with("elicitation/") => Role::LongPoll,
            _ => Role::Ordinary,
        }
    }

    fn hears(&self, message: &Message) -> Option<Heard> {
        let marks = &message.marks;
        let agreed = message.kind == Kind::Result;
        let named = if agreed { Mark::ResultVersion } else { Mark::ParamVersion };
        if (agreed || message.method() == "initialize")
            && let Some(raw) = marks.raw(named)
            && let Some(dialect) = version(raw)
        {
            return Some(Heard {
                dialect,
                version: Some(raw.to_string()),
                strength: if agreed { Strength::Agreed } else { Strength::Version },
                by: format!("{}initialize, protocolVersion {raw}", if agreed { "the answer to " } else { "" }),
            });
        }
        let method = message.method();
        let names = [
            "session/new",
            "session/load",
            "session/prompt",
            "session/update",
            "session/cancel",
            "session/request_permission",
            "session/set_mode",
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "terminal/output",
            "terminal/wait_for_exit",
            "terminal/kill",
            "terminal/release",
            "$/cancel_request",
        ];
        if names.contains(&method) {
            return by_name(Dialect::Acp1, method);
        }
        None
    }
}
