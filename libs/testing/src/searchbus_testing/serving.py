"""Serves an ASGI application in the event loop of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from searchbus_runtime.server import HttpServer


@asynccontextmanager
async def serve(app: Any, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an application; yields its address, e.g. http://127.0.0.1:40123.

    Requests that still run at the end are dropped.

    Args:
        port: 0 takes a free one.
    """
    server = await HttpServer.start(
        app, host=host, port=port, log_level="critical", timeout_graceful_shutdown=1, lifespan="off"
    )
    try:
        yield server.url
    finally:
        await server.stop(force=True)
