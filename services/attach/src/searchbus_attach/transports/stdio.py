"""The transport of a command: one JSON message a line, over standard input and output.

The SDK's own `stdio_client` has no limit on a line, which it appends to a string piece by piece: a
command that prints without line feeds would take all memory and the event loop with it. It sets no
limits for the process either, and leaves it running where we are killed. So the process and its
pipes are ours; what comes out is the pair of streams that the SDK's session takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, RequestId

from ..declare.servers import Server
from ..errors import ServerDeclarationError, ServerError
from .budget import Budget
from .child import READ_AHEAD_BYTES, ChildLog, ServerProcess
from .direct import Answer, DirectRequests, closed
from .messages import MessageStream, is_reply_too_many, read_message
from .reaping import Reaper

MAX_LINE_BYTES = 8 * 2**20
"""The limit of a message that a command prints."""
MAX_GARBAGE_LINES = 200
"""Lines of a session that are not messages; some programs print a greeting."""
_SHOWN_CHARS = 200
_EXIT_GRACE_S = 1.0
"""From the end of its output to the end of a process."""


@asynccontextmanager
async def stdio_transport(
    server: Server,
    reaper: Reaper,
    log: ChildLog,
    budget: Budget,
    direct: DirectRequests,
    own: Iterable[Path] = (),
) -> AsyncGenerator[Any]:
    """Start a command; yields the streams of a session, and ends the command afterwards.

    Args:
        server: its variables are expanded.
        budget: what it may print.
        direct: can send while the command runs.
        own: see Child.start.

    Raises:
        OSError: it cannot be started.
        DeclarationError: it cannot be confined as it is declared.
        ServerError: it ended, or what it prints is not MCP.
    """
    # Cancelled between fork and return, it would leave a process that nobody knows.
    starting = asyncio.ensure_future(ServerProcess.start(server, reaper, log.write, own))
    try:
        child = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True), suppress(OSError, ServerDeclarationError):
            await (await starting).end()
        raise
    to_session = MessageStream[SessionMessage | Exception](shows_context=False)
    to_child = MessageStream[SessionMessage](shows_context=False, refused=is_reply_too_many)

    waiting: dict[RequestId, asyncio.Future[Answer]] = {}

    async def send(request_id: int, body: bytes, _: dict[str, str]) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting[request_id] = answer
        try:
            with suppress(OSError, RuntimeError):  # as below
                # Before: what is written to one that does not read stays in memory.
                await child.stdin.drain()
                child.stdin.write(body + b"\n")
            return await answer
        finally:
            del waiting[request_id]

    async def write() -> None:
        async with to_child:
            async for message in to_child:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    child.stdin.write(text.encode() + b"\n")
                    await child.stdin.drain()
                except (OSError, RuntimeError):  # uvloop raises the second for a closed pipe
                    return  # the reader sees the end of the process

    async def read() -> None:
        async with to_session:
            async for message in _messages(child, server.processes, log, budget):
                if isinstance(message, Answer) and message.id is not None:
                    answer = waiting.get(coerce_request_id(message.id))
                    if answer is not None:
                        if not answer.done():
                            answer.set_result(message)
                        continue
                if await direct.take(message):
                    continue
                try:
                    await to_session.send(SessionMessage(message))
                except anyio.BrokenResourceError:
                    return  # the session is over

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            tasks.start_soon(read)
            direct.send = send
            try:
                yield to_session, to_child
            finally:
                direct.send = None
                tasks.cancel_scope.cancel()
    finally:
        to_session.close()
        to_child.close()
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(closed())
        # It must end also when we are cancelled; every wait in it is short.
        ending = asyncio.ensure_future(child.end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await ending
            raise


async def _messages(
    child: ServerProcess, most_processes: int, log: ChildLog, budget: Budget
) -> AsyncGenerator[JSONRPCMessage]:
    """What the command prints, until it ends.

    Raises:
        ServerError: it ended, or what it prints is not MCP.
    """
    garbage = 0
    async for line in _lines(child.stdout, budget):
        try:
            message = read_message(line, budget)
        except ValueError:
            if not line.strip():
                continue
            garbage += 1
            log.write(f"(not a message) {line[:_SHOWN_CHARS].decode('utf-8', 'replace').rstrip()}")
            if garbage > MAX_GARBAGE_LINES:
                raise ServerError("it prints text that is not MCP to standard output") from None
            continue
        if message is not None:
            yield message
    code = await child.exit_code(_EXIT_GRACE_S)
    ended = "it closed its output" if code is None else f"it ended with code {code}"
    if child.has_too_many:
        ended = f"it was ended, because it started more than {most_processes} processes"
    raise ServerError(ended, log.told)


async def _lines(output: asyncio.StreamReader, budget: Budget) -> AsyncGenerator[bytes]:
    """Lines of any length up to the limit, as fast as the budget allows; little is read ahead.

    Raises:
        ServerError: a line is too long.
    """
    line = bytearray()
    while chunk := await output.read(READ_AHEAD_BYTES):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            await budget.pace(len(part))
            if line:
                line += part
                part = bytes(line)
                line.clear()
            yield part
        if rest:
            await budget.pace(len(rest), 0)
            line += rest
        if len(line) > MAX_LINE_BYTES:
            line.clear()  # the fault is kept with this frame
            raise ServerError(f"it printed a line of more than {MAX_LINE_BYTES // 2**20} MiB")
    if line:
        yield bytes(line)
