"""The worker of these tests: `python -m tests.chaos.worker`. It keeps nothing and needs no upstream.

`many COUNT SERVICE` serves that many small workers over a few connections (row 22).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Annotated

import msgspec

from searchbus_bus import Call, Toolset, Worker, connect, tool
from searchbus_contracts import TextContent, ToolAnnotations, ToolCall, ToolDescriptor, ToolReply
from searchbus_runtime import Process, ServiceSettings, load_settings, run

READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
TIMEOUT_MS, LONG_MS = 5_000, 120_000
"""The deadlines of `echo` and `linger`."""


class Settings(ServiceSettings):
    """Settings of this worker."""

    chaos_slots: Annotated[int, msgspec.Meta(ge=1)] = 256
    chaos_timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = TIMEOUT_MS


class Text(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of echo."""

    text: str
    wait_ms: int = 0


class Size(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of large."""

    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**26)]


class Page(msgspec.Struct):
    """What large returns."""

    text: str


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class Chaos(Toolset, name="chaos"):
    """Tools of which each answer can be checked."""

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self._running = 0
        self._timeout_ms = timeout_ms

    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        """See Toolset; echo has the deadline of the settings."""
        if descriptor.name != "echo":
            return descriptor
        return msgspec.structs.replace(descriptor, timeout_ms=self._timeout_ms)

    @tool(title="Echo", annotations=READ_ONLY, timeout_ms=TIMEOUT_MS)
    async def echo(self, call: Call, arguments: Text) -> str:
        """Return the text, after `wait_ms`."""
        self._running += 1
        try:
            await asyncio.sleep(arguments.wait_ms / 1000)
            return arguments.text
        finally:
            self._running -= 1

    @tool(title="Large", annotations=READ_ONLY, timeout_ms=LONG_MS)
    async def large(self, call: Call, arguments: Size) -> Page:
        """Return a text of that many bytes, like a long document."""
        return Page("w" * arguments.size_bytes)

    @tool(title="Linger", annotations=READ_ONLY, timeout_ms=LONG_MS)
    async def linger(self, call: Call, arguments: Nothing) -> str:
        """Run until the caller leaves, or the time is over."""
        return await self.echo(call, Text("", wait_ms=LONG_MS))

    @tool(title="State", annotations=READ_ONLY)
    async def state(self, call: Call, arguments: Nothing) -> str:
        """Calls of echo and linger that run, and tasks of this process."""
        return f"{self._running} {len(asyncio.all_tasks())}"


async def start(process: Process[Settings]) -> None:
    """Serve the tools."""
    worker = Worker("chaos", max_in_flight=process.settings.chaos_slots)
    worker.add(Chaos(process.settings.chaos_timeout_ms))
    await process.serve(worker)


async def many(count: int, service: str) -> None:
    """Serve small workers until the process is ended: one tool, named as its service, returns its text, or
    without one, which worker this is."""
    settings = load_settings(Settings)
    descriptor = ToolDescriptor(
        name=service, toolset=service, description="Echo, or say which worker this is.",
        input_schema={"type": "object"}, annotations=READ_ONLY,
    )  # fmt: skip
    for first in range(0, count, 50):
        bus = await connect(settings.nats_url, name=service)
        for number in range(first, min(first + 50, count)):
            text = f"{os.getpid()}.{number}"

            async def which(call: Call, request: ToolCall, text: str = text) -> ToolReply:
                said = msgspec.json.decode(request.arguments).get("text", text)
                return ToolReply(content=(TextContent(text=said),))

            worker = Worker(service)
            worker.add_tool(descriptor, which)
            await bus.serve(worker)
    sys.stdout.write(f"{service} ready at {time.monotonic()}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["many"]:
        asyncio.run(many(int(sys.argv[2]), sys.argv[3]))
    else:
        sys.exit(run("chaos", load_settings(Settings), start))
