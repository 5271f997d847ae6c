//! Requests to an HTTP server over connections that are kept for the next one.
//!
//! Comes in: requests in origin form. Goes out: responses, and a [`Lease`] on the connection they came on: given
//! back when the exchange ended in order, cut at once when it is dropped. Refuses to know what is sent.

use std::error::Error as _;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use super::dial::{Address, Dialer};
use crate::error::Result;

/// A connection unused for longer is not used again: servers (uvicorn, Node) close theirs after 5 s, and
/// a request that crosses the close is lost.
pub const IDLE_LIMIT: Duration = Duration::from_secs(4);

/// Why there is no response.
pub enum Trouble {
    /// No connection could be made; nothing was sent.
    Unreachable(String),
    /// The connection broke before the head of the response was whole.
    Broken(String),
}

struct Idle<B> {
    link: Link<B>,
    since: Instant,
}

/// The connections kept for one client. Dropped with him, they are closed.
pub struct Kept<B>(Mutex<Vec<Idle<B>>>);

impl<B> Default for Kept<B> {
    fn default() -> Kept<B> {
        Kept(Mutex::default())
    }
}

impl<B> Kept<B> {
    fn all(&self) -> MutexGuard<'_, Vec<Idle<B>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that can be used again. Those that cannot are let go.
    fn take(&self) -> Option<Link<B>> {
        let mut all = self.all();
        all.retain(|idle| idle.since.elapsed() <= IDLE_LIMIT && !idle.link.sender.is_closed());
        all.pop().map(|idle| idle.link)
    }
}

/// The server.
pub struct Upstream<B> {
    dialer: Dialer,
    body: PhantomData<fn(B)>,
}

/// A connection: where requests go in, and the task that moves its bytes.
struct Link<B> {
    sender: SendRequest<B>,
    task: AbortHandle,
}

impl<B> Drop for Link<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The right to the connection a response is coming on.
pub struct Lease<B> {
    link: Link<B>,
    kept: Arc<Kept<B>>,
}

impl<B> Lease<B> {
    /// Keeps the connection for another request. Only for exchanges that ended in order, both bodies whole.
    pub fn give_back(self) {
        if !self.link.sender.is_closed() {
            self.kept.all().push(Idle { link: self.link, since: Instant::now() });
        }
    }
}

impl<B> Upstream<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub fn new(address: Address) -> Result<Upstream<B>> {
        Ok(Upstream { dialer: Dialer::new(address)?, body: PhantomData })
    }

    pub fn address(&self) -> &Address {
        self.dialer.address()
    }

    /// Sends a request (path and query only in its URI) and waits, without limit, for the head of the response.
    pub async fn send(
        &self,
        kept: &Arc<Kept<B>>,
        mut request: Request<B>,
    ) -> std::result::Result<(Response<Incoming>, Lease<B>), Trouble> {
        loop {
            let (link, again) = match kept.take() {
                Some(link) => (link, true),
                None => (self.connect().await.map_err(Trouble::Unreachable)?, false),
            };
            // Held while waiting: if the caller is dropped here, the connection goes with it.
            let mut lease = Lease { link, kept: Arc::clone(kept) };
            if let Err(cause) = lease.link.sender.ready().await {
                if again {
                    continue;
                }
                return Err(Trouble::Broken(told(&cause)));
            }
            match lease.link.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, lease)),
                Err(mut failed) => match failed.take_message() {
                    // The kept connection was closed before anything of the request went out.
                    Some(unsent) if again => request = unsent,
                    _ => return Err(Trouble::Broken(told(failed.error()))),
                },
            }
        }
    }

    async fn connect(&self) -> std::result::Result<Link<B>, String> {
        let stream = TokioIo::new(self.dialer.connect().await?);
        let builder = http1::Builder::new();
        let (sender, connection) = builder.handshake(stream).await.map_err(|cause| told(&cause))?;
        let moving = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Link { sender, task: moving.abort_handle() })
    }
}

/// The innermost cause says most: "connection reset by peer" rather than "error sending request".
fn told(error: &hyper::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        told = inner.to_string();
        cause = inner.source();
    }
    told
}
