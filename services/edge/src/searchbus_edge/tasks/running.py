"""Runs calls as tasks: a call that takes long goes on after its request was answered.

Calls that end within a few seconds are answered as ever. Otherwise the task is written to the
store that edges share, and the client polls any edge. The edge that runs the call writes again
every two seconds, which shows that it lives, and tells it of a cancellation that another edge
wrote. Where it has stopped, the next edge that is asked runs the call again, if the call may be
repeated and its deadline has not passed; otherwise the task has failed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from msgspec.structs import replace
from opentelemetry import metrics

from searchbus_bus import end_task
from searchbus_contracts import Actor, ErrorCode, Fault, InputRequired, ToolEvent, ToolReply

from ..catalog.view import View
from ..tools.call import OnEvent, Served, ToolCalls, ToolRequest
from ..tools.faults import failed_reply, invalid_params, raise_for, shown_error
from ..tools.reply import tool_result
from .store import Failure, Task, TaskStore

log = logging.getLogger("searchbus.edge")
KEEP_MS = 600_000
"""How long the result of a task is kept, and how long a task waits for input."""
BEAT_S = 2.0
MAX_ROUNDS = 10
STALE_MS = 10_000
"""Without a write of its edge for so long, a task is taken over. Clocks may differ by less."""
MAX_RUNNING = 256
STOP_S = 5.0
"""How long an edge that stops waits for its tasks."""
_ID_BYTES = 24
_ATTEMPTS = 5
_MAX_MESSAGE_CHARS = 500
Able = Callable[[InputRequired, tuple[str, ...]], bool]
_outcomes = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.edge.tasks", description="Calls that became tasks, by what became of them."
)


class Events:
    """Passes a call's events to its request; as a task (`forward` None) keeps the last message."""

    def __init__(self, forward: OnEvent | None, message: str | None = None) -> None:
        self.forward = forward
        self.message = message

    def receive(self, event: ToolEvent) -> None:
        """Take one event."""
        if event.kind == "progress" and event.message:
            self.message = event.message[:_MAX_MESSAGE_CHARS]
        if self.forward is not None:
            self.forward(event)


@dataclass(slots=True)
class Run:
    """A task that runs here, at the edge `runner`, from the time that it is in the store; `able`
    says whether a client with these capabilities can give the input that is asked for."""

    store: TaskStore
    caller: str
    task: Task
    revision: int
    runner: str
    able: Able
    work: asyncio.Task[Served]
    events: Events

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
                    await self.store.update(self.caller, self.task, self.revision)
            raise
        finally:
            await end_task(self.work)

    async def _write(self) -> bool:
        """Write the task; False where it is no longer this edge's to run."""
        task, message = self.task, self.events.message
        task.seen_ms = self.store.now_ms
        if task.message != message:
            task.updated_ms, task.message = task.seen_ms, message
        try:
            revision = await self.store.update(self.caller, task, self.revision)
            if revision is None:
                found = await self.store.get(self.caller, task.id)
                if found is None:  # the store was restarted, and is empty
                    revision = await self.store.create(self.caller, task)
                elif found[0].runner == self.runner:  # written by us, but the answer was lost
                    revision = await self.store.update(self.caller, task, found[1])
        except Fault as fault:
            log.debug("a task is written later: %s", fault)
            return True
        if revision is None:
            return False
        self.revision = revision
        return True

    async def _end(self) -> None:
        """Write how the call ended, as soon as the store takes it."""
        task = self.task
        self.events.message = None
        try:
            reply = self.work.result().reply.decoded()
            if reply.input_required is not None:
                self._ask(reply.input_required)
            else:
                self._complete(reply)
        except Exception as raised:
            failed = shown_error(raised, "the call of a task").error
            task.status, task.error = "failed", Failure(failed.code, failed.message, failed.data)
            self.events.message = failed.message
        task.runner, task.updated_ms = "", self.store.now_ms
        task.expires_ms = task.updated_ms + KEEP_MS
        _outcomes.add(1, {"outcome": task.status})
        while self.store.now_ms < task.expires_ms:
            revision = self.revision
            try:
                if not await self._write() or self.revision != revision:
                    return
                await asyncio.sleep(BEAT_S)
            except ValueError as error:
                self._refuse(
                    f"The result is too large for a task: {error}. Ask for less, wait until "
                    "others have expired, or call from a client that does not declare tasks."
                )

    def _complete(self, reply: ToolReply) -> None:
        result = tool_result(reply).model_dump(by_alias=True, mode="json", exclude_none=True)
        self.task.status, self.task.result = "completed", result

    def _refuse(self, message: str) -> None:
        """The call has no usable result: it is completed with an error that says why."""
        self.task.requests, self.task.state = {}, None
        self._complete(failed_reply(Fault(ErrorCode.INVALID_ARGUMENT, message)))

    def _ask(self, required: InputRequired) -> None:
        """The task waits for input, where its client can give it."""
        task = self.task
        if task.rounds >= MAX_ROUNDS or not self.able(required, task.capabilities):
            self._refuse("The tool needs input that the client cannot give, or asks too often.")
            return
        task.rounds += 1
        task.status, task.state, task.responses = "input_required", required.state, {}
        task.requests = {f"{task.rounds}-{key}": r for key, r in required.requests.items()}


class Tasks:
    """The tasks that run at one edge, and those of its callers wherever they run. A call becomes
    one after `after_s`, unless its tool says otherwise; `able`: see Run."""

    def __init__(
        self,
        calls: ToolCalls,
        store: TaskStore,
        *,
        view: Callable[[str | None], View],
        able: Able,
        after_s: float,
    ) -> None:
        self._calls = calls
        self._store = store
        self._view = view
        self._able = able
        self._after_s = after_s
        self._runner = secrets.token_hex(8)
        self._runs: dict[str, tuple[Run, asyncio.Task[None]]] = {}

    async def call(self, request: ToolRequest, endpoint: str | None) -> Served | Task:
        """Serve a call, at an endpoint (None: `/mcp`), of a client that takes tasks: its reply, or
        the task that it became. Raises MCPError, see ToolCalls.call."""
        events = Events(request.on_event)
        work = asyncio.create_task(self._calls.call(replace(request, on_event=events.receive)))
        try:
            done, _ = await asyncio.wait({work}, timeout=self._patience_s(request))
            task = None if done else await self._create(request, endpoint, work, events)
            return task or await work
        except asyncio.CancelledError:  # the client has gone, and knows of no task
            await end_task(work)
            raise

    async def get(self, actor: Actor, endpoint: str | None, task_id: str) -> Task:
        """A task that the caller began at this endpoint; raises MCPError(-32602) for any other or
        expired one, Fault(unavailable) without the store."""
        task, revision = await self._require(actor, endpoint, task_id)
        looks_alive = self._store.now_ms - task.seen_ms < STALE_MS
        if task.status != "working" or looks_alive or task_id in self._runs:
            return task
        return await self._take_over(actor, task, revision)

    async def cancel(self, actor: Actor, endpoint: str | None, task_id: str) -> None:
        """Cancel a task; one that is over stays as it is. Raises as `get`."""

        def change(task: Task) -> bool:
            if task.over:
                return False
            task.status, task.runner, task.requests = "cancelled", "", {}
            return True

        if await self._change(actor, endpoint, task_id, change) is None:
            return
        _outcomes.add(1, {"outcome": "cancelled"})
        if task_id in self._runs:
            self._runs[task_id][0].work.cancel()

    async def update(
        self, actor: Actor, endpoint: str | None, task_id: str, responses: dict[str, Any]
    ) -> None:
        """Give a task what it asked for; other keys are ignored. Raises as `get`, and
        MCPError(-32602) where a response is malformed or too large."""

        def change(task: Task) -> bool:
            known = {key: value for key, value in responses.items() if key in task.requests}
            if task.status != "input_required" or not known:
                return False
            check_responses(known)
            task.responses = {**task.responses, **known}
            task.requests = {k: v for k, v in task.requests.items() if k not in known}
            if not task.requests:
                task.status, task.runner, task.seen_ms = "working", self._runner, task.updated_ms
                request = self._request(actor, task)
                # A call with the responses has the time of a new one.
                task.deadline_ms = task.updated_ms + self._timeout_ms(request)
                task.expires_ms = task.deadline_ms + KEEP_MS
                task.kept_bytes = 0  # it is counted for longer
            return True

        changed = await self._change(actor, endpoint, task_id, change)
        if changed is not None and changed[0].status == "working":
            self._run_again(actor, *changed)

    def leave(self) -> None:
        """Leave all tasks to another edge; `close` waits until they are left."""
        for _, following in self._runs.values():
            following.cancel()

    async def close(self) -> None:
        """Wait a little for running tasks; leave the others to another edge."""
        following = [task for _, task in self._runs.values()]
        if following:
            await asyncio.wait(following, timeout=STOP_S)
        for task in following:
            await end_task(task)

    def _patience_s(self, request: ToolRequest) -> float:
        called = request.target.called
        after_ms = called.descriptor.task_after_ms if called is not None else None
        return self._after_s if after_ms is None else after_ms / 1000

    def _timeout_ms(self, request: ToolRequest) -> int:
        called = request.target.called
        return int(self._calls.timeout_s(called, request) * 1000) if called is not None else 0

    def _request(self, actor: Actor, task: Task) -> ToolRequest:
        """The call of a task, with the roles that its caller has now."""
        target = self._calls.resolver.target(self._view(task.endpoint), task.tool, task.arguments)
        return ToolRequest(actor, target, task.arguments, capabilities=task.capabilities)

    async def _create(
        self, request: ToolRequest, endpoint: str | None, work: asyncio.Task[Served], events: Events
    ) -> Task | None:
        """Keep a call as a task; None where it must be answered in its request instead."""
        if request.target.called is None or len(self._runs) >= MAX_RUNNING:
            return None
        now_ms = self._store.now_ms
        deadline_ms = now_ms + self._timeout_ms(request)
        task = Task(
            id=secrets.token_urlsafe(_ID_BYTES), endpoint=endpoint, tool=request.target.name,
            arguments=request.arguments, capabilities=request.capabilities, created_ms=now_ms,
            updated_ms=now_ms, expires_ms=deadline_ms + KEEP_MS, deadline_ms=deadline_ms,
            runner=self._runner, seen_ms=now_ms, message=events.message, state=request.state,
            responses={f"0-{k}": v for k, v in (request.input_responses or {}).items()},
        )  # fmt: skip
        try:
            revision = await self._store.create(request.actor.subject, task)
        except Fault as fault:
            log.warning("a call is answered in its request, since it cannot be a task: %s", fault)
            revision = None
        _outcomes.add(1, {"outcome": "created" if revision is not None else "refused"})
        if revision is None:
            return None
        self._follow(request.actor.subject, task, revision, work, events)
        return task

    def _follow(
        self, caller: str, task: Task, revision: int, work: asyncio.Task[Served], events: Events
    ) -> None:
        events.forward = None
        # The run writes a copy: the one here is being shown.
        run = Run(
            self._store, caller, replace(task), revision, self._runner, self._able, work, events
        )
        following = asyncio.create_task(run.follow())
        self._runs[task.id] = run, following
        following.add_done_callback(lambda _: self._runs.pop(task.id, None))

    async def _take_over(self, actor: Actor, task: Task, revision: int) -> Task:
        """Run the call of an edge that has stopped again; or say that it failed."""
        now_ms = self._store.now_ms
        called = self._request(actor, task).target.called
        may_repeat = called is not None and called.descriptor.may_repeat
        again = may_repeat and now_ms < task.deadline_ms
        if again:
            task.runner, task.seen_ms = self._runner, now_ms
        else:
            fault = Fault(
                ErrorCode.UNAVAILABLE,
                "The edge that ran this call stopped, and the call may have been done. Check "
                "that, then try again.",
            )
            error = raise_for(fault).error
            task.status, task.runner, task.message = "failed", "", error.message
            task.error = Failure(error.code, error.message, error.data)
            task.updated_ms, task.expires_ms = now_ms, now_ms + KEEP_MS
        written = await self._store.update(actor.subject, task, revision)
        if written is None:  # another edge was quicker
            return (await self._require(actor, task.endpoint, task.id))[0]
        _outcomes.add(1, {"outcome": "taken_over" if again else "failed"})
        if again:
            self._run_again(actor, task, written)
        return task

    def _run_again(self, actor: Actor, task: Task, revision: int) -> None:
        events = Events(None, task.message)
        request = replace(
            self._request(actor, task),
            on_event=events.receive, state=task.state,
            timeout_s=max(0.001, (task.deadline_ms - self._store.now_ms) / 1000),
            input_responses={k.partition("-")[2]: v for k, v in task.responses.items()} or None,
        )  # fmt: skip
        work = asyncio.create_task(self._calls.call(request))
        self._follow(actor.subject, task, revision, work, events)

    async def _require(self, actor: Actor, endpoint: str | None, task_id: str) -> tuple[Task, int]:
        found = await self._store.get(actor.subject, task_id)
        if found is None or found[0].endpoint != endpoint:
            raise invalid_params(
                "Unknown task: it has expired, or was never created. Use the taskId of a call."
            )
        return found

    async def _change(
        self,
        actor: Actor,
        endpoint: str | None,
        task_id: str,
        change: Callable[[Task], bool],
    ) -> tuple[Task, int] | None:
        """Change a task against concurrent writes; None where `change` leaves it as it is."""
        for _ in range(_ATTEMPTS):
            task, revision = await self._require(actor, endpoint, task_id)
            task.updated_ms = self._store.now_ms
            if not change(task):
                return None
            try:
                written = await self._store.update(actor.subject, task, revision)
            except ValueError as error:
                raise invalid_params(f"The task would be too large: {error}. Send less.") from None
            if written is not None:
                return task, written
        raise Fault(ErrorCode.UNAVAILABLE, "The task changes too often. Try again.")


def check_responses(responses: dict[str, Any]) -> None:
    """Raises MCPError(-32602) where one is not a response of MCP to a request for input."""
    try:
        types.CallToolRequestParams.model_validate({"name": "x", "inputResponses": responses})
    except ValueError:
        raise invalid_params(
            "inputResponses: a response is malformed. Send the result of the request of its key."
        ) from None
