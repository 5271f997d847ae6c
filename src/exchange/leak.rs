//! What can be open, and by what verdict it counts as leaked.

use crate::event::{Micros, Side};

/// What can be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// Requests that the client sent.
    ClientRequests,
    /// Requests that the server sent.
    ServerRequests,
    Tasks,
}

impl Track {
    pub const ALL: [Track; 3] = [Track::ClientRequests, Track::ServerRequests, Track::Tasks];

    pub fn requests_of(asker: Side) -> Track {
        match asker {
            Side::Client => Track::ClientRequests,
            Side::Server => Track::ServerRequests,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Track::ClientRequests => "client-requests",
            Track::ServerRequests => "server-requests",
            Track::Tasks => "tasks",
        }
    }
}

/// By what verdict something counts as leaked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeakKind {
    Orphaned,
    Abandoned,
    AnsweredAfterClose,
    /// A cancel after which a reply was owed and none came.
    UnresolvedCancel,
    /// Work that visibly went on after a cancel.
    WorkAfterCancel,
    Task,
    ProgressToken,
    Stream,
}

impl LeakKind {
    pub const ALL: [LeakKind; 8] = [
        LeakKind::Orphaned,
        LeakKind::Abandoned,
        LeakKind::AnsweredAfterClose,
        LeakKind::UnresolvedCancel,
        LeakKind::WorkAfterCancel,
        LeakKind::Task,
        LeakKind::ProgressToken,
        LeakKind::Stream,
    ];

    pub fn name(self) -> &'static str {
        match self {
            LeakKind::Orphaned => "orphaned",
            LeakKind::Abandoned => "abandoned",
            LeakKind::AnsweredAfterClose => "answered-after-close",
            LeakKind::UnresolvedCancel => "unresolved-cancel",
            LeakKind::WorkAfterCancel => "work-after-cancel",
            LeakKind::Task => "task",
            LeakKind::ProgressToken => "progress-token",
            LeakKind::Stream => "stream",
        }
    }
}

/// From when a leak counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// From when it was opened: for looking back.
    Opened,
    /// From when it became certain: for watching live.
    Certain,
}

/// One thing that leaked.
#[derive(Debug, Clone, Copy)]
pub struct Leak<'a> {
    pub kind: LeakKind,
    pub opened_at: Micros,
    pub certain_at: Micros,
    /// The track it stands open in, if it was told with [`super::Series::opened`] and never with [`super::Series::closed`].
    pub still_open: Option<Track>,
    pub method: &'a str,
    pub tool: Option<&'a str>,
}
