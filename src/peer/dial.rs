//! Where an HTTP server is, and a fresh connection to it.
//!
//! Comes in: an address as the user wrote it. Goes out: a [`Stream`] of bytes, plain or through TLS, or why there is
//! none, in words that say what to do.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
#[cfg(feature = "tls")]
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
#[cfg(feature = "tls")]
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(feature = "tls")]
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::error::{Error, Result};

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

/// Makes connections to one server.
#[derive(Clone)]
pub struct Dialer {
    address: Address,
    #[cfg(feature = "tls")]
    tls: Option<HttpsConnector<HttpConnector>>,
}

impl Dialer {
    pub fn new(address: Address) -> Result<Dialer> {
        Ok(Dialer {
            #[cfg(feature = "tls")]
            tls: if address.https { Some(connector()?) } else { None },
            address,
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub async fn connect(&self) -> std::result::Result<Stream, String> {
        let connecting = async {
            #[cfg(feature = "tls")]
            if let Some(tls) = &self.tls {
                return Ok(Stream::Tls(Box::new(open_tls(tls.clone(), &self.address).await?)));
            }
            let stream = TcpStream::connect((self.address.host.as_str(), self.address.port))
                .await
                .map_err(|cause| cause.to_string())?;
            // Small messages must not wait for one another's acknowledgement.
            let _ = stream.set_nodelay(true);
            Ok(Stream::Plain(stream))
        };
        match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(result) => result,
            Err(_) => Err(format!("no connection within {} s", CONNECT_LIMIT.as_secs())),
        }
    }
}

/// A connection to the server.
pub enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>),
}

/// Does the same with whichever stream it is.
macro_rules! with {
    ($stream:expr, $inner:ident => $what:expr) => {
        match &mut *$stream {
            Stream::Plain($inner) => $what,
            #[cfg(feature = "tls")]
            Stream::Tls($inner) => $what,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        with!(self, inner => Pin::new(inner).poll_read(context, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with!(self, inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, inner => Pin::new(inner).poll_shutdown(context))
    }
}

#[cfg(feature = "tls")]
fn connector() -> Result<HttpsConnector<HttpConnector>> {
    let mut plain = HttpConnector::new();
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
    mut connector: HttpsConnector<HttpConnector>,
    address: &Address,
) -> std::result::Result<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>, String> {
    use tower_service::Service;
    let uri: Uri = format!("https://{}/", address.authority)
        .parse()
        .map_err(|cause: hyper::http::uri::InvalidUri| cause.to_string())?;
    std::future::poll_fn(|context| connector.poll_ready(context)).await.map_err(|cause| cause.to_string())?;
    let opened = connector.call(uri).await.map_err(|cause| {
        let mut told = cause.to_string();
        let mut inner = cause.source();
        while let Some(deeper) = inner {
            told = deeper.to_string();
            inner = deeper.source();
        }
        hinted(told)
    })?;
    Ok(TokioIo::new(opened))
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
