//! The Model Context Protocol, 2024-11-05 to 2026-07-28.
//!
//! Up to 2025-11-25 a session opens with `initialize`, and its answer fixes the version. From 2026-07-28 on there
//! is no handshake: each request names its version in `_meta`. A cancelled request should not be answered.

use crate::rpc::{Kind, Mark, Message};

use super::{Dialect, Heard, Protocol, Role, Strength, by_name};

pub struct Mcp;

/// Names that hardly anything else uses. A wrong guess would turn a duty to answer into one to be silent, so that
/// mere prefixes do not count.
const NAMES: &[&str] = &[
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "resources/templates/list",
    "roots/list",
    "sampling/createMessage",
    "completion/complete",
    "logging/setLevel",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/resources/updated",
    "notifications/resources/list_changed",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
    "notifications/elicitation/complete",
    "notifications/subscriptions/acknowledged",
];

impl Protocol for Mcp {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn role(&self, method: &str) -> Role {
        match method {
            "initialize" => Role::Initialize,
            "notifications/initialized" => Role::Initialized,
            "server/discover" => Role::Discover,
            "ping" => Role::Ping,
            "notifications/message" => Role::EarlyNotice,
            "tools/call" | "prompts/get" | "resources/read" => Role::Call,
            "sampling/createMessage" | "elicitation/create" => Role::LongPoll,
            // The second is what the first releases of the TypeScript SDK sent.
            "notifications/cancelled" | "cancelled" => Role::CancelRequest(Mark::ParamRequestId),
            "notifications/progress" => Role::Progress,
            "tasks/get" => Role::TaskGet(Mark::ParamTaskId),
            "tasks/result" => Role::TaskResult(Mark::ParamTaskId),
            "tasks/update" => Role::TaskUpdate(Mark::ParamTaskId),
            "tasks/cancel" => Role::CancelTask(Mark::ParamTaskId),
            "notifications/tasks/status" | "notifications/tasks" => Role::TaskStatus(Mark::ParamTaskId),
            "subscriptions/listen" => Role::Listen,
            "notifications/subscriptions/acknowledged" => Role::ListenAcknowledged,
            _ => Role::Ordinary,
        }
    }

    fn hears(&self, message: &Message) -> Option<Heard> {
        let marks = &message.marks;
        if let Some(version) = marks.text(Mark::MetaVersion) {
            return Some(Heard {
                dialect: Dialect::mcp_of(version),
                version: Some(version.to_string()),
                strength: Strength::Version,
                by: format!("a request that names protocolVersion {version}"),
            });
        }
        if message.kind == Kind::Result
            && let Some(version) = marks.text(Mark::ResultVersion)
        {
            return Some(Heard {
                dialect: Dialect::mcp_of(version),
                version: Some(version.to_string()),
                strength: Strength::Agreed,
                by: format!("the answer to initialize, protocolVersion {version}"),
            });
        }
        let method = message.method();
        match method {
            "initialize" => {
                let version = marks.text(Mark::ParamVersion)?;
                Some(Heard {
                    dialect: Dialect::mcp_of(version),
                    version: Some(version.to_string()),
                    strength: Strength::Version,
                    by: format!("initialize, protocolVersion {version}"),
                })
            }
            "server/discover" | "subscriptions/listen" => by_name(Dialect::Mcp20260728, method),
            "tasks/get" | "tasks/cancel" | "tasks/result" | "tasks/update" if marks.has(Mark::ParamTaskId) => {
                by_name(Dialect::Mcp, method)
            }
            _ if NAMES.contains(&method) => by_name(Dialect::Mcp, method),
            _ => None,
        }
    }

    fn tool(&self, method: &str) -> Option<Mark> {
        matches!(method, "tools/call" | "prompts/get").then_some(Mark::Tool)
    }
}
