//! One request on its way to the upstream server, and the response on its way back.
//!
//! Comes in: bytes from both sides as they come. Goes out: the same bytes to the other side, notes of them for the
//! recorder (before they are sent: an answer can then never stand before what it answers), and how the exchange ended.
//! Both directions are moved by the client's one task; each gets its turn.

use std::task::{Context, Poll};

use crate::event::{How, Side};
use crate::peer::dial::Stream;

use super::answer::Answer;
use super::client::Client;
use super::ends::{Outbox, PIECE_BYTES, poll_read, with_gathered};
use super::framing::{Body, Fed, Form, read_trailers};
use super::line::Forwarder;
use super::notes::Carrier;

/// After so many pieces of one direction the other has its turn.
const ROUNDS: usize = 8;

/// What the response depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) head_only: bool,
    pub(super) minor: u8,
    /// The client means to send another request.
    pub(super) stays: bool,
    pub(super) websocket: bool,
    /// The client waits to be told that it may send the body.
    pub(super) expects: bool,
}

/// How an exchange ended.
pub(super) enum Ended {
    /// The response is whole.
    Done,
    /// The client left, in order or not.
    Left(How),
    /// The kept connection was closed before anything of the request went out.
    Stale,
    /// No whole head came from upstream, and none will.
    Unanswered(String),
    /// Upstream broke off within its response.
    Torn(&'static str),
    /// The upload is not what it should be.
    Unsound(&'static str),
    UploadStoodStill,
    /// Both sides have agreed on a WebSocket. What the server has said on it already.
    Upgraded(Vec<u8>),
}

pub(super) struct Exchange {
    pub(super) carrier: Carrier,
    pub(super) asked: Asked,
    /// What is still to come of the request.
    pub(super) upload: Body,
    /// Bytes of the request's body so far.
    pub(super) uploaded: u64,
    /// `None`: not yet connected, or not to be reached.
    pub(super) server: Option<Stream>,
    /// The server takes no more of the request, which is read all the same.
    pub(super) deaf: bool,
    /// The connection has served before.
    pub(super) kept: bool,
    sent: bool,
    pub(super) to_server: Outbox,
    pub(super) answer: Answer,
    /// The beginning of a response's head.
    pub(super) from_server: Vec<u8>,
    /// The server will take another request.
    pub(super) server_stays: bool,
    /// The client was told that its connection ends here.
    pub(super) closes: bool,
}

impl Exchange {
    pub(super) fn new(carrier: Carrier, asked: Asked, upload: Body) -> Exchange {
        Exchange {
            carrier,
            asked,
            upload,
            uploaded: 0,
            server: None,
            deaf: false,
            kept: false,
            sent: false,
            to_server: Outbox::default(),
            answer: Answer::Awaited,
            from_server: Vec::new(),
            server_stays: false,
            closes: false,
        }
    }

    /// Takes what came of the body together with the head; gives how much that was.
    pub(super) fn begin(&mut self, bytes: &[u8], gathered: &mut Vec<u8>) -> Result<usize, &'static str> {
        if self.upload.is_whole() {
            self.carrier.request_end();
            return Ok(0);
        }
        self.take(bytes, gathered)
    }

    /// Whether the client has seen anything of the response.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.answer, Answer::Awaited)
    }

    /// Whether a client can tell that the response broke off.
    pub(super) fn shows_its_end(&self) -> bool {
        !matches!(self.answer, Answer::Comes(_, Form::Bare))
    }

    pub(super) fn poll(
        &mut self,
        client: &mut Client,
        forwarder: &Forwarder,
        context: &mut Context<'_>,
    ) -> Poll<Ended> {
        if let Poll::Ready(ended) = self.poll_up(client, forwarder, context) {
            return Poll::Ready(ended);
        }
        self.poll_down(client, context)
    }

    /// Moves the request along. Ready only when that ends the exchange.
    pub(super) fn poll_up(
        &mut self,
        client: &mut Client,
        forwarder: &Forwarder,
        context: &mut Context<'_>,
    ) -> Poll<Ended> {
        for _ in 0..ROUNDS {
            if let Some(server) = &mut self.server
                && !self.to_server.is_empty()
            {
                match self.to_server.poll_send(server, context) {
                    Poll::Ready(Ok(())) => {
                        self.sent = true;
                        client.pulse.awaits_answer();
                    }
                    Poll::Ready(Err(_)) if self.kept && !self.sent && self.to_server.is_untouched() => {
                        return Poll::Ready(Ended::Stale);
                    }
                    // It takes no more, but may have answered.
                    Poll::Ready(Err(_)) => {
                        self.deaf = true;
                        self.to_server.clear();
                    }
                    Poll::Pending => return self.poll_untaken(client, forwarder, context),
                }
            }
            let watching = self.upload.is_whole();
            if watching {
                client.pulse.awaits_answer();
            }
            if watching && client.held.len() >= PIECE_BYTES {
                return client.poll_leave(context).map(|(how, _)| Ended::Left(how));
            }
            if !watching && !client.held.is_empty() {
                let held = std::mem::take(&mut client.held);
                match with_gathered(|gathered| self.take(&held, gathered)) {
                    Ok(taken) => client.held.extend_from_slice(&held[taken..]),
                    Err(why) => return Poll::Ready(Ended::Unsound(why)),
                }
                continue;
            }
            let read = poll_read(&mut client.stream, context, |bytes, gathered| {
                let taken = if watching || bytes.is_empty() { 0 } else { self.take(bytes, gathered)? };
                client.held.extend_from_slice(&bytes[taken..]);
                Ok(bytes.is_empty())
            });
            match read {
                Poll::Ready(Ok(Ok(false))) => client.pulse.awaits_answer(),
                Poll::Ready(Ok(Ok(true))) => return Poll::Ready(Ended::Left(How::Eof)),
                Poll::Ready(Ok(Err(why))) => return Poll::Ready(Ended::Unsound(why)),
                Poll::Ready(Err(_)) => return Poll::Ready(Ended::Left(How::Reset)),
                Poll::Pending => {
                    self.to_server.shrink();
                    let late = !watching && client.pulse.awaits_upload() > forwarder.upload_idle_limit;
                    return if late { Poll::Ready(Ended::UploadStoodStill) } else { Poll::Pending };
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Upstream takes nothing just now. Who was torn has gone; who left in order may have said all that was to be said,
    /// and upstream has as much time for it as an upload has.
    fn poll_untaken(&self, client: &mut Client, forwarder: &Forwarder, context: &mut Context<'_>) -> Poll<Ended> {
        match client.poll_leave(context) {
            Poll::Ready((How::Eof, waited)) if waited <= forwarder.upload_idle_limit && self.is_all_there(client) => {
                Poll::Pending
            }
            left => left.map(|(how, _)| Ended::Left(how)),
        }
    }

    /// Whether the rest of the request is held.
    fn is_all_there(&self, client: &Client) -> bool {
        let mut upload = self.upload.clone();
        let fault = upload.feed(&client.held, Form::AsItCame, &mut Vec::new(), &mut Vec::new()).fault;
        fault.is_none() && upload.is_whole()
    }

    /// Takes a piece of the request's body; gives how much of it was that.
    fn take(&mut self, bytes: &[u8], gathered: &mut Vec<u8>) -> Result<usize, &'static str> {
        let fed = self.upload.feed(bytes, Form::AsItCame, &mut self.to_server.bytes, gathered);
        self.uploaded += fed.data.len() as u64;
        note(&self.carrier, Side::Client, &fed)?;
        if self.upload.is_whole() {
            self.carrier.request_end();
        }
        if self.deaf {
            self.to_server.clear();
        }
        Ok(fed.taken)
    }

    /// Moves the response along.
    fn poll_down(&mut self, client: &mut Client, context: &mut Context<'_>) -> Poll<Ended> {
        for _ in 0..ROUNDS {
            if !client.outbox.is_empty() {
                match client.outbox.poll_send(&mut client.stream, context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Ended::Left(How::Reset)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if let Answer::Whole = self.answer {
                self.carrier.done();
                if self.upload.is_whole() && self.to_server.is_empty() {
                    return Poll::Ready(Ended::Done);
                }
            }
            let Some(mut server) = self.server.take() else { return Poll::Pending };
            let heard = poll_read(&mut server, context, |bytes, gathered| self.hear(bytes, client, gathered));
            self.server = Some(server);
            match heard {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(ended))) => return Poll::Ready(ended),
                Poll::Ready(Err(cause)) => return Poll::Ready(self.broken(Some(&cause))),
                Poll::Pending => {
                    client.outbox.shrink();
                    return Poll::Pending;
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Notes a piece of a body; fails where something is wrong behind it.
pub(super) fn note(carrier: &Carrier, from: Side, fed: &Fed<'_>) -> Result<(), &'static str> {
    carrier.body(from, fed.data);
    if !fed.trailers.is_empty() {
        read_trailers(&fed.trailers, |fields| carrier.trailers(from, fields))?;
    }
    fed.fault.map_or(Ok(()), Err)
}
