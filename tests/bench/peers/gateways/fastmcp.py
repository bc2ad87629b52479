"""fastmcp's proxy, with a session for each request (its default) or one session for all.

The documentation allows one session where callers need not be kept apart.
"""

from __future__ import annotations

from functools import partial

from ..environments import environment, versions
from ..programs import SERVERS
from ..system import Peer, Running, Starter


async def _start(start: Starter, upstream: int, *, sessions: str) -> Running:
    url = f"http://127.0.0.1:{upstream}/mcp"
    command = (environment("fastmcp"), SERVERS / "fastmcp_proxy.py")
    return await start.server(command, (url, sessions))


PEERS = [
    Peer(name, versions("fastmcp")["fastmcp"], partial(_start, sessions=sessions), gateway=True)
    for name, sessions in (("fastmcp proxy", "each"), ("fastmcp proxy, one session", "shared"))
]
