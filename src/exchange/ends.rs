//! How cancels, tasks, tokens and streams end: one word each, the same in reports and JSON.

/// What a cancel named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CancelTarget {
    /// A request that was open.
    Open,
    /// A request that had been answered.
    Finished,
    /// No request ever seen in that direction.
    Unknown,
    /// One that must not be cancelled this way: `initialize`, a task.
    Forbidden,
    /// A request of the other side.
    WrongDirection,
    /// A request that had been cancelled before.
    Duplicate,
    /// Nothing: the cancel has no (usable) id.
    Nothing,
}

impl CancelTarget {
    pub const ALL: [CancelTarget; 7] = [
        CancelTarget::Open,
        CancelTarget::Finished,
        CancelTarget::Unknown,
        CancelTarget::Forbidden,
        CancelTarget::WrongDirection,
        CancelTarget::Duplicate,
        CancelTarget::Nothing,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CancelTarget::Open => "open",
            CancelTarget::Finished => "finished",
            CancelTarget::Unknown => "unknown",
            CancelTarget::Forbidden => "forbidden",
            CancelTarget::WrongDirection => "wrong-direction",
            CancelTarget::Duplicate => "duplicate",
            CancelTarget::Nothing => "nothing",
        }
    }
}

/// What came of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CancelEnd {
    /// Nothing came.
    Silent,
    /// An error came.
    Acknowledged,
    /// A result came within the race window.
    Raced,
    /// A result, or further progress, came after it.
    Ignored,
    /// It had nothing to end: finished, unknown, forbidden, of the other side, a repetition.
    Moot,
    /// The recording or the session ended before anything could come.
    Undecided,
}

impl CancelEnd {
    pub const ALL: [CancelEnd; 6] = [
        CancelEnd::Silent,
        CancelEnd::Acknowledged,
        CancelEnd::Raced,
        CancelEnd::Ignored,
        CancelEnd::Moot,
        CancelEnd::Undecided,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CancelEnd::Silent => "silent",
            CancelEnd::Acknowledged => "acknowledged",
            CancelEnd::Raced => "raced",
            CancelEnd::Ignored => "ignored",
            CancelEnd::Moot => "moot",
            CancelEnd::Undecided => "undecided",
        }
    }
}

/// What a cancel is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelOf {
    Request,
    /// ACP's `session/cancel`: whatever runs in that session.
    Session,
    /// `tasks/cancel`, `CancelTask`.
    Task,
    /// LSP's `window/workDoneProgress/cancel`.
    Token,
    /// The client closed the HTTP response, which is a cancel in MCP 2026-07-28.
    Disconnect,
}

impl CancelOf {
    pub fn name(self) -> &'static str {
        match self {
            CancelOf::Request => "request",
            CancelOf::Session => "session",
            CancelOf::Task => "task",
            CancelOf::Token => "token",
            CancelOf::Disconnect => "disconnect",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TaskEnd {
    /// It reached a final state.
    Finished,
    /// It reached a final state; its result was never fetched.
    NeverCollected,
    /// Not final, and somebody is still looking after it.
    Running,
    /// Not final, and nobody looks after it any more.
    Forgotten,
    /// Polled, and long past its time to live.
    Stuck,
    /// Waits for input that never comes.
    Parked,
    /// Cancelled, and ran on.
    CancelIgnored,
    /// The session ended, or the recording, before anything could be said.
    Undecided,
}

impl TaskEnd {
    pub const ALL: [TaskEnd; 8] = [
        TaskEnd::Finished,
        TaskEnd::NeverCollected,
        TaskEnd::Running,
        TaskEnd::Forgotten,
        TaskEnd::Stuck,
        TaskEnd::Parked,
        TaskEnd::CancelIgnored,
        TaskEnd::Undecided,
    ];

    pub fn name(self) -> &'static str {
        match self {
            TaskEnd::Finished => "finished",
            TaskEnd::NeverCollected => "never-collected",
            TaskEnd::Running => "running",
            TaskEnd::Forgotten => "forgotten",
            TaskEnd::Stuck => "stuck",
            TaskEnd::Parked => "parked",
            TaskEnd::CancelIgnored => "cancel-ignored",
            TaskEnd::Undecided => "undecided",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TokenEnd {
    /// Begun and ended.
    Ended,
    /// Made and never begun.
    NeverBegun,
    /// Begun and never ended.
    NeverEnded,
    /// Begun, and the recording stopped.
    Open,
}

impl TokenEnd {
    pub const ALL: [TokenEnd; 4] = [TokenEnd::Ended, TokenEnd::NeverBegun, TokenEnd::NeverEnded, TokenEnd::Open];

    pub fn name(self) -> &'static str {
        match self {
            TokenEnd::Ended => "ended",
            TokenEnd::NeverBegun => "never-begun",
            TokenEnd::NeverEnded => "never-ended",
            TokenEnd::Open => "open",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StreamEnd {
    /// Closed in order.
    Closed,
    /// The client closed it before the answer.
    Disconnected,
    /// The server ended it without the answer it owed.
    EndedWithoutAnswer,
    /// Still open, and may be.
    Open,
    /// Still open although nothing is owed on it any more.
    LeftOpen,
}

impl StreamEnd {
    pub const ALL: [StreamEnd; 5] = [
        StreamEnd::Closed,
        StreamEnd::Disconnected,
        StreamEnd::EndedWithoutAnswer,
        StreamEnd::Open,
        StreamEnd::LeftOpen,
    ];

    pub fn name(self) -> &'static str {
        match self {
            StreamEnd::Closed => "closed",
            StreamEnd::Disconnected => "disconnected",
            StreamEnd::EndedWithoutAnswer => "ended-without-answer",
            StreamEnd::Open => "open",
            StreamEnd::LeftOpen => "left-open",
        }
    }
}
