"""Parts of a stack for measurements: a NATS server, services as processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from searchbus_cli.nats_server import nats_server_binary

__all__ = ["nats", "service"]


@asynccontextmanager
async def nats(folder: Path) -> AsyncIterator[str]:
    """A server with JetStream on a free port; its URL."""
    ports = folder / "ports"
    ports.mkdir(parents=True)
    arguments = [
        "-a",
        "127.0.0.1",
        "-p",
        "-1",
        "--ports_file_dir",
        str(ports),
        "-js",
        "-sd",
        str(folder),
    ]
    server = subprocess.Popen(
        [nats_server_binary(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    async def url() -> str | None:
        for path in ports.glob("*.ports"):
            try:
                return str(json.loads(path.read_text())["nats"][0])
            except (ValueError, KeyError, IndexError):
                continue
        return None

    try:
        yield await until(url, 10)
    finally:
        server.terminate()
        server.wait(10)


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


async def until(look: Callable[[], Awaitable[str | None]], timeout_s: float) -> str:
    """The first result that is not None."""
    async with asyncio.timeout(timeout_s):
        while (found := await look()) is None:
            await asyncio.sleep(0.02)
        return found
