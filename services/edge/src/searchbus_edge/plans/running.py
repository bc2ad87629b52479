"""run_plan (toolset `bulk`): every call by the pipeline of all calls, independent steps at once.

How a failure or the deadline ends steps: docs/guides/plans.md.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import ErrorCode, Failure, Fault, ToolAnnotations, decode, encode
from searchbus_contracts.queries import too_small
from searchbus_passages import MAX_CHARS_PER_TOKEN, count, holds

from ..catalog.registry import Registry
from ..composites.many import BULK
from ..holding import HeldBytes, Holder
from ..tools.call import ToolCalls, ToolRequest
from ..tools.reply import Reply
from ..tools.resolve import Target
from .checking import (
    CheckedPlan,
    CheckedStep,
    Plan,
    PlanAnswer,
    StepFailure,
    check,
    reference,
    weight,
)
from .paths import Path, Selection, Test, Work

MAX_PARALLEL = 16
MAX_ARGUMENT_BYTES = 256 * 1024
MAX_RESULT_BYTES = 4 * 2**20
"""The limit of one plan: results of tools as JSON, and the rows and arguments that it makes."""
_ANSWER_S = 1.0
"""Kept of the caller's time for the answer."""
Resolve = Callable[[str, dict[str, Any]], Target]
"""Takes a tool's name and its arguments; the target of the call as tools are now."""


class Run:
    """One run of a plan; `holder` counts what it keeps.

    Attributes:
        results: of the steps that ended, by id.
        failures: of the steps that failed.
        skipped: ids of the steps that needed these.
        made: calls so far.
    """

    def __init__(
        self, call: Call, plan: Plan, checked: CheckedPlan, calls: ToolCalls, resolve: Resolve,
        holder: Holder,
    ) -> None:  # fmt: skip
        self.results: dict[str, Any] = {}
        self.failures: list[StepFailure] = []
        self.skipped: list[str] = []
        self.made = 0
        self._work = Work(hold=self._keep)
        self._call = call
        self._plan = plan
        self._checked = checked
        self._calls = calls
        self._resolve = resolve
        self._holder = holder
        self._slots = asyncio.Semaphore(MAX_PARALLEL)
        self._filling = asyncio.Lock()
        self._refused: dict[str, Fault] = {}
        self._row_results: dict[str, dict[int, Any]] = {}
        self._ended: set[str] = set()
        self._deadline_s = time.monotonic() + min(
            plan.timeout_s, max(call.remaining_s - _ANSWER_S, call.remaining_s / 2)
        )

    async def run(self) -> None:
        """Run all steps; cancelling this cancels what runs."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            async with asyncio.timeout(self._left_s), asyncio.TaskGroup() as group:
                for name, checked in self._checked.steps.items():
                    needed = [tasks[other] for other in checked.needs]
                    tasks[name] = group.create_task(self._step(checked, needed))
        except TimeoutError:
            late = Fault(
                ErrorCode.DEADLINE_EXCEEDED,
                "The plan's time ended before this step. Try again with a larger timeout_s.",
            )
            for name in self._checked.steps.keys() - self._ended:
                self.failures.append(StepFailure.of(name, late.failure))
                if done := self._row_results.get(name):
                    self.results[name] = _in_order(done)

    def select(self) -> dict[str, Any]:
        """What the output leads to, by its names; a path that fails is among the failures. The work
        is counted anew: a step that used all of it loses nothing that was made."""
        work, selected = Work(), dict[str, Any]()
        for name, path in self._checked.output.items():
            if path.step in self.results:
                try:
                    selected[name] = self._at(path, work)
                except Fault as fault:
                    self.failures.append(StepFailure.of(f"output.{name}", fault.failure))
        return selected

    def _at(self, path: Path, work: Work, row: Any = None) -> Any:
        """What a path leads to; raises Fault(not_found), or where it leads to too much."""
        try:
            return path.value(self.results if path.root == "$" else row, work)
        except LookupError:
            raise Fault(
                ErrorCode.NOT_FOUND,
                f"{path.text} leads to nothing. Look at the fields of the tool's results.",
            ) from None

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline_s - time.monotonic())

    async def _step(self, checked: CheckedStep, needed: list[asyncio.Task[None]]) -> None:
        name = checked.step.id
        if needed:
            await asyncio.wait(needed)
        if not checked.needs <= self.results.keys():
            self.skipped.append(name)
        else:
            try:
                result = await self._result(checked)
                if result is not None:
                    self.results[name] = result
            except Fault as fault:
                self.failures.append(StepFailure.of(name, fault.failure))
        self._ended.add(name)
        await self._call.progress(len(self._ended), len(self._checked.steps), name)

    async def _result(self, checked: CheckedStep) -> Any:
        """The result of a step; None where every row of it failed."""
        source = checked.rows
        if source is None:
            return await self._called(checked)
        rows = await asyncio.to_thread(self._rows, checked, source)
        return rows if checked.step.tool is None else await self._called_for_each(checked, rows)

    def _rows(self, checked: CheckedStep, source: Path) -> list[Any]:
        step, paths = checked.step, checked.paths
        join = step.join
        selection = Selection(
            join=None if join is None else (
                self._list_at(paths[join.rows]), paths[join.on], paths[join.equals], join.name
            ),
            where=tuple(
                Test(paths[one.path], one.op, self._filled(one.value, paths, None))
                for one in step.where
            ),
            unique=None if step.unique is None else paths[step.unique],
            limit=step.limit,
            fields={name: paths[text] for name, text in step.fields.items()},
        )  # fmt: skip
        return selection.apply(self._list_at(source), self._work)

    def _list_at(self, path: Path) -> list[Any]:
        """The rows at a path: its values, or the list that is its only one."""
        found = self._at(path, self._work)
        if not isinstance(found, list):
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"{path.text} is not a list of rows. Use a path to one: $.step.results[*].",
            )
        return found

    async def _called_for_each(self, checked: CheckedStep, rows: list[Any]) -> list[Any] | None:
        """The results beside their rows, without those that failed; None where all failed."""
        name = checked.step.id
        if self.made + len(rows) > self._plan.max_calls:
            raise self._too_many(len(rows))  # before a part of them is made in vain
        done = self._row_results[name] = {}
        failed: Counter[Failure] = Counter()

        async def one(number: int, row: Any) -> None:
            try:
                done[number] = {"row": row, "result": await self._called(checked, row)}
            except Fault as fault:
                failed[fault.failure] += 1

        try:
            async with asyncio.TaskGroup() as group:
                for number, row in enumerate(rows):
                    group.create_task(one(number, row))
        finally:
            self.failures += (StepFailure.of(name, why, count) for why, count in failed.items())
        return _in_order(done) if done or not rows else None

    async def _called(self, checked: CheckedStep, row: Any = None) -> Any:
        """The result of one call; raises Fault."""
        name = checked.step.tool
        assert name is not None
        async with self._slots:  # so no more arguments exist than calls that run
            async with self._filling:  # with all threads one plan would hold up everybody
                self._check_callable(name)
                arguments = await asyncio.to_thread(self._arguments, checked, row)
            self._check_callable(name)  # others were called meanwhile
            self.made += 1
            try:
                request = ToolRequest(
                    self._call.actor, self._resolve(name, arguments), arguments,
                    timeout_s=self._left_s, for_composite=True,
                )  # fmt: skip
                reply = (await self._calls.call(request)).reply
            except MCPError as error:
                internal = error.error.code == types.INTERNAL_ERROR
                code = ErrorCode.INTERNAL if internal else ErrorCode.INVALID_ARGUMENT
                raise Fault(code, error.error.message) from None
            except RecursionError:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    "The arguments are nested too deeply. Send flatter ones.",
                ) from None
        if reply.input_required is not None:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, f"{name} asks for input. Use it outside of a plan."
            )
        if reply.is_error:
            fault = reply.fault("\n".join(reply.texts) or f"{name} failed.")
            if fault.code == ErrorCode.RATE_LIMITED:
                self._refused[name] = fault
            raise fault
        return self._read(reply)

    def _arguments(self, checked: CheckedStep, row: Any) -> Any:
        """The arguments of one call; raises Fault where they are too large."""
        arguments = self._filled(checked.step.arguments, checked.paths, row)
        if weight(arguments, MAX_ARGUMENT_BYTES, self._work) > MAX_ARGUMENT_BYTES:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"The arguments have more than {MAX_ARGUMENT_BYTES} bytes. Use smaller parts.",
            )
        return arguments

    def _read(self, reply: Reply) -> Any:
        """What paths see: the structured result, else the text, as JSON where it is some."""
        text = "" if reply.structured is not None else "\n".join(reply.texts)
        self._keep(len(reply.structured or text.encode()))
        if reply.structured is not None:
            return reply.value
        try:
            return decode(text.encode(), Any) if text[:1] in ("{", "[") else text
        except Fault:  # no JSON
            return text

    def _keep(self, size_bytes: int) -> None:
        """Count bytes that stay until the plan ends; raises Fault(invalid_argument, overloaded)."""
        if self._holder.size_bytes + size_bytes > MAX_RESULT_BYTES:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"Results, rows and arguments have more than {MAX_RESULT_BYTES} bytes. Ask the "
                "tools for less, or limit the rows.",
            )
        if not self._holder.take(size_bytes):
            raise Fault(
                ErrorCode.OVERLOADED,
                "The plans that run now, of this caller or of all, hold too much. Try again "
                "shortly.",
                retry_after_ms=1000,
            )

    def _filled(self, value: Any, paths: Mapping[str, Path], row: Any) -> Any:
        """Arguments with their references replaced; their depth is checked. Each value is work, and
        what is made is kept; raises Fault."""
        self._work.charge(1)
        made: Any
        if (text := reference(value)) is not None:
            made = self._at(paths[text], self._work, row)
            if paths[text].is_single:  # any other path makes a list
                return made
        elif isinstance(value, dict):
            made = {key: self._filled(inner, paths, row) for key, inner in value.items()}
        elif isinstance(value, list):
            made = [self._filled(inner, paths, row) for inner in value]
        else:
            return value
        self._keep(sys.getsizeof(made))
        return made

    def _check_callable(self, name: str) -> None:
        """Raise the Fault of a call that is not to be made."""
        if name in self._refused:  # asking on would only be refused again
            raise self._refused[name]
        if self.made >= self._plan.max_calls:
            raise self._too_many(1)

    def _too_many(self, count: int) -> Fault:
        return Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"{self.made} calls were made, {count} more are needed, and max_calls is "
            f"{self._plan.max_calls}. Limit the rows, or raise it.",
        )


def _in_order(done: dict[int, Any]) -> list[Any]:
    return [done[number] for number in sorted(done)]


MAX_HELD_BYTES = 64 * 2**20
"""The same limit for all plans that run on one edge; a quarter of it for those of one caller."""


class Plans(Toolset, name=BULK):
    """Runs plans over all tools of `/mcp`, or of the endpoint that joins toolsets."""

    def __init__(self, registry: Registry, calls: ToolCalls) -> None:
        self._registry = registry
        self._calls = calls
        self._held = HeldBytes(MAX_HELD_BYTES, MAX_HELD_BYTES // 4)

    @tool(
        title="Run a plan of calls",
        annotations=ToolAnnotations(read_only_hint=False, open_world_hint=True),
        untrusted=True,
        timeout_ms=120_000,
        examples=(
            "run several tool calls in one request",
            "call a tool for each result of another and return only some fields",
            "chain tools without reading the results in between",
        ),
        keywords=("plan", "batch", "pipeline", "chain", "workflow", "map", "join"),
    )
    async def run_plan(self, call: Call, arguments: Plan) -> PlanAnswer:
        """Run several tool calls as one plan: steps use earlier results by JSONPath, call a tool
        for each row, filter and join rows. Only what `output` selects is returned.
        """
        view = self._registry.view(call.actor.endpoint)
        checked = await asyncio.to_thread(check, arguments, call.actor, view, self._calls.resolver)

        def target(name: str, given: dict[str, Any]) -> Target:
            view = self._registry.view(call.actor.endpoint)
            return self._calls.resolver.target(view, name, given)

        with Holder(self._held, call.actor.subject) as holder:
            run = Run(call, arguments, checked, self._calls, target, holder)
            await run.run()
            selected = await asyncio.to_thread(run.select)
            if not selected and run.failures:
                first = run.failures[0]
                raise Fault(
                    first.code, f"{first.step}: {first.message}",
                    retryable=first.retryable, retry_after_ms=first.retry_after_ms,
                )  # fmt: skip
            return await asyncio.to_thread(_fitted, run, selected, arguments.max_tokens)


def _fitted(run: Run, selected: dict[str, Any], most: int) -> PlanAnswer:
    """The answer in so many tokens, long lists cut; raises Fault(invalid_argument) if none fits."""
    whole = PlanAnswer({}, run.made, run.failures, run.skipped)
    named = msgspec.structs.replace(whole, truncated=list(selected))
    left = most - count(encode(named).decode())
    if left < 0:
        raise too_small(most, most - left)
    for name, value in selected.items():
        left -= _tokens(name, most)
        cost = _tokens(value, left)
        if cost > left:
            whole.truncated.append(name)
            value = _beginning(value, left)
            if not value:
                continue
            cost = _tokens(value, left)
        whole.output[name] = value
        left -= cost
    while whole.output and not holds(encode(whole), most):
        whole.truncated.append(whole.output.popitem()[0])
    return whole


def _beginning(value: Any, most: int) -> list[Any]:
    """As many rows of a list as fit."""
    kept: list[Any] = []
    for row in value if isinstance(value, list) else ():
        most -= _tokens(row, most) + 1
        if most < 2:
            break
        kept.append(row)
    return kept


def _tokens(value: Any, most: int) -> int:
    """Tokens of a value as JSON; of one that is much too large only that it is."""
    limit = max(0, most) * MAX_CHARS_PER_TOKEN + MAX_CHARS_PER_TOKEN
    if weight(value, limit) > limit:
        return most + 1
    return count(encode(value).decode()) + 1
