// The Rust SDK's server: `rmcp PORT`. Stateless, JSON, as many threads as cores.
// pinned: rmcp@3.11.0[transport-streamable-http-server] axum@0.8.9 tokio@1.54.1[full] serde@1.0.229[derive]
use std::{sync::Arc, time::Duration};

use rmcp::{
    ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{ServerCapabilities, ServerConfig},
    schemars, tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    text: String,
}

#[derive(Clone)]
struct Echo {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Echo {
    #[tool(description = "Return the text.")]
    async fn echo(&self, Parameters(Arguments { text }): Parameters<Arguments>) -> String {
        text
    }

    #[tool(description = "Return the text after a second.")]
    async fn slow(&self, Parameters(Arguments { text }): Parameters<Arguments>) -> String {
        tokio::time::sleep(Duration::from_secs(1)).await;
        text
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let echo = Echo { tool_router: Echo::tool_router() };
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(NeverSessionManager::default()),
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true),
    );
    let app = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
