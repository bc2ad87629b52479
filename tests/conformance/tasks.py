"""The tools of the conformance suite whose calls become tasks (SEP-2663)."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import ToolReply

from .asking import answered, ask, elicit
from .replies import TOOLSET, Nothing, failed, text

TASKS = "io.modelcontextprotocol/tasks"


class Name(Struct):
    name: str


class Computation(Struct):
    seconds: Annotated[float, Meta(ge=0, le=60)]
    label: str = ""


class File(Struct):
    filename: str


class TaskTools(Toolset, name=TOOLSET):
    """As the suite describes them."""

    @tool(title="greet")
    async def greet(self, call: Call, arguments: Name) -> ToolReply:
        """Conformance fixture greet."""
        return text(f"Hello, {arguments.name}!")

    @tool(title="slow_compute", task_after_ms=0, timeout_ms=90_000)
    async def slow_compute(self, call: Call, arguments: Computation) -> ToolReply:
        """Conformance fixture slow_compute."""
        await asyncio.sleep(arguments.seconds)
        return text(f"Computed {arguments.label}.")

    @tool(title="failing_job", task_after_ms=0, client_capabilities=(TASKS,))
    async def failing_job(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture failing_job."""
        await asyncio.sleep(1)
        return failed("The job failed.")

    @tool(title="protocol_error_job", task_after_ms=0)
    async def protocol_error_job(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture protocol_error_job."""
        raise RuntimeError("a crash, as the suite wants it")

    @tool(title="confirm_delete", task_after_ms=0)
    async def confirm_delete(self, call: Call, arguments: File) -> ToolReply:
        """Conformance fixture confirm_delete."""
        if answered(call, "confirm", "confirm") is None:
            return ask(confirm=elicit(f"Delete {arguments.filename}?", confirm="boolean"))
        return text(f"Deleted {arguments.filename}.")

    @tool(title="multi_input", task_after_ms=0)
    async def multi_input(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture multi_input."""
        if answered(call, "first", "name") is None:
            return ask(first=elicit("The first?", name="string"), second=elicit("The second?"))
        return text("Both are known.")

    # The first round is answered at once, and asks; the second one takes long enough for a task.
    @tool(title="test_tool_with_task", task_after_ms=5_000, client_capabilities=(TASKS,))
    async def test_tool_with_task(self, call: Call, _: Nothing) -> ToolReply:
        """Conformance fixture test_tool_with_task."""
        name = answered(call, "user_name", "name")
        if not isinstance(name, str):
            return ask(user_name=elicit("What is your name?", name="string"))
        await asyncio.sleep(7)
        return text(f"Hello, {name}!")
