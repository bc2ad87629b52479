"""run_plan: several calls as one (toolset `bulk`)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import ErrorCode, Fault, ToolAnnotations, encode
from searchbus_contracts.queries import too_small
from searchbus_passages import MAX_CHARS_PER_TOKEN, count, holds

from ..catalog.registry import Registry
from ..catalog.view import ListedTool
from ..composites.many import BULK
from ..tools.call import ToolCalls
from ..tools.resolve import Target
from .checking import Plan, PlanAnswer, StepFailure, check, weight
from .running import Run

MAX_HELD_BYTES = 64 * 2**20
"""The limit of the results of all plans that run on one edge."""


class Plans(Toolset, name=BULK):
    """Runs plans over all tools of `/mcp`, or of the endpoint that joins toolsets."""

    def __init__(self, registry: Registry, calls: ToolCalls) -> None:
        self._registry = registry
        self._calls = calls
        self._held_bytes = 0

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
        checked = await asyncio.to_thread(
            check, arguments, call.actor, view, self._calls.resolver, _is_plan
        )
        held_bytes = 0

        def hold(size_bytes: int) -> None:
            nonlocal held_bytes
            if self._held_bytes + size_bytes > MAX_HELD_BYTES:
                raise Fault(ErrorCode.OVERLOADED, "Too many plans run now. Try again shortly.")
            held_bytes += size_bytes
            self._held_bytes += size_bytes

        def target(name: str, given: dict[str, Any]) -> Target:
            view = self._registry.view(call.actor.endpoint)
            return self._calls.resolver.target(view, name, given)

        run = Run(call, arguments, checked, self._calls, target, hold)
        try:
            await run.run()
            selected: dict[str, Any] = {}
            for name, path in checked.output.items():
                if path.step in run.results:
                    try:
                        selected[name] = run.at(path)
                    except Fault as fault:
                        run.failures.append(StepFailure.of(f"output.{name}", fault.failure))
            if not selected and run.failures:
                first = run.failures[0]
                raise Fault(first.code, f"{first.step}: {first.message}")
            return await asyncio.to_thread(_fitted, run, selected, arguments.max_tokens)
        finally:
            self._held_bytes -= held_bytes


def _is_plan(listed: ListedTool) -> bool:
    return (listed.descriptor.toolset, listed.descriptor.name) == (BULK, "run_plan")


def _fitted(run: Run, selected: dict[str, Any], most: int) -> PlanAnswer:
    """The answer in so many tokens; long lists are cut. Raises Fault(invalid_argument) where no
    output fits."""
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
