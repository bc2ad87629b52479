"""ContextForge as its tuning guide has it for MCP only, in one process: SQLite, caches in memory.

Beyond the guide: no authentication, no rate limit, a loopback server may be registered, and each caller's session keeps
one with the upstream: four times the calls a second of its default, which begins one for each call.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import httpx

from searchbus_testing import free_port

from ..environments import environment, versions
from ..system import Peer, Running, Starter

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


def _settings(folder: Path) -> dict[str, str]:
    """Environment variables."""
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
        "USE_STATEFUL_SESSIONS": "true",
    }


async def start(start: Starter, upstream: int) -> Running:
    """Start it, and put the upstream behind it."""
    port = free_port()
    arguments = ("-m", "uvicorn", "mcpgateway.main:app", "--host", "127.0.0.1", "--port", port,
                 "--log-level", "warning")  # fmt: skip
    process = await start(
        environment("contextforge"), *arguments, port=port,
        environment=_settings(start.folder),
    )  # fmt: skip
    body = {"name": "up", "url": f"http://127.0.0.1:{upstream}/mcp",
            "transport": "STREAMABLEHTTP", "visibility": "public"}  # fmt: skip
    async with httpx.AsyncClient(timeout=300) as client:
        (await client.post(f"http://127.0.0.1:{port}/gateways", json=body)).raise_for_status()
    return Running(port, (process.pid,), path="/mcp/", prefix="up-", sessions=True)


PEER = Peer(
    "ContextForge", versions("contextforge")["mcp-contextforge-gateway"], start, gateway=True
)
