"""HTTP in tests: an application in the event loop, and JSON-RPC messages that no SDK hides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from searchbus_runtime.server import HttpServer

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def messages(response: httpx.Response) -> list[Any]:
    """Every JSON-RPC message of a response: of plain JSON, a batch or an event stream."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        body = response.json()
        return body if isinstance(body, list) else [body]
    lines = [line[5:] for line in response.text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line.strip()]


def post(url: str, method: str, *, token: str | None = None, **params: Any) -> httpx.Response:
    """Send one request; a slow machine has a minute to answer."""
    headers = dict(HEADERS)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(url, json=body, headers=headers, timeout=60, trust_env=False)


@asynccontextmanager
async def serve(app: Any, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an application (port 0 takes a free one); yields its address, e.g.
    http://127.0.0.1:40123. Requests that still run at the end are dropped."""
    server = await HttpServer.start(
        app, host=host, port=port, log_level="critical", timeout_graceful_shutdown=1, lifespan="off"
    )
    try:
        yield server.url
    finally:
        await server.stop(force=True)
