"""What differs from the approved definitions of a server, shown and approved by an operator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp import MCPError

from searchbus_runtime.pins import Held, PinFile

from ..auth.credentials import Credentials
from ..declare.servers import Server
from ..definitions.describe import ServerContents, ServerTools, describe, describe_contents
from ..definitions.pinning import Approvals
from ..definitions.text import clean_line
from ..errors import ServerError
from ..transports.notes import HttpNotes
from ..upstream.connection import ConnectionContext, open_connection, why
from ..upstream.session import ServerSession


def waiting(server: Server, pins: Path, credentials: Credentials | None = None) -> list[Held]:
    """What differs now; the server is asked for its list.

    Raises:
        ServerError: the server cannot be asked.
        OSError, ValueError: the file of pins cannot be used.
    """
    pinned = PinFile(pins).read()
    tools = probe(server, credentials).tools.descriptors
    return list(pinned.review(server.name, server.target, tools).held.values())


def differences(found: Iterable[Held]) -> Iterator[str]:
    """Lines: for each definition its digits and reasons, then what differs."""
    for held in found:
        reasons = "; ".join((*held.reasons, *(["refused"] if held.refused else [])))
        yield f"{held.digits}  {held.tool.name}  {reasons}"
        for line in held.difference("offered"):
            yield f"  {line}"


def decide_definitions(
    server: Server,
    pins: Path,
    digits: Sequence[str] | None,
    credentials: Credentials | None = None,
    *,
    approved: bool = True,
) -> list[str]:
    """Approve or refuse the definitions with these digits, or (None) all that differ.

    Returns:
        Their names.

    Raises:
        ServerError: the server cannot be asked.
        Fault, OSError, ValueError: as `Approvals.decide`.
    """
    found = waiting(server, pins, credentials)
    if not (found or digits):
        return []
    named = digits or [held.sha256 for held in found]
    return Approvals(PinFile(pins)).decide(server, found, named, approved=approved)


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
        ServerError: it cannot be started or reached, or does not answer in time.
    """
    return asyncio.run(_probe(server, credentials))


async def _probe(server: Server, credentials: Credentials | None) -> Probed:
    context = ConnectionContext(credentials=credentials or Credentials())
    notes = HttpNotes()
    step, setting, limit_s = "start", "start_timeout_s", server.start_timeout_s
    found: Probed | None = None
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + limit_s) as scope:
            async with open_connection(server, context, notes) as connection:
                started_s = time.perf_counter()
                await connection.session.open_session()
                step, setting, limit_s = "list its tools", "list_timeout_s", server.list_timeout_s
                scope.deadline = anyio.current_time() + limit_s
                found = await _read(server, connection.session, started_s)
    except Exception as error:
        raise ServerError(f"{server.name}: {why(error, notes)}") from None
    finally:
        await context.aclose()
    if found is None:
        raise ServerError(
            f"{server.name}: it did not {step} within {limit_s:g} s ({setting}). Check that it is "
            f"an MCP server; if it only needs longer, set a larger {setting} in the file of servers"
        )
    return found


async def _read(server: Server, session: ServerSession, started_s: float) -> Probed:
    tools = describe(server, await session.list_all())
    try:
        contents = describe_contents(server, await session.list_contents())
    except (MCPError, ServerError) as error:  # its tools can be used
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
