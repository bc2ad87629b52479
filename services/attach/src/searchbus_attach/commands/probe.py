"""A server asked once, outside of the service: `searchbus attach test`, `diff` and `approve`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import anyio
from mcp import MCPError

from ..auth.credentials import Credentials
from ..declare.servers import Server
from ..definitions.describe import ServerTools, describe
from ..definitions.describe_contents import ServerContents, describe_contents
from ..definitions.text import clean_line
from ..faults import ProbeFault, ServerFault
from ..transports.remote import HttpNotes
from ..upstream.connection import Surroundings, open_connection, why
from ..upstream.session import ServerSession

__all__ = ["Probed", "probe"]


@dataclass(frozen=True, slots=True)
class Probed:
    """What a server says.

    Args:
        seconds: from initialize to the whole lists.
    """

    server_info: str
    protocol: str
    seconds: float
    tools: ServerTools
    contents: ServerContents


def probe(server: Server, credentials: Credentials | None = None) -> Probed:
    """Connect to a server and read its lists.

    Args:
        credentials: for a server that needs a sign-in; they are closed then.

    Raises:
        ProbeFault: it cannot be started or reached, or does not answer in time.
    """
    return asyncio.run(_probe(server, credentials))


async def _probe(server: Server, credentials: Credentials | None) -> Probed:
    around = Surroundings() if credentials is None else Surroundings(credentials=credentials)
    notes = HttpNotes()
    step, setting, limit_s = "start", "start_timeout_s", server.start_timeout_s
    found: Probed | None = None
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + limit_s) as scope:
            async with open_connection(server, around, notes) as connection:
                started_s = time.perf_counter()
                await connection.session.open_session()
                step, setting, limit_s = "list its tools", "list_timeout_s", server.list_timeout_s
                scope.deadline = anyio.current_time() + limit_s
                found = await _read(server, connection.session, started_s)
    except Exception as error:
        raise ProbeFault(f"{server.name}: {why(error, notes)}") from None
    finally:
        await around.aclose()
    if found is None:
        raise ProbeFault(
            f"{server.name}: it did not {step} within {limit_s:g} s ({setting}). Check that it is "
            f"an MCP server; if it only needs longer, set a larger {setting} in the file of servers"
        )
    return found


async def _read(server: Server, session: ServerSession, started_s: float) -> Probed:
    tools = describe(server, await session.list_all())
    try:
        contents = describe_contents(server, await session.list_contents())
    except (MCPError, ServerFault) as error:  # its tools can be used
        refused = {"prompts and resources": why(error, HttpNotes())}
        contents = ServerContents(refused=refused)
    info = session.server_info
    return Probed(
        clean_line(f"{info.name} {info.version}", 120) if info else "",
        str(session.protocol_version),
        time.perf_counter() - started_s,
        tools,
        contents,
    )
