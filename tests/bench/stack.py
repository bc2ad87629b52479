"""Parts of a stack for measurements: a NATS server, services as processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from searchbus_testing import NatsServer, until

START_TIMEOUT_S = 600.0


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
    """`python -m searchbus_runtime <name>` on that server; settings without their prefix."""
    log = log_of(Path(settings["port_file"])) if "port_file" in settings else Path(os.devnull)
    environment = {f"SEARCHBUS_{key.upper()}": value for key, value in settings.items()}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "searchbus_runtime", name],
            env={**os.environ, "SEARCHBUS_NATS_URL": url, **environment},
            stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def log_of(port_file: Path) -> Path:
    """Where a service with that port file writes its log."""
    return port_file.with_suffix(".log")


async def port_of(process: subprocess.Popen[bytes], port_file: Path) -> int:
    """The port of a service that starts.

    Raises:
        RuntimeError: it ended before it listened; the message has the end of its log.
    """
    await until(lambda: port_file.exists() or process.poll() is not None, timeout_s=START_TIMEOUT_S)
    if not port_file.exists():
        log = log_of(port_file).read_text(errors="replace")
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {log[-2000:]}")
    return int(port_file.read_text())


@asynccontextmanager
async def raw_server(folder: Path) -> AsyncIterator[tuple[int, int]]:
    """The bare ASGI application under httptools, with a broker of its own; its pid and port."""
    async with nats(folder) as url:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.edge_parts", "raw", url], stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            yield process.pid, int(await asyncio.to_thread(process.stdout.readline))
        finally:
            process.terminate()
            process.wait(30)
