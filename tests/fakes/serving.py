"""Serves a fake, on a free port of loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn

__all__ = ["serve"]


class _Server(uvicorn.Server):
    def capture_signals(self) -> Any:
        return nullcontext()


@asynccontextmanager
async def serve(app: Any, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The address of the running application, e.g. http://127.0.0.1:40123."""
    listener = socket.create_server((host, port), backlog=1024)
    server = _Server(
        uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, lifespan="off")
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        await task
