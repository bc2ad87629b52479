"""ContextForge as its tuning guide has it for MCP only, in one process: SQLite, caches in memory.

Beyond the guide: no authentication, no rate limit, and a loopback server may be registered.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import httpx

__all__ = ["arguments", "register", "sessions", "settings"]

TOOL = "echo-echo"
"""Its name for the tool `echo` of the server `echo`."""
_OFF = """
    MCPGATEWAY_UI_ENABLED MCPGATEWAY_ADMIN_API_ENABLED MCPGATEWAY_A2A_ENABLED
    MCPGATEWAY_CATALOG_ENABLED LLMCHAT_ENABLED PLUGINS_ENABLED OBSERVABILITY_ENABLED ENABLE_METRICS
    AUDIT_TRAIL_ENABLED SECURITY_LOGGING_ENABLED STRUCTURED_LOGGING_DATABASE_ENABLED
    CORRELATION_ID_ENABLED DB_METRICS_RECORDING_ENABLED COMPRESSION_ENABLED
    MCPGATEWAY_PERFORMANCE_NET_CONNECTIONS_ENABLED RATE_LIMITING_ENABLED
    AUTH_REQUIRED MCP_REQUIRE_AUTH
""".split()
_ON = """
    AUTH_CACHE_ENABLED REGISTRY_CACHE_ENABLED TOOL_LOOKUP_CACHE_ENABLED JSON_RESPONSE_ENABLED
    DISABLE_ACCESS_LOG ALLOW_UNAUTHENTICATED_ADMIN SSRF_ALLOW_LOCALHOST
""".split()
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}


def settings(folder: Path, *, stateful: bool) -> dict[str, str]:
    """Environment variables; `stateful` keeps a session with the server behind for each caller's."""
    return {
        **dict.fromkeys(_OFF, "false"),
        **dict.fromkeys(_ON, "true"),
        "DATABASE_URL": f"sqlite:///{folder}/mcp.db",
        "CACHE_TYPE": "memory",
        "LOG_LEVEL": "ERROR",
        "JWT_SECRET_KEY": secrets.token_hex(32),
        "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
        "HTTPX_MAX_CONNECTIONS": "200",
        "HTTPX_MAX_KEEPALIVE_CONNECTIONS": "100",
        "USE_STATEFUL_SESSIONS": str(stateful).lower(),
    }


def arguments(port: int) -> tuple[str, ...]:
    """What its Python is started with."""
    options = ("--host", "127.0.0.1", "--port", str(port), "--log-level", "warning")
    return ("-m", "uvicorn", "mcpgateway.main:app", *options)


async def register(client: httpx.AsyncClient, base_url: str, server_url: str) -> None:
    """Put the server behind the gateway."""
    body = {"name": "echo", "url": server_url, "transport": "STREAMABLEHTTP"}
    response = await client.post(f"{base_url}/gateways", json={**body, "visibility": "public"})
    response.raise_for_status()


async def sessions(client: httpx.AsyncClient, base_url: str, count: int) -> list[str]:
    """Begin sessions; their ids."""
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    found = []
    for _ in range(count):
        response = await client.post(f"{base_url}/mcp/", json=body, headers=_HEADERS)
        response.raise_for_status()
        found.append(response.headers["mcp-session-id"])
        headers = {**_HEADERS, "Mcp-Session-Id": found[-1]}
        await client.post(f"{base_url}/mcp/", json=initialized, headers=headers)
    return found
