//! The upstream HTTP server: an address, and connections to it that are kept for the next request.
//!
//! Comes in: requests in origin form. Goes out: responses, and a [`Lease`] on the connection they came on: given
//! back when the exchange ended in order, cut at once when it is dropped. A connection is kept for the client whose
//! request made it, and goes when he goes: a server that serves one connection at a time would else wait for
//! a client who is long gone. Refuses to know what is sent.

use std::error::Error as _;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

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
    sender: SendRequest<B>,
    task: AbortHandle,
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
    fn take(&self) -> Option<Idle<B>> {
        let mut all = self.all();
        all.retain(|idle| idle.since.elapsed() <= IDLE_LIMIT && !idle.sender.is_closed());
        all.pop()
    }
}

/// The server.
pub struct Upstream<B> {
    address: Address,
    body: PhantomData<fn(B)>,
    #[cfg(feature = "tls")]
    tls: Option<hyper_rustls::HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>>,
}

/// The right to the connection a response is coming on.
pub struct Lease<B> {
    connection: Option<(SendRequest<B>, AbortHandle)>,
    kept: Arc<Kept<B>>,
}

impl<B> Lease<B> {
    /// Keeps the connection for another request. Only for exchanges that ended in order, both bodies whole.
    pub fn give_back(mut self) {
        if let Some((sender, task)) = self.connection.take()
            && !sender.is_closed()
        {
            self.kept.all().push(Idle { sender, task, since: Instant::now() });
        }
    }

    /// Lets the connection live on without us: it was upgraded and belongs to others.
    pub fn let_go(mut self) {
        self.connection = None;
    }
}

impl<B> Drop for Lease<B> {
    fn drop(&mut self) {
        if let Some((_, task)) = self.connection.take() {
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

    /// Sends a request (path and query only in its URI) and waits, without limit, for the head of the response.
    pub async fn send(
        &self,
        kept: &Arc<Kept<B>>,
        mut request: Request<B>,
    ) -> std::result::Result<(Response<Incoming>, Lease<B>), Trouble<B>> {
        loop {
            let (mut sender, task, again) = match kept.take() {
                Some(idle) => (idle.sender, idle.task, true),
                None => match self.connect().await {
                    Ok((sender, task)) => (sender, task, false),
                    Err(why) => return Err(Trouble::Unreachable { why, unsent: Box::new(request) }),
                },
            };
            if let Err(cause) = sender.ready().await {
                if again {
                    continue;
                }
                return Err(Trouble::Broken(told(&cause)));
            }
            let sending = sender.try_send_request(request);
            // Held while waiting: if the caller is dropped here, the connection goes with it.
            let lease = Lease { connection: Some((sender, task)), kept: Arc::clone(kept) };
            match sending.await {
                Ok(response) => return Ok((response, lease)),
                Err(mut failed) => match failed.take_message() {
                    // The kept connection was closed before anything of the request went out.
                    Some(unsent) if again => request = unsent,
                    _ => return Err(Trouble::Broken(told(failed.error()))),
                },
            }
        }
    }

    async fn connect(&self) -> std::result::Result<(SendRequest<B>, AbortHandle), String> {
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

    async fn handshake<I>(&self, io: I) -> std::result::Result<(SendRequest<B>, AbortHandle), String>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(MOST_RESPONSE_FIELDS)
            .handshake(io)
            .await
            .map_err(|cause| told(&cause))?;
        let task = tokio::spawn(connection.with_upgrades());
        Ok((sender, task.abort_handle()))
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
