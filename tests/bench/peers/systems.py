"""Starts the peers on free ports of loopback, each a process with its environment's Python."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from searchbus_testing import free_port, until

from ..edge import IN_FLIGHT, REVISIONS, TEXT, message
from ..progress import progress
from . import contextforge
from .environments import NotInstalledError, environment
from .system import System

__all__ = ["Peers", "running_peers"]

_SERVERS = Path(__file__).parent / "servers"
_START_TIMEOUT_S = 600.0


@dataclass
class Peers:
    """What runs, and what does not with the reason."""

    systems: list[System] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def running_peers(folder: Path) -> AsyncIterator[Peers]:
    """Install and start all; a peer that cannot be installed is skipped.

    Raises:
        AssertionError: a peer that is installed did not start, or its answer is wrong.
    """
    folder.mkdir(parents=True)
    peers = Peers()
    async with AsyncExitStack() as stack:
        start = _Starter(stack, folder)
        for name, begin in (("mcp", _sdk), ("fastmcp", _fastmcp), ("contextforge", _contextforge)):
            try:
                progress(f"peers: starting {name}")
                peers.systems += await begin(start)
            except NotInstalledError as error:
                peers.skipped[name] = str(error)
                progress(f"peers: skipped: {error}")
        yield peers


class _Starter:
    """Starts processes that are ended with the stack."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self.folder = folder
        self._log = stack.enter_context((folder / "log").open("wb"))

    async def __call__(
        self, python: Path, *arguments: object, port: int, environment: Mapping[str, str] = {}
    ) -> subprocess.Popen[bytes]:
        """Start a process and wait until it accepts connections on `port`."""
        process = subprocess.Popen(
            [python, *map(str, arguments)], cwd=self.folder, env={**os.environ, **environment},
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        self._stack.callback(process.wait, 30)
        self._stack.callback(process.terminate)

        async def listens() -> bool:
            assert process.poll() is None, (self.folder / "log").read_text()[-3000:]
            try:
                async with httpx.AsyncClient(timeout=10) as client:
                    await client.get(f"http://127.0.0.1:{port}/health")
            except httpx.HTTPError:
                return False
            return True

        await until(listens, timeout_s=_START_TIMEOUT_S, interval_s=0.2)
        return process


def _spec(
    port: int, revision: str, path: str = "/mcp", tool: str = "echo", **more: Any
) -> dict[str, Any]:
    headers, body = message("tools/call", revision, tool=tool)
    return {"port": port, "path": path, "headers": headers, "body": body, "expected": TEXT, **more}


async def _sdk(start: _Starter) -> list[System]:
    python = environment("mcp")
    systems = []
    for mode, name in (("json", "JSON"), ("stream", "event stream")):
        port = free_port()
        process = await start(python, _SERVERS / "sdk.py", port, mode, port=port)
        spec = _spec(port, REVISIONS[0])
        systems.append(System(f"MCP SDK, {name} {REVISIONS[0]}", spec, (process.pid,)))
        if mode == "json":
            spec = _spec(port, REVISIONS[1])
            systems.append(System(f"MCP SDK, {name} {REVISIONS[1]}", spec, (process.pid,)))
    return systems


async def _echo(start: _Starter) -> tuple[int, int]:
    """A fastmcp server: its port and process."""
    port = free_port()
    script = _SERVERS / "fastmcp_echo.py"
    process = await start(environment("fastmcp"), script, port, port=port)
    return port, process.pid


async def _fastmcp(start: _Starter) -> list[System]:
    port, pid = await _echo(start)
    systems = [System(f"fastmcp {r}", _spec(port, r), (pid,)) for r in REVISIONS]
    url = f"http://127.0.0.1:{port}/mcp"
    for sessions, name in (("each", "fastmcp proxy"), ("shared", "fastmcp proxy, one session")):
        front = free_port()
        script = _SERVERS / "fastmcp_proxy.py"
        process = await start(environment("fastmcp"), script, front, url, sessions, port=front)
        spec = _spec(front, REVISIONS[0])
        systems.append(System(f"{name} {REVISIONS[0]}", spec, (process.pid,), (pid,)))
    return systems


async def _contextforge(start: _Starter) -> list[System]:
    python = environment("contextforge")
    behind = await _echo(start)
    return await asyncio.gather(
        _gateway(start, python, behind, stateful=False),
        _gateway(start, python, behind, stateful=True),
    )


async def _gateway(
    start: _Starter, python: Path, behind: tuple[int, int], *, stateful: bool
) -> System:
    port = free_port()
    folder = start.folder / f"contextforge-{port}"
    folder.mkdir()
    process = await start(
        python, *contextforge.arguments(port), port=port,
        environment=contextforge.settings(folder, stateful=stateful),
    )  # fmt: skip
    base_url = f"http://127.0.0.1:{port}"
    more = {}
    async with httpx.AsyncClient(timeout=60) as client:
        await contextforge.register(client, base_url, f"http://127.0.0.1:{behind[0]}/mcp")
        if stateful:
            more["sessions"] = await contextforge.sessions(client, base_url, IN_FLIGHT)
    spec = _spec(port, REVISIONS[0], "/mcp/", contextforge.TOOL, **more)
    name = "ContextForge, sessions" if stateful else "ContextForge"
    return System(f"{name} {REVISIONS[0]}", spec, (process.pid,), (behind[1],))
