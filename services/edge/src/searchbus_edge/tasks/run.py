"""One task while its call runs here: writes signs of life, and then how the call ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from opentelemetry import metrics

from searchbus_bus import end_task
from searchbus_contracts import ErrorCode, Fault, InputRequired, ToolEvent, ToolReply

from ..tools.call import OnEvent, Served
from ..tools.faults import failed_reply, internal_error
from ..tools.reply import tool_result
from .store import Failure, Task, TaskStore

log = logging.getLogger("searchbus.edge")
KEEP_MS = 600_000
"""How long the result of a task is kept, and how long a task waits for input."""
BEAT_S = 2.0
MAX_ROUNDS = 10
_MAX_MESSAGE_CHARS = 500
Able = Callable[[InputRequired, tuple[str, ...]], bool]
outcomes = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.edge.tasks", description="Calls that became tasks, by what became of them."
)


class Events:
    """Passes a call's events to its request (`forward`); once it is a task (None), keeps the last
    message."""

    def __init__(self, forward: OnEvent | None, message: str | None = None) -> None:
        self.forward = forward
        self.message = message

    def receive(self, event: ToolEvent) -> None:
        """Take one event."""
        if event.kind == "progress" and event.message:
            self.message = event.message[:_MAX_MESSAGE_CHARS]
        if self.forward is not None:
            self.forward(event)


class Run:
    """A task that runs here, from the time that it is in the store; `able` says whether a client
    with these capabilities can give the input that is asked for."""

    def __init__(
        self,
        store: TaskStore,
        caller: str,
        task: Task,
        revision: int,
        *,
        able: Able,
        work: asyncio.Task[Served],
        events: Events,
    ) -> None:
        self.task = task
        self.work = work
        self._store = store
        self._caller = caller
        self._revision = revision
        self._able = able
        self._events = events
        self._runner = task.runner

    async def follow(self) -> None:
        """Write the task until its call has ended; cancelling this leaves it to another edge."""
        try:
            while not (await asyncio.wait({self.work}, timeout=BEAT_S))[0]:
                if not await self._write():
                    return  # cancelled, or taken over
            if not self.work.cancelled():
                await self._end()
        except asyncio.CancelledError:
            # The next edge that is asked need not wait until this one looks stopped.
            self.task.seen_ms = 0
            with suppress(Fault, ValueError, TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._store.update(self._caller, self.task, self._revision)
            raise
        finally:
            await end_task(self.work)

    async def _write(self) -> bool:
        """Write the task; False where it is no longer this edge's to run."""
        task, message = self.task, self._events.message
        task.seen_ms = self._store.now_ms
        if task.message != message:
            task.updated_ms, task.message = task.seen_ms, message
        try:
            revision = await self._store.update(self._caller, task, self._revision)
            if revision is None:
                found = await self._store.get(self._caller, task.id)
                if found is None:  # the store was restarted, and is empty
                    revision = await self._store.create(self._caller, task)
                elif found[0].runner == self._runner:  # written by us, but the answer was lost
                    revision = await self._store.update(self._caller, task, found[1])
        except Fault as fault:
            log.debug("a task is written later: %s", fault)
            return True
        if revision is None:
            return False
        self._revision = revision
        return True

    async def _end(self) -> None:
        """Write how the call ended, as soon as the store takes it."""
        task = self.task
        self._events.message = None
        try:
            reply = self.work.result().reply.decoded()
        except MCPError as raised:
            self._fail(Failure(raised.error.code, raised.error.message, raised.error.data))
        except Exception:
            log.exception("the call of a task failed")
            error = internal_error().error
            self._fail(Failure(error.code, error.message))
        else:
            if reply.input_required is not None:
                self._ask(reply.input_required)
            else:
                self._complete(reply)
        task.runner, task.updated_ms = "", self._store.now_ms
        task.expires_ms = task.updated_ms + KEEP_MS
        outcomes.add(1, {"outcome": task.status})
        while self._store.now_ms < task.expires_ms:
            revision = self._revision
            try:
                if not await self._write() or self._revision != revision:
                    return
                await asyncio.sleep(BEAT_S)
            except ValueError as error:
                self._refuse(
                    f"The result is too large for a task: {error}. Ask for less, or call from a "
                    "client that does not declare tasks."
                )

    def _complete(self, reply: ToolReply) -> None:
        self.task.status, self.task.result = "completed", dumped(tool_result(reply))

    def _fail(self, error: Failure) -> None:
        self.task.status, self.task.error = "failed", error
        self._events.message = error.message

    def _refuse(self, message: str) -> None:
        """The call has no usable result: it is completed with an error that says why."""
        self.task.requests, self.task.state = {}, None
        self._complete(failed_reply(Fault(ErrorCode.INVALID_ARGUMENT, message)))

    def _ask(self, required: InputRequired) -> None:
        """The task waits for input, where its client can give it."""
        task = self.task
        if task.rounds >= MAX_ROUNDS or not self._able(required, task.capabilities):
            self._refuse("The tool needs input that the client cannot give, or asks too often.")
            return
        task.rounds += 1
        task.status, task.state, task.responses = "input_required", required.state, {}
        task.requests = {f"{task.rounds}-{key}": r for key, r in required.requests.items()}


def dumped(result: types.CallToolResult) -> dict[str, Any]:
    """A result as JSON values."""
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)
