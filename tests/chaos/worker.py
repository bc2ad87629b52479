"""The worker of these tests: `python -m tests.chaos.worker`. It keeps nothing and needs no upstream.

`many COUNT` serves that many small workers over a few connections (row 22).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import msgspec

from searchbus_bus import Call, Toolset, Worker, connect, tool
from searchbus_contracts import ToolAnnotations, ToolDescriptor
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


async def many(count: int) -> None:
    """Serve small workers until the process is ended."""
    settings = load_settings(Settings)
    for first in range(0, count, 50):
        bus = await connect(settings.nats_url, name="many")
        for _ in range(first, min(first + 50, count)):
            worker = Worker("many")
            worker.add(Many())
            await bus.serve(worker)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


class Many(Toolset, name="many"):
    """One tool."""

    @tool(title="Nothing", annotations=READ_ONLY)
    async def nothing(self, call: Call, arguments: Nothing) -> str:
        """Return nothing."""
        return ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["many"]:
        asyncio.run(many(int(sys.argv[2])))
    else:
        sys.exit(run("chaos", load_settings(Settings), start))
