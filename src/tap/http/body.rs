//! Bodies on their way through: each chunk goes on as it came, and a copy of it to the tape.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::Sleep;

use crate::event::{How, Party, Side};
use crate::peer::http::Lease;

use super::notes::Carrier;

type Fail = Box<dyn std::error::Error + Send + Sync>;

/// Holds a body back until upstream has said `100 Continue` (or has kept silent for so long that the client
/// should not be made to wait any more).
pub(super) struct Gate {
    /// `None` once upstream can say nothing more.
    told: Option<oneshot::Receiver<()>>,
    patience: Pin<Box<Sleep>>,
}

/// As long as curl waits before it sends the body unasked.
const GATE_PATIENCE: Duration = Duration::from_secs(1);

impl Gate {
    pub(super) fn new(told: oneshot::Receiver<()>) -> Gate {
        Gate { told: Some(told), patience: Box::pin(tokio::time::sleep(GATE_PATIENCE)) }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(told) = &mut self.told
            && let Poll::Ready(answer) = Pin::new(told).poll(context)
        {
            self.told = None;
            // Dropped without a word: upstream has given its final answer, and nobody wants the body.
            if answer.is_ok() {
                return Poll::Ready(());
            }
        }
        self.patience.as_mut().poll(context)
    }
}

/// What the client uploads.
pub(super) struct RequestBody {
    incoming: Incoming,
    carrier: Arc<Carrier>,
    gate: Option<Gate>,
    idle_limit: Duration,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, carrier: Arc<Carrier>, gate: Option<Gate>, idle_limit: Duration) -> Self {
        if incoming.is_end_stream() {
            carrier.request_end();
        }
        RequestBody { incoming, carrier, gate, idle_limit }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Fail;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        let this = &mut *self;
        if let Some(gate) = &mut this.gate {
            ready!(gate.poll(context));
            this.gate = None;
        }
        match Pin::new(&mut this.incoming).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.carrier.pulse().awaits_answer();
                if let Some(data) = frame.data_ref() {
                    this.carrier.body(Side::Client, data);
                } else if let Some(trailers) = frame.trailers_ref() {
                    this.carrier.trailers(Side::Client, trailers);
                }
                // A body of known length is not asked again once it is whole.
                if this.incoming.is_end_stream() {
                    this.carrier.request_end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(cause))) => {
                this.carrier.left();
                Poll::Ready(Some(Err(cause.into())))
            }
            Poll::Ready(None) => {
                this.carrier.pulse().awaits_answer();
                this.carrier.request_end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                if this.carrier.pulse().awaits_upload(context.waker()) <= this.idle_limit {
                    return Poll::Pending;
                }
                this.carrier.note("the upload stood still for too long");
                this.carrier.closed(Party::Tap, How::Timeout);
                Poll::Ready(Some(Err("the upload stood still for too long".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// A chunk up to this length waits for its neighbours, if they have come already.
const SMALL_BYTES: usize = 4 * 1024;

/// So much is sent at once at most.
const GATHERED_BYTES: usize = 16 * 1024;

/// What goes back to the client.
#[expect(clippy::large_enum_variant, reason = "nearly all are upstream's, and a box would cost each of them")]
pub(super) enum ResponseBody {
    Upstream(Relay),
    /// Our own words.
    Own(Option<Bytes>),
}

/// The body of upstream's response. A server may send many small events in one go; hyper hands them over one by one
/// and writes each with a system call of its own. So what upstream's connection holds already is gathered, and what has
/// not come is not waited for. Where another task moves the connection's bytes, it gets its turn once before that.
pub(super) struct Relay {
    incoming: Incoming,
    carrier: Arc<Carrier>,
    lease: Option<Lease<RequestBody>>,
    gathered: BytesMut,
    /// The others have had their turn since the last chunk.
    yielded: bool,
    /// What came behind the gathered chunks and is no chunk.
    next: Option<Option<Result<Frame<Bytes>, hyper::Error>>>,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, carrier: Arc<Carrier>, mut lease: Lease<RequestBody>) -> ResponseBody {
        if !carrier.request_ended() {
            lease.drive_apart();
        }
        let lease = Some(lease);
        let mut relay = Relay { incoming, carrier, lease, gathered: BytesMut::new(), yielded: false, next: None };
        relay.settle();
        ResponseBody::Upstream(relay)
    }
}

impl Relay {
    /// Once the body is whole: tells so, and keeps the connection for others.
    fn settle(&mut self) {
        if self.incoming.is_end_stream() && self.gathered.is_empty() && self.next.is_none() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.carrier.done();
        // An upload that still runs keeps its connection busy; without a lease it is cut.
        if let Some(lease) = self.lease.take()
            && self.carrier.request_ended()
        {
            lease.give_back();
        }
    }

    fn data(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        self.carrier.body(Side::Server, &data);
        self.settle();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn give_gathered(&mut self) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        self.yielded = false;
        let data = self.gathered.split().freeze();
        self.data(data)
    }

    /// Trailers, the end or a failure: what is no data.
    fn give_last(&mut self, last: Option<Result<Frame<Bytes>, hyper::Error>>) -> Option<Result<Frame<Bytes>, Fail>> {
        match last {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.carrier.trailers(Side::Server, trailers);
                }
                self.settle();
                Some(Ok(frame))
            }
            Some(Err(cause)) => {
                self.carrier.closed(Party::Server, How::Reset);
                self.lease = None;
                Some(Err(cause.into()))
            }
            None => {
                self.finish();
                None
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        if let Some(last) = self.next.take() {
            return Poll::Ready(self.give_last(last));
        }
        loop {
            let incoming = &mut self.incoming;
            let polled = match &mut self.lease {
                Some(lease) => lease.poll_with(context, |inner| Pin::new(&mut *incoming).poll_frame(inner)),
                None => Pin::new(incoming).poll_frame(context),
            };
            let frame = match polled {
                Poll::Ready(Some(Ok(frame))) => frame.into_data(),
                Poll::Ready(Some(Err(cause))) => return self.last(Some(Err(cause))),
                Poll::Ready(None) => return self.last(None),
                Poll::Pending if self.gathered.is_empty() => return Poll::Pending,
                Poll::Pending if self.yielded || self.is_driven_along() => return self.give_gathered(),
                Poll::Pending => {
                    self.yielded = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            };
            match frame {
                Ok(data) if self.gathered.is_empty() && (data.len() > SMALL_BYTES || self.incoming.is_end_stream()) => {
                    return self.data(data);
                }
                Ok(data) => {
                    self.yielded = false;
                    self.gathered.extend_from_slice(&data);
                    if self.gathered.len() >= GATHERED_BYTES || self.incoming.is_end_stream() {
                        return self.give_gathered();
                    }
                }
                Err(other) => return self.last(Some(Ok(other))),
            }
        }
    }

    fn is_driven_along(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_driven_along)
    }

    /// Gives what is no data, behind what was gathered.
    fn last(&mut self, last: Option<Result<Frame<Bytes>, hyper::Error>>) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        if self.gathered.is_empty() {
            return Poll::Ready(self.give_last(last));
        }
        self.next = Some(last);
        self.give_gathered()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Fail;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        match &mut *self {
            ResponseBody::Own(words) => Poll::Ready(words.take().map(|words| Ok(Frame::data(words)))),
            ResponseBody::Upstream(relay) => relay.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Upstream(relay) => {
                relay.incoming.is_end_stream() && relay.gathered.is_empty() && relay.next.is_none()
            }
            ResponseBody::Own(words) => words.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            // Asked before anything is gathered.
            ResponseBody::Upstream(relay) => relay.incoming.size_hint(),
            ResponseBody::Own(words) => SizeHint::with_exact(words.as_ref().map_or(0, |words| words.len() as u64)),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let ResponseBody::Upstream(Relay { carrier, .. }) = self {
            // Nothing to tell if the body was whole.
            carrier.left();
        }
    }
}
