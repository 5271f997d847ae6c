//! The Rust SDK's client and server with the proxy between them.

use super::*;

use std::convert::Infallible;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

#[derive(Clone)]
struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "hang" {
            context.ct.cancelled().await;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(request.name)]).into())
    }
}

async fn start_server(sessions: bool) -> SocketAddr {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(sessions);
    let service = StreamableHttpService::new(|| Ok(Server), Arc::new(LocalSessionManager::default()), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service.clone();
            tokio::spawn(async move {
                let answer = service_fn(move |request: hyper::Request<Incoming>| {
                    let service = service.clone();
                    async move { Ok::<_, Infallible>(service.handle(request).await) }
                });
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_sdk_talks_through_the_proxy() {
    for sessions in [true, false] {
        let upstream = start_server(sessions).await;
        let proxy = Tapped::before(upstream);
        let transport = StreamableHttpClientTransport::from_uri(format!("http://{}/mcp", proxy.address));
        let client = ().serve(transport).await.unwrap();
        for name in ["one", "two", "three"] {
            let answer = client.call_tool(CallToolRequestParams::new(name)).await.unwrap();
            assert!(format!("{answer:?}").contains(name), "{answer:?}");
        }
        client.cancel().await.unwrap();
        let recorded = tokio::task::spawn_blocking(move || proxy.stop()).await.unwrap();
        let messages = recorded.messages();
        let calls = messages.iter().filter(|message| message.ends_with("tools/call")).count();
        assert_eq!(calls, 3, "{messages:?}");
        let ids: Vec<&str> = messages.iter().filter_map(|line| line.strip_suffix(" tools/call")).collect();
        for id in ids {
            let answer = id.replace("->", "<-");
            assert!(messages.contains(&answer), "{id} has no answer in {messages:?}");
        }
        assert_eq!(recorded.kept.sessions.len(), 1, "one conversation: {messages:?}");
    }
}
