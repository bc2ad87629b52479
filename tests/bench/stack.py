"""Parts of a stack for measurements: a NATS server, services as processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from searchbus_testing import NatsServer

__all__ = ["nats", "raw_server", "service"]


@asynccontextmanager
async def nats(folder: Path) -> AsyncIterator[str]:
    """A server with JetStream on a free port; its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    server = NatsServer(folder, arguments=("-js", "-sd", str(folder)))
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@asynccontextmanager
async def service(name: str, url: str, **settings: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """`python -m searchbus_<name>` on that server; settings without their prefix."""
    environment = {f"SEARCHBUS_{key.upper()}": value for key, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", f"searchbus_{name}"],
        env={**os.environ, "SEARCHBUS_NATS_URL": url, **environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@asynccontextmanager
async def raw_server(folder: Path) -> AsyncIterator[tuple[int, int]]:
    """The bare ASGI application under httptools, with a broker of its own; its pid and port."""
    async with nats(folder) as url:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.edge_parts", "raw", url], stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            ports = (await asyncio.to_thread(process.stdout.readline)).split()
            yield process.pid, int(ports[0])
        finally:
            process.terminate()
            process.wait(30)
