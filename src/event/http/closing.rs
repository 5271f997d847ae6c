//! How a WebSocket ends: by whom, which is the session's end as well.
//!
//! Whoever sends the first close frame has closed; after it the server lets go of the connection first, whoever
//! that was (RFC 6455, 7.1.1). So what the connection's end tells counts only where no close frame came.

use crate::event::{Event, Happening, How, Micros, Party, Session, SessionKey, Side, Sink, StreamId, What};

use super::HttpHappening;
use super::conversation::Conversation;

/// Passes everything on, and hears which side was first to close.
pub(super) struct Listening<'a> {
    pub(super) sink: &'a mut dyn Sink,
    pub(super) first: &'a mut Option<Side>,
}

impl Sink for Listening<'_> {
    fn session(&mut self, session: &Session) {
        self.sink.session(session);
    }

    fn bytes(&mut self, session: SessionKey, stream: StreamId, bytes: &[u8]) {
        self.sink.bytes(session, stream, bytes);
    }

    fn event(&mut self, event: Event) {
        if let What::Happening(Happening::Closed { from, .. }) = event.what {
            self.first.get_or_insert(from);
        }
        self.sink.event(event);
    }

    fn over(&mut self, session: SessionKey) {
        self.sink.over(session);
    }
}

/// The connection is over: tells the session's end where no close frame did, and gives the end as it was.
pub(super) fn end(
    first: Option<Side>,
    (by, how): (Party, How),
    conversation: &mut Conversation,
    at: Micros,
    sink: &mut dyn Sink,
) -> HttpHappening<'static> {
    let (by, how) = match first {
        Some(side) => (party(side), How::Eof),
        None => (by, how),
    };
    // That the recording stops, or a log that does not say who closed, is no end of the session.
    if matches!(by, Party::Client | Party::Server) {
        if first.is_none() {
            for from in [Side::Client, Side::Server] {
                conversation.scribe.happening(at, None, Happening::Closed { from, by, how }, sink);
            }
        }
        conversation.ended = true;
    }
    HttpHappening::Closed { by, how }
}

pub(super) fn party(side: Side) -> Party {
    match side {
        Side::Client => Party::Client,
        Side::Server => Party::Server,
    }
}
