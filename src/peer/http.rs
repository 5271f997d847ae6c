//! The upstream HTTP server: an address, and connections to it that are kept for the next request.
//!
//! Comes in: requests in origin form. Goes out: responses, and a [`Lease`] on the connection they came on: given
//! back when the exchange ended in order, cut at once when it is dropped. A connection is kept for the client whose
//! request made it, and goes when he goes: a server that serves one connection at a time would else wait for
//! a client who is long gone. Refuses to know what is sent.

use std::error::Error as _;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::along::Along;
use crate::error::{Error, Result};

/// Kept connections idle for longer are not used again: common servers (uvicorn, node) close theirs after 5 s, and
/// a request that crosses the close is lost.
const IDLE_LIMIT: Duration = Duration::from_secs(4);

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub https: bool,
    /// Without brackets, where it is an IPv6 address.
    pub host: String,
    pub port: u16,
    /// As it stands in a `Host` field: with the port only where it is not the scheme's own.
    pub authority: String,
    /// What goes before every path; `""` for most.
    pub prefix: String,
}

impl Address {
    /// Reads `http://host[:port][/prefix]` or `https://…`.
    pub fn parse(text: &str) -> Result<Address> {
        let wrong = |why: &str| Error::new(format!("{text} is no upstream address ({why}); write http://host:port"));
        let uri: Uri = text.parse().map_err(|cause: hyper::http::uri::InvalidUri| wrong(&cause.to_string()))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins with neither http:// nor https://")),
        };
        if https && cfg!(not(feature = "tls")) {
            return Err(wrong("this rpctap was built without https"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it holds credentials, which belong in the client's own headers"));
        }
        if uri.query().is_some() {
            return Err(wrong("it has a query"));
        }
        let own_port = if https { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(own_port);
        let written = authority.host();
        Ok(Address {
            https,
            host: written.trim_start_matches('[').trim_end_matches(']').to_string(),
            port,
            authority: if port == own_port { written.to_string() } else { format!("{written}:{port}") },
            prefix: uri.path().trim_end_matches('/').to_string(),
        })
    }

    pub fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.prefix)
    }
}

/// Why there is no response.
pub enum Trouble<B> {
    /// No connection could be made; nothing was sent.
    Unreachable { why: String, unsent: Box<Request<B>> },
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
        all.retain_mut(|idle| idle.since.elapsed() <= IDLE_LIMIT && idle.link.is_alive());
        all.pop().map(|idle| idle.link)
    }
}

/// The server.
pub struct Upstream<B> {
    address: Address,
    body: PhantomData<fn(B)>,
    #[cfg(feature = "tls")]
    tls: Option<hyper_rustls::HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>>,
}

/// A connection: where requests go in, and what moves its bytes.
struct Link<B> {
    sender: SendRequest<B>,
    driven: Driven,
}

enum Driven {
    /// By whoever waits for the response: no other task must be woken and run for each step.
    Along(Along),
    /// By a task of its own.
    Apart(AbortHandle),
}

impl<B> Link<B> {
    fn poll_with<T>(
        driven: &mut Driven,
        context: &mut Context<'_>,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        match driven {
            Driven::Along(along) => along.poll_with(context, what),
            Driven::Apart(_) => what(context),
        }
    }

    /// Hears what came since somebody last looked at the connection: its end above all.
    fn is_alive(&mut self) -> bool {
        if let Driven::Along(along) = &mut self.driven {
            along.look();
        }
        !self.sender.is_closed()
    }
}

/// The right to the connection a response is coming on.
pub struct Lease<B> {
    link: Option<Link<B>>,
    kept: Arc<Kept<B>>,
}

impl<B> Lease<B> {
    /// Asks for something that comes over the connection, and moves the connection's bytes for as long as that helps.
    pub fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut what: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        match &mut self.link {
            Some(link) => Link::<B>::poll_with(&mut link.driven, context, what),
            None => what(context),
        }
    }

    /// Whether all that has come is heard as soon as one asks, with nobody else to wait for.
    pub fn is_driven_along(&self) -> bool {
        matches!(&self.link, Some(Link { driven: Driven::Along(_), .. }))
    }

    /// Leaves the connection to a task of its own: an upload that still runs must not wait until somebody takes the
    /// response.
    pub fn drive_apart(&mut self) {
        if let Some(Link { driven, .. }) = &mut self.link
            && let Driven::Along(along) = driven
        {
            *driven = Driven::Apart(along.spawn());
        }
    }

    /// Keeps the connection for another request. Only for exchanges that ended in order, both bodies whole.
    pub fn give_back(mut self) {
        let alive = self.link.as_mut().is_some_and(Link::is_alive);
        // The last of an upload that was answered early may still be on its way, and must not wait for another request.
        if self.link.as_ref().is_some_and(|link| !link.sender.is_ready()) {
            self.drive_apart();
        }
        if let Some(link) = self.link.take()
            && alive
        {
            self.kept.all().push(Idle { link, since: Instant::now() });
        }
    }

    /// Lets the connection live on without us: it was upgraded and belongs to others.
    pub fn let_go(mut self) {
        self.drive_apart();
        self.link = None;
    }
}

impl<B> Drop for Lease<B> {
    fn drop(&mut self) {
        if let Some(Link { driven: Driven::Apart(task), .. }) = self.link.take() {
            task.abort();
        }
    }
}

impl<B> Upstream<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub fn new(address: Address) -> Result<Upstream<B>> {
        Ok(Upstream {
            #[cfg(feature = "tls")]
            tls: if address.https { Some(connector()?) } else { None },
            address,
            body: PhantomData,
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request (path and query only in its URI) and waits, without limit, for the head of the response. Its
    /// body comes only to those who ask through the lease, unless the connection is driven apart.
    pub async fn send(
        &self,
        kept: &Arc<Kept<B>>,
        mut request: Request<B>,
    ) -> std::result::Result<(Response<Incoming>, Lease<B>), Trouble<B>> {
        loop {
            let (link, again) = match kept.take() {
                Some(link) => (link, true),
                None => match self.connect().await {
                    Ok(link) => (link, false),
                    Err(why) => return Err(Trouble::Unreachable { why, unsent: Box::new(request) }),
                },
            };
            // Held while waiting: if the caller is dropped here, the connection goes with it.
            let mut lease = Lease { link: Some(link), kept: Arc::clone(kept) };
            let Some(Link { sender, driven }) = &mut lease.link else { continue };
            if let Err(cause) =
                poll_fn(|context| Link::<B>::poll_with(driven, context, |inner| sender.poll_ready(inner))).await
            {
                if again {
                    continue;
                }
                return Err(Trouble::Broken(told(&cause)));
            }
            let mut sending = pin!(sender.try_send_request(request));
            let answered =
                poll_fn(|context| Link::<B>::poll_with(driven, context, |inner| sending.as_mut().poll(inner))).await;
            match answered {
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
        let connecting = async {
            #[cfg(feature = "tls")]
            if let Some(tls) = &self.tls {
                return self.handshake(open_tls(tls.clone(), &self.address).await?).await;
            }
            let stream = TcpStream::connect((self.address.host.as_str(), self.address.port))
                .await
                .map_err(|cause| cause.to_string())?;
            // Small messages must not wait for one another's acknowledgement.
            let _ = stream.set_nodelay(true);
            self.handshake(TokioIo::new(stream)).await
        };
        match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(result) => result,
            Err(_) => Err(format!("no connection within {} s", CONNECT_LIMIT.as_secs())),
        }
    }

    async fn handshake<I>(&self, io: I) -> std::result::Result<Link<B>, String>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(MOST_RESPONSE_FIELDS)
            .handshake(io)
            .await
            .map_err(|cause| told(&cause))?;
        let moving = Box::pin(async move {
            let _ = connection.with_upgrades().await;
        });
        Ok(Link { sender, driven: Driven::Along(Along::new(moving)) })
    }
}

/// As many as hyper takes without asking the heap, which is what servers are built for.
const MOST_RESPONSE_FIELDS: usize = 100;

/// The innermost cause says most: "connection reset by peer" rather than "error sending request".
pub fn told(error: &hyper::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        told = inner.to_string();
        cause = inner.source();
    }
    told
}

#[cfg(feature = "tls")]
fn connector() -> Result<hyper_rustls::HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>> {
    let mut plain = hyper_util::client::legacy::connect::HttpConnector::new();
    plain.set_nodelay(true);
    plain.enforce_http(false);
    // The machine's own certificates where it has some (a company's root among them), the built-in ones else.
    let builder = match hyper_rustls::HttpsConnectorBuilder::new().with_native_roots() {
        Ok(native) => native,
        Err(_) => hyper_rustls::HttpsConnectorBuilder::new().with_webpki_roots(),
    };
    Ok(builder.https_only().enable_http1().wrap_connector(plain))
}

#[cfg(feature = "tls")]
async fn open_tls(
    mut connector: hyper_rustls::HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>,
    address: &Address,
) -> std::result::Result<hyper_rustls::MaybeHttpsStream<TokioIo<TcpStream>>, String> {
    use tower_service::Service;
    let uri: Uri = format!("https://{}/", address.authority)
        .parse()
        .map_err(|cause: hyper::http::uri::InvalidUri| cause.to_string())?;
    std::future::poll_fn(|context| connector.poll_ready(context)).await.map_err(|cause| cause.to_string())?;
    connector.call(uri).await.map_err(|cause| {
        let mut told = cause.to_string();
        let mut inner = cause.source();
        while let Some(deeper) = inner {
            told = deeper.to_string();
            inner = deeper.source();
        }
        hinted(told)
    })
}

/// Certificates are what mostly goes wrong with https inside a company, and the library's words do not help with it.
#[cfg(feature = "tls")]
fn hinted(told: String) -> String {
    let hint = if told.contains("UnknownIssuer") || told.contains("BadSignature") {
        "nobody this machine trusts has signed its certificate; name the signer's in SSL_CERT_FILE"
    } else if told.contains("CaUsedAsEndEntity") {
        "its certificate is signed by itself and marked as one that signs others; make it with \
         basicConstraints=CA:FALSE, or sign it with another, and name the signer's in SSL_CERT_FILE"
    } else if told.contains("NotValidForName") {
        "its certificate is for another name; use that name in --upstream"
    } else if told.contains("Expired") {
        "its certificate has expired"
    } else {
        return told;
    };
    format!("{hint} ({told})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_whole() {
        let plain = Address::parse("http://127.0.0.1:8000").unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.authority.as_str()), ("127.0.0.1", 8000, "127.0.0.1:8000"));
        assert_eq!(plain.prefix, "");
        let six = Address::parse("http://[::1]:81/base/").unwrap();
        assert_eq!((six.host.as_str(), six.authority.as_str(), six.prefix.as_str()), ("::1", "[::1]:81", "/base"));
        assert_eq!(Address::parse("http://example.org/").unwrap().authority, "example.org");
        assert_eq!(Address::parse("http://example.org:80/a").unwrap().url(), "http://example.org/a");
        for wrong in ["127.0.0.1:8000", "ftp://x", "http://user:pw@x/", "http://", "http://x/?a=1"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
