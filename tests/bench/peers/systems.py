"""All systems, in the order of the tables. A new one is a file in servers/ or gateways/, and a line here."""

from __future__ import annotations

import asyncio
import sys

from ..stack import raw_server
from .environments import environment, versions
from .gateways import contextforge, envoy, fastmcp, mcp_proxy, searchbus
from .programs import SERVERS, pins, program
from .system import Peer, Running, Starter

ABSENT = {
    "agentgateway": "crates.io does not have it, so cargo cannot install it by its name.",
    "MCPJungle": "The Go module proxy does not serve it.",
}
"""What the package indexes do not have, with the reason."""


def _python(name: str, peer: str, kind: str) -> Peer:
    async def start(start: Starter, _: int) -> Running:
        python = await asyncio.to_thread(environment, peer)
        return await start.server((python, SERVERS / "python_sdk.py"), (kind,))

    return Peer(name, versions(peer)[peer], start)


def _built(name: str, file: str, major: str = "") -> Peer:
    """With `major`, the first pinned package whose version begins with it."""
    versions = [each.removeprefix("v") for _, each, _ in pins((SERVERS / file).read_text())]

    async def start(start: Starter, _: int) -> Running:
        return await start.server(await asyncio.to_thread(program, file), (major,))

    return Peer(name, next(each for each in versions if each.startswith(major)), start)


async def _raw(start: Starter, _: int) -> Running:
    pid, port = await start.stack.enter_async_context(raw_server(start.folder / "raw"))
    return Running(port, (pid,))


def bare(*arguments: object) -> Peer:
    """The server that stands behind the gateways for a fault."""

    async def start(start: Starter, _: int) -> Running:
        return await start.server((sys.executable, SERVERS / "bare.py"), arguments)

    return Peer("bare server", "", start)


RAW = Peer("raw ASGI answer", "", _raw)
RMCP = _built("rmcp server (Rust)", "rmcp.rs")
"""Stands behind all gateways."""
SERVED = [
    RMCP,
    _built("Go SDK server", "go_sdk.go"),
    _built("TypeScript SDK 1 server", "ts_sdk.mjs", "1"),
    _built("TypeScript SDK 2 server", "ts_sdk.mjs", "2"),
    _python("Python SDK server", "mcp", "sdk"),
    _python("fastmcp server", "fastmcp", "fastmcp"),
]
GATEWAYS = [envoy.PEER, mcp_proxy.PEER, *searchbus.PEERS, *fastmcp.PEERS, contextforge.PEER]
