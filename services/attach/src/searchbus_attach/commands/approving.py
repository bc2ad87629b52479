"""What differs from the approved definitions of a server, shown and approved by an operator."""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec
from mcp import MCPError

from searchbus_bus.catalog.catalogs import definition_of
from searchbus_contracts import ToolDescriptor
from searchbus_runtime.pins import Held, PinFile

from ..auth.credentials import Credentials
from ..declare.servers import Server
from ..definitions.describe import ServerContents, ServerTools, describe, describe_contents
from ..definitions.text import clean_line
from ..errors import ProbeError, ServerError
from ..transports.remote import HttpNotes
from ..upstream.connection import ConnectionContext, open_connection, why
from ..upstream.session import ServerSession

_DIGITS = 32
"""Of a hash, shown and needed: who writes a definition could find a harmless and a harmful one
whose hashes begin with the same dozen.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A definition as the server offers it now, and the approved one where there is one."""

    held: Held
    approved: ToolDescriptor | None


def waiting(server: Server, pins: Path, credentials: Credentials | None = None) -> list[Waiting]:
    """What differs now; the server is asked for its list.

    Raises:
        ProbeError: the server cannot be asked.
        OSError, ValueError: the file of pins cannot be used.
    """
    pinned = PinFile(pins).read()
    tools = probe(server, credentials).tools.descriptors
    held = pinned.review(server.name, server.target, tools).held
    known = pinned.toolsets.get(server.name)
    approved = {} if known is None else {name: pin.tool for name, pin in known.tools.items()}
    return [Waiting(found, approved.get(name)) for name, found in held.items()]


def differences(found: Iterable[Waiting]) -> Iterator[str]:
    """Lines: for each definition its digits and reasons, then what differs."""
    for one in found:
        yield (f"{one.held.sha256[:_DIGITS]}  {one.held.tool.name}  {'; '.join(one.held.reasons)}")
        old = [] if one.approved is None else _lines(one.approved)
        for line in difflib.unified_diff(
            old, _lines(one.held.tool), "approved", "offered", lineterm=""
        ):
            yield f"  {line}"


def approve_definitions(
    server: Server,
    pins: Path,
    digits: Sequence[str] | None,
    credentials: Credentials | None = None,
) -> list[str]:
    """Approve the definitions with these digits, or (None) all that differ; their names.

    Raises:
        ProbeError: the server cannot be asked.
        OSError, ValueError: digits that name nothing, or the file of pins cannot be used.
    """
    found = waiting(server, pins, credentials)
    if digits:
        for given in digits:
            if len(given) < _DIGITS or not any(one.held.sha256.startswith(given) for one in found):
                raise ValueError(
                    f"nothing differs that has the digits {given}; see searchbus attach diff "
                    f"{server.name}"
                )
        found = [one for one in found if one.held.sha256.startswith(tuple(digits))]
    with PinFile(pins).changing() as pinned:
        pinned.approve(server.name, server.target, [one.held.tool for one in found])
    return [one.held.tool.name for one in found]


def _lines(tool: ToolDescriptor) -> list[str]:
    text = json.dumps(
        msgspec.to_builtins(definition_of(tool)), indent=2, sort_keys=True, ensure_ascii=False
    )
    return text.split("\n")


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
        ProbeError: it cannot be started or reached, or does not answer in time.
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
        raise ProbeError(f"{server.name}: {why(error, notes)}") from None
    finally:
        await context.aclose()
    if found is None:
        raise ProbeError(
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
