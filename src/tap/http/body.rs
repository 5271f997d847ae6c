//! Bodies on their way through: each chunk goes on as it came, and a copy of it to the tape.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

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
    idle: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, carrier: Arc<Carrier>, gate: Option<Gate>, idle_limit: Duration) -> Self {
        if incoming.is_end_stream() {
            carrier.request_end();
        }
        RequestBody { incoming, carrier, gate, idle_limit, idle: None }
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
                this.idle = None;
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
                this.carrier.request_end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let limit = this.idle_limit;
                let idle = this.idle.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
                ready!(idle.as_mut().poll(context));
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

/// What goes back to the client.
pub(super) enum ResponseBody {
    Upstream {
        incoming: Incoming,
        carrier: Arc<Carrier>,
        lease: Option<Lease<RequestBody>>,
    },
    /// Our own words.
    Own(Option<Bytes>),
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, carrier: Arc<Carrier>, lease: Lease<RequestBody>) -> ResponseBody {
        let mut body = ResponseBody::Upstream { incoming, carrier, lease: Some(lease) };
        body.settle();
        body
    }

    /// Once the body is whole: tells so, and keeps the connection for others.
    fn settle(&mut self) {
        if let ResponseBody::Upstream { incoming, carrier, lease } = self
            && incoming.is_end_stream()
        {
            finish(carrier, lease);
        }
    }
}

fn finish(carrier: &Carrier, lease: &mut Option<Lease<RequestBody>>) {
    carrier.done();
    // An upload that still runs keeps its connection busy; without a lease it is cut.
    if let Some(lease) = lease.take()
        && carrier.request_ended()
    {
        lease.give_back();
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Fail;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fail>>> {
        let (incoming, carrier, lease) = match &mut *self {
            ResponseBody::Own(words) => return Poll::Ready(words.take().map(|words| Ok(Frame::data(words)))),
            ResponseBody::Upstream { incoming, carrier, lease } => (incoming, carrier, lease),
        };
        match ready!(Pin::new(incoming).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    carrier.body(Side::Server, data);
                } else if let Some(trailers) = frame.trailers_ref() {
                    carrier.trailers(Side::Server, trailers);
                }
                self.settle();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(cause)) => {
                carrier.closed(Party::Server, How::Reset);
                *lease = None;
                Poll::Ready(Some(Err(cause.into())))
            }
            None => {
                finish(carrier, lease);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Upstream { incoming, .. } => incoming.is_end_stream(),
            ResponseBody::Own(words) => words.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Upstream { incoming, .. } => incoming.size_hint(),
            ResponseBody::Own(words) => SizeHint::with_exact(words.as_ref().map_or(0, |words| words.len() as u64)),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let ResponseBody::Upstream { carrier, .. } = self {
            // Nothing to tell if the body was whole.
            carrier.left();
        }
    }
}
