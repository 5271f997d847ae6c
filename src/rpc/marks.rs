//! The few values inside a message that some protocol gives a meaning to.
//!
//! The scanner picks them out while it passes by, so that nothing right of it need read a body again. Which
//! protocol they matter to is not decided here; this is only the list of places, and a compact form of what
//! stood there: one JSON object with short keys, ready for a column (`{"name":"search","ask-progress":3}`).

use std::sync::LazyLock;

/// A place inside a message. To add one: a variant here and a row in [`MARKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mark {
    ErrorCode,
    ErrorMessage,
    ParamRequestId,
    ParamId,
    Tool,
    ParamVersion,
    ClientName,
    ClientVersion,
    MetaVersion,
    MetaClientName,
    MetaClientVersion,
    MetaTasks,
    MetaLogLevel,
    RequestProgressToken,
    RelatedTask,
    ParamSubscription,
    ProgressToken,
    Progress,
    Token,
    ProgressKind,
    WorkDoneToken,
    PartialResultToken,
    ParamSession,
    Update,
    UpdateState,
    UpdateStop,
    ParamTaskId,
    ParamStatus,
    TaskAsked,
    TaskAskedTtl,
    ParamState,
    Reason,
    ProcessId,
    RootUri,
    ParamCapabilities,
    BspVersion,
    MessageTaskId,
    MessageContextId,
    Blocking,
    Command,
    ResultVersion,
    ServerName,
    ServerVersion,
    AgentName,
    AgentVersion,
    MetaServerName,
    MetaServerVersion,
    ResultSubscription,
    ResultType,
    ResultState,
    ResultTask,
    ResultTaskTaskId,
    ResultTaskId2,
    ResultTaskStatus,
    ResultTaskState,
    ResultTaskTtl,
    ResultTaskPoll,
    ResultTaskId,
    ResultStatus,
    ResultStatusState,
    ResultTtl,
    ResultTtlMs,
    ResultPoll,
    ResultPollMs,
    ResultUpdatedAt,
    ResultId,
    ResultKind,
    ResultFinal,
    StatusUpdateTask,
    StatusUpdateState,
    ArtifactUpdateTask,
    ResultMessage,
    StopReason,
    IsError,
    StatusCode,
    PermissionOutcome,
    ResultSession,
    ResultCapabilities,
    AgentCapabilities,
}

/// One row of the list: the mark, its key in the compact form, and the keys that lead to it.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub mark: Mark,
    pub key: &'static str,
    pub path: &'static [&'static str],
}

/// All marks, in the order of the enum (a test holds them together).
pub const MARKS: &[Place] = &[
    Place { mark: Mark::ErrorCode, key: "code", path: &["error", "code"] },
    Place { mark: Mark::ErrorMessage, key: "message", path: &["error", "message"] },
    Place { mark: Mark::ParamRequestId, key: "request-id", path: &["params", "requestId"] },
    Place { mark: Mark::ParamId, key: "id", path: &["params", "id"] },
    Place { mark: Mark::Tool, key: "name", path: &["params", "name"] },
    Place { mark: Mark::ParamVersion, key: "version", path: &["params", "protocolVersion"] },
    Place { mark: Mark::ClientName, key: "client", path: &["params", "clientInfo", "name"] },
    Place { mark: Mark::ClientVersion, key: "client-version", path: &["params", "clientInfo", "version"] },
    Place {
        mark: Mark::MetaVersion,
        key: "meta-version",
        path: &["params", "_meta", "io.modelcontextprotocol/protocolVersion"],
    },
    Place {
        mark: Mark::MetaClientName,
        key: "meta-client",
        path: &["params", "_meta", "io.modelcontextprotocol/clientInfo", "name"],
    },
    Place {
        mark: Mark::MetaClientVersion,
        key: "meta-client-version",
        path: &["params", "_meta", "io.modelcontextprotocol/clientInfo", "version"],
    },
    Place {
        mark: Mark::MetaTasks,
        key: "meta-tasks",
        path: &[
            "params",
            "_meta",
            "io.modelcontextprotocol/clientCapabilities",
            "extensions",
            "io.modelcontextprotocol/tasks",
        ],
    },
    Place {
        mark: Mark::MetaLogLevel,
        key: "meta-log-level",
        path: &["params", "_meta", "io.modelcontextprotocol/logLevel"],
    },
    Place { mark: Mark::RequestProgressToken, key: "ask-progress", path: &["params", "_meta", "progressToken"] },
    Place {
        mark: Mark::RelatedTask,
        key: "related-task",
        path: &["params", "_meta", "io.modelcontextprotocol/related-task", "taskId"],
    },
    Place {
        mark: Mark::ParamSubscription,
        key: "subscription",
        path: &["params", "_meta", "io.modelcontextprotocol/subscriptionId"],
    },
    Place { mark: Mark::ProgressToken, key: "progress-token", path: &["params", "progressToken"] },
    Place { mark: Mark::Progress, key: "progress", path: &["params", "progress"] },
    Place { mark: Mark::Token, key: "token", path: &["params", "token"] },
    Place { mark: Mark::ProgressKind, key: "progress-kind", path: &["params", "value", "kind"] },
    Place { mark: Mark::WorkDoneToken, key: "work-done-token", path: &["params", "workDoneToken"] },
    Place { mark: Mark::PartialResultToken, key: "partial-token", path: &["params", "partialResultToken"] },
    Place { mark: Mark::ParamSession, key: "session", path: &["params", "sessionId"] },
    Place { mark: Mark::Update, key: "update", path: &["params", "update", "sessionUpdate"] },
    Place { mark: Mark::UpdateState, key: "update-state", path: &["params", "update", "state"] },
    Place { mark: Mark::UpdateStop, key: "update-stop", path: &["params", "update", "stopReason"] },
    Place { mark: Mark::ParamTaskId, key: "task-id", path: &["params", "taskId"] },
    Place { mark: Mark::ParamStatus, key: "status", path: &["params", "status"] },
    Place { mark: Mark::TaskAsked, key: "task", path: &["params", "task"] },
    Place { mark: Mark::TaskAskedTtl, key: "task-ttl", path: &["params", "task", "ttl"] },
    Place { mark: Mark::ParamState, key: "request-state", path: &["params", "requestState"] },
    Place { mark: Mark::Reason, key: "reason", path: &["params", "reason"] },
    Place { mark: Mark::ProcessId, key: "process-id", path: &["params", "processId"] },
    Place { mark: Mark::RootUri, key: "root-uri", path: &["params", "rootUri"] },
    Place { mark: Mark::ParamCapabilities, key: "capabilities", path: &["params", "capabilities"] },
    Place { mark: Mark::BspVersion, key: "bsp-version", path: &["params", "bspVersion"] },
    Place { mark: Mark::MessageTaskId, key: "message-task", path: &["params", "message", "taskId"] },
    Place { mark: Mark::MessageContextId, key: "message-context", path: &["params", "message", "contextId"] },
    Place { mark: Mark::Blocking, key: "blocking", path: &["params", "configuration", "blocking"] },
    Place { mark: Mark::Command, key: "command", path: &["params", "command"] },
    Place { mark: Mark::ResultVersion, key: "r-version", path: &["result", "protocolVersion"] },
    Place { mark: Mark::ServerName, key: "server", path: &["result", "serverInfo", "name"] },
    Place { mark: Mark::ServerVersion, key: "server-version", path: &["result", "serverInfo", "version"] },
    Place { mark: Mark::AgentName, key: "agent", path: &["result", "agentInfo", "name"] },
    Place { mark: Mark::AgentVersion, key: "agent-version", path: &["result", "agentInfo", "version"] },
    Place {
        mark: Mark::MetaServerName,
        key: "meta-server",
        path: &["result", "_meta", "io.modelcontextprotocol/serverInfo", "name"],
    },
    Place {
        mark: Mark::MetaServerVersion,
        key: "meta-server-version",
        path: &["result", "_meta", "io.modelcontextprotocol/serverInfo", "version"],
    },
    Place {
        mark: Mark::ResultSubscription,
        key: "r-subscription",
        path: &["result", "_meta", "io.modelcontextprotocol/subscriptionId"],
    },
    Place { mark: Mark::ResultType, key: "result-type", path: &["result", "resultType"] },
    Place { mark: Mark::ResultState, key: "r-request-state", path: &["result", "requestState"] },
    Place { mark: Mark::ResultTask, key: "r-task", path: &["result", "task"] },
    Place { mark: Mark::ResultTaskTaskId, key: "r-task-task-id", path: &["result", "task", "taskId"] },
    Place { mark: Mark::ResultTaskId2, key: "r-task-id", path: &["result", "task", "id"] },
    Place { mark: Mark::ResultTaskStatus, key: "r-task-status", path: &["result", "task", "status"] },
    Place { mark: Mark::ResultTaskState, key: "r-task-state", path: &["result", "task", "status", "state"] },
    Place { mark: Mark::ResultTaskTtl, key: "r-task-ttl", path: &["result", "task", "ttl"] },
    Place { mark: Mark::ResultTaskPoll, key: "r-task-poll", path: &["result", "task", "pollInterval"] },
    Place { mark: Mark::ResultTaskId, key: "r-taskid", path: &["result", "taskId"] },
    Place { mark: Mark::ResultStatus, key: "r-status", path: &["result", "status"] },
    Place { mark: Mark::ResultStatusState, key: "r-state", path: &["result", "status", "state"] },
    Place { mark: Mark::ResultTtl, key: "r-ttl", path: &["result", "ttl"] },
    Place { mark: Mark::ResultTtlMs, key: "r-ttl-ms", path: &["result", "ttlMs"] },
    Place { mark: Mark::ResultPoll, key: "r-poll", path: &["result", "pollInterval"] },
    Place { mark: Mark::ResultPollMs, key: "r-poll-ms", path: &["result", "pollIntervalMs"] },
    Place { mark: Mark::ResultUpdatedAt, key: "r-updated", path: &["result", "lastUpdatedAt"] },
    Place { mark: Mark::ResultId, key: "r-id", path: &["result", "id"] },
    Place { mark: Mark::ResultKind, key: "r-kind", path: &["result", "kind"] },
    Place { mark: Mark::ResultFinal, key: "r-final", path: &["result", "final"] },
    Place { mark: Mark::StatusUpdateTask, key: "r-update-task", path: &["result", "statusUpdate", "taskId"] },
    Place {
        mark: Mark::StatusUpdateState,
        key: "r-update-state",
        path: &["result", "statusUpdate", "status", "state"],
    },
    Place { mark: Mark::ArtifactUpdateTask, key: "r-artifact-task", path: &["result", "artifactUpdate", "taskId"] },
    Place { mark: Mark::ResultMessage, key: "r-message", path: &["result", "message"] },
    Place { mark: Mark::StopReason, key: "stop-reason", path: &["result", "stopReason"] },
    Place { mark: Mark::IsError, key: "is-error", path: &["result", "isError"] },
    Place { mark: Mark::StatusCode, key: "status-code", path: &["result", "statusCode"] },
    Place { mark: Mark::PermissionOutcome, key: "outcome", path: &["result", "outcome", "outcome"] },
    Place { mark: Mark::ResultSession, key: "r-session", path: &["result", "sessionId"] },
    Place { mark: Mark::ResultCapabilities, key: "r-capabilities", path: &["result", "capabilities"] },
    Place { mark: Mark::AgentCapabilities, key: "agent-capabilities", path: &["result", "agentCapabilities"] },
];

/// A mark longer than this is kept as `"hash:<16 hex digits>"`: enough to compare it, too little to leak it.
pub const LONGEST_MARK_BYTES: usize = 200;

/// The marks of one message. Empty for most.
///
/// Scalars are kept as raw JSON literals (strings with their quotes). An object or array at a marked place is
/// kept as `{}` or `[]`: it says that something is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Which marks are present, by their number in the enum.
    present: u128,
    /// The compact JSON object, or empty.
    text: Box<str>,
}

impl Marks {
    /// Takes the compact form, as [`Marks::as_json`] gave it. Unknown keys are passed over.
    pub fn from_json(text: &str) -> Marks {
        let mut present = 0u128;
        for (key, _) in pairs(text) {
            if let Some(mark) = mark_of(key) {
                present |= 1 << mark as u8;
            }
        }
        Marks { present, text: if present == 0 { "".into() } else { text.into() } }
    }

    /// Builds the compact form from raw literals. A later value for the same mark replaces the earlier.
    pub fn from_literals<'a>(literals: impl IntoIterator<Item = (Mark, &'a str)>) -> Marks {
        let mut kept: Vec<(Mark, &str)> = Vec::new();
        for (mark, raw) in literals {
            match kept.iter_mut().find(|(known, _)| *known == mark) {
                Some(slot) => slot.1 = raw,
                None => kept.push((mark, raw)),
            }
        }
        if kept.is_empty() {
            return Marks::default();
        }
        let mut present = 0u128;
        let mut text = String::from("{");
        for (mark, raw) in kept {
            if text.len() > 1 {
                text.push(',');
            }
            text.push('"');
            text.push_str(MARKS[mark as usize].key);
            text.push_str("\":");
            text.push_str(raw);
            present |= 1 << mark as u8;
        }
        text.push('}');
        Marks { present, text: text.into() }
    }

    /// Trusts that `present` and `text` belong together: for the scanner, which writes both.
    pub fn from_parts(present: u128, text: Box<str>) -> Marks {
        Marks { present, text }
    }

    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    pub fn has(&self, mark: Mark) -> bool {
        self.present & (1 << mark as u8) != 0
    }

    /// The raw JSON literal at this place.
    pub fn raw(&self, mark: Mark) -> Option<&str> {
        if !self.has(mark) {
            return None;
        }
        let key = MARKS[mark as usize].key;
        pairs(&self.text).find(|(known, _)| *known == key).map(|(_, raw)| raw)
    }

    /// The text of a string at this place, escapes kept as written.
    pub fn text(&self, mark: Mark) -> Option<&str> {
        let raw = self.raw(mark)?;
        raw.strip_prefix('"')?.strip_suffix('"')
    }

    pub fn number(&self, mark: Mark) -> Option<f64> {
        self.raw(mark)?.parse().ok()
    }

    /// The compact JSON object; `""` when there are no marks.
    pub fn as_json(&self) -> &str {
        &self.text
    }
}

/// Millions of rows are read back at a time, so that a key is found by a glance at its length and ends.
fn mark_of(key: &str) -> Option<Mark> {
    static BY_LOOK: LazyLock<Vec<Vec<&'static Place>>> = LazyLock::new(|| {
        let mut buckets = vec![Vec::new(); LOOKS];
        for place in MARKS {
            buckets[look(place.key)].push(place);
        }
        buckets
    });
    BY_LOOK[look(key)].iter().find(|place| place.key == key).map(|place| place.mark)
}

const LOOKS: usize = 256;

fn look(key: &str) -> usize {
    let bytes = key.as_bytes();
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
    (bytes.len() * 37 + byte(0) * 11 + byte(bytes.len() / 2) * 5 + byte(bytes.len().wrapping_sub(1)) * 3) % LOOKS
}

/// Walks `{"key":literal,...}` as written by this file: keys without escapes, values scalars or `{}`/`[]`.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text.strip_prefix('{').unwrap_or("");
    std::iter::from_fn(move || {
        let body = rest.strip_prefix('"')?;
        let end = body.bytes().position(|byte| byte == b'"')?;
        let (key, after) = (&body[..end], body[end + 1..].strip_prefix(':')?);
        let end = literal_end(after);
        let raw = &after[..end];
        rest = after[end..].strip_prefix(',').unwrap_or("");
        Some((key, raw))
    })
}

fn literal_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.first() == Some(&b'"') {
        let mut at = 1;
        while at < bytes.len() {
            match bytes[at] {
                b'\\' => at += 2,
                b'"' => return at + 1,
                _ => at += 1,
            }
        }
        return bytes.len();
    }
    if text.starts_with("{}") || text.starts_with("[]") {
        return 2;
    }
    bytes.iter().position(|byte| matches!(byte, b',' | b'}')).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_follows_the_enum_and_keys_are_unique() {
        for (number, place) in MARKS.iter().enumerate() {
            assert_eq!(place.mark as usize, number, "{} stands at the wrong place", place.key);
            assert_eq!(MARKS.iter().filter(|other| other.key == place.key).count(), 1, "{} twice", place.key);
        }
        assert!(MARKS.len() <= 128, "the presence mask has 128 bits");
    }

    #[test]
    fn what_goes_in_comes_out() {
        let marks = Marks::from_literals([
            (Mark::Tool, r#""a,\"}b""#),
            (Mark::RequestProgressToken, "3"),
            (Mark::TaskAsked, "{}"),
            (Mark::RequestProgressToken, "4"),
        ]);
        let again = Marks::from_json(marks.as_json());
        assert_eq!(marks, again);
        assert_eq!(again.text(Mark::Tool), Some(r#"a,\"}b"#));
        assert_eq!(again.number(Mark::RequestProgressToken), Some(4.0));
        assert_eq!(again.raw(Mark::TaskAsked), Some("{}"));
        assert_eq!(again.raw(Mark::ErrorCode), None);
        assert!(Marks::from_json("").is_empty() && Marks::from_json("{}").is_empty());
    }
}
