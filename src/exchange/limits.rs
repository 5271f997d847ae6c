//! Every threshold of the analysis, with its unit in its name. Passed in, never global.

/// What a client may ask of an answer to a cancel, whatever the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CancelPolicy {
    /// As the protocol and its version say.
    #[default]
    Spec,
    /// A cancelled request must be answered: MCP's silence is then a leak (an orchestrator that waits hangs).
    Reply,
    /// A cancelled request must not be answered.
    Silence,
}

impl CancelPolicy {
    pub const ALL: [CancelPolicy; 3] = [CancelPolicy::Spec, CancelPolicy::Reply, CancelPolicy::Silence];

    pub fn name(self) -> &'static str {
        match self {
            CancelPolicy::Spec => "spec",
            CancelPolicy::Reply => "reply",
            CancelPolicy::Silence => "silence",
        }
    }

    pub fn from_name(name: &str) -> Option<CancelPolicy> {
        CancelPolicy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A request open for longer is overdue. Half of the 60 s after which the commonest MCP client gives up:
    /// what is open that long is near the end of somebody's patience.
    pub deadline_ms: u64,
    /// An answer this soon after a cancel may have crossed it on the way, and is never blamed. `None`: one
    /// second, or twice the session's median round trip where that is longer.
    pub race_window_ms: Option<u64>,
    /// How long after the client's end of input answers may still be on their way. rmcp drains for five seconds.
    pub drain_ms: u64,
    /// How many requests in a row must be given up at the same interval before we speak of a habit.
    pub give_ups_in_a_row: u32,
    /// How far intervals may differ from their median and still be the same, in hundredths.
    pub give_up_spread_percent: u32,
    /// A task whose last known state is not final is forgotten after this many poll intervals without a poll.
    pub task_polls_missed: u32,
    /// The poll interval of a task that names none.
    pub task_poll_ms: u64,
    /// A task cancelled and still running after this long is suspect.
    pub task_cancel_ms: u64,
    pub cancel_policy: CancelPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            deadline_ms: 30_000,
            race_window_ms: None,
            drain_ms: 5_000,
            give_ups_in_a_row: 3,
            give_up_spread_percent: 20,
            task_polls_missed: 10,
            task_poll_ms: 5_000,
            task_cancel_ms: 30_000,
            cancel_policy: CancelPolicy::Spec,
        }
    }
}
