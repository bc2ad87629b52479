"""What is compared: how a system is started, and how it is called once it runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from searchbus_testing import free_port, until

from ..edge import REVISIONS, TEXT, message

_START_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Running:
    """A running system; its tools are `echo` and `slow`, with `prefix` before the names.

    Args:
        pids: its processes; those that they start count, too.
        sessions: it answers only callers that began a session.
    """

    port: int
    pids: tuple[int, ...]
    path: str = "/mcp"
    prefix: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    sessions: bool = False

    @property
    def url(self) -> str:
        """Where its clients send their messages."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    def message(self, method: str, tool: str | None = None) -> tuple[dict[str, str], Any]:
        """Headers and body of a request."""
        headers, body = message(method, REVISIONS[0], tool=tool and self.prefix + tool)
        return {**headers, **self.headers}, body

    async def begun(self, client: httpx.AsyncClient) -> dict[str, str]:
        """The header of a session that has begun; none where it needs no session."""
        if not self.sessions:
            return {}
        headers, body = self.message("initialize")
        body["params"] = {"protocolVersion": REVISIONS[0], "capabilities": {},
                          "clientInfo": {"name": "bench", "version": "1"}}  # fmt: skip
        response = (await client.post(self.url, json=body, headers=headers)).raise_for_status()
        session = {"Mcp-Session-Id": response.headers["mcp-session-id"]}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await client.post(self.url, json=done, headers=headers | session)
        return session

    async def spec(self, in_flight: int) -> dict[str, Any]:
        """Calls of echo, for the load."""
        headers, body = self.message("tools/call", "echo")
        spec: dict[str, Any] = {"port": self.port, "path": self.path, "headers": headers,
                                "body": body, "expected": TEXT, "in_flight": in_flight}  # fmt: skip
        if self.sessions:
            async with httpx.AsyncClient(timeout=60) as client:
                begun = [await self.begun(client) for _ in range(in_flight)]
            spec["sessions"] = [each["Mcp-Session-Id"] for each in begun]
        return spec

    def all_pids(self) -> list[int]:
        """Its processes, and those that they started."""
        roots = [psutil.Process(pid) for pid in self.pids]
        return [p.pid for root in roots for p in (root, *root.children(recursive=True))]


@dataclass(frozen=True)
class Peer:
    """A system that can be started.

    Args:
        start: starts it; a gateway in front of the upstream at that port. Raises NotInstalledError.
        own: whether it is searchbus.
    """

    name: str
    version: str
    start: Callable[[Starter, int], Awaitable[Running]]
    gateway: bool = False
    own: bool = False


class Starter:
    """Starts processes that are ended with the stack; servers at `port` if it is not 0."""

    def __init__(self, stack: AsyncExitStack, folder: Path, port: int = 0) -> None:
        folder.mkdir(parents=True)
        self.stack, self.folder, self._port = stack, folder, port
        self._log = stack.enter_context((folder / "log").open("wb"))

    async def __call__(
        self, *command: object, port: int, environment: Mapping[str, str] = {}
    ) -> subprocess.Popen[bytes]:
        """Start a process and wait until it answers on `port`.

        Raises:
            RuntimeError: it ended; the message has the end of its log.
        """
        process = subprocess.Popen(
            [*map(str, command)], cwd=self.folder, env={**os.environ, **environment},
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        self.stack.callback(_end, process)

        async def listens() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]}: {(self.folder / 'log').read_text()[-2000:]}")
            try:
                async with httpx.AsyncClient(timeout=10) as client:
                    await client.get(f"http://127.0.0.1:{port}/health")
            except httpx.HTTPError:
                return False
            return True

        await until(listens, timeout_s=_START_TIMEOUT_S, interval_s=0.05)
        return process

    async def server(self, command: Sequence[object], arguments: Sequence[object] = ()) -> Running:
        """A server that takes its port as the first argument after `command`."""
        port = self._port or free_port()
        process = await self(*command, port, *arguments, port=port)
        return Running(port, (process.pid,))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process; one that does not stop is killed."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
