"""Plans of run_plan that nobody would write: a tool that the caller may not use stays unknown.

SEARCHBUS_FUZZED_PLANS=100000 runs so many, from SEARCHBUS_FIRST_PLAN on. Each that calls a hidden tool
is run again with an absent one in its place, and must get the same answer.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from searchbus_bus import Call, MemoryBroker, Toolset, Worker, tool
from searchbus_contracts import Actor, Fault, encode
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.plans.checking import Plan
from searchbus_edge.plans.running import Plans
from searchbus_edge.settings import EdgeSettings
from searchbus_testing import known

NUMBER = int(os.environ.get("SEARCHBUS_FUZZED_PLANS", "400"))
FIRST = int(os.environ.get("SEARCHBUS_FIRST_PLAN", "0"))
HIDDEN, ABSENT = "hidden_tool", "ridden_tool"
"""They have as many tokens: answers are cut by tokens."""
VISIBLE = ["echo", "rows_of", "fail"]
PATHS = [
    "$.{0}", "$.{0}.value", "$.{0}.value[*]", "$.{0}.results[*].id", "$.{0}[*].result.value",
    "$.{0}[0:3]", "@", "@.id", "@.value[-1]", "$..x", "$['{0}']", "$.{0}.results[?@.id]", "", "$",
    "$.{0}.value.deep.deeper", "$[*]", "$.nobody", '$["{0}"]["value"]',
]  # fmt: skip


class Value(Struct, forbid_unknown_fields=True):
    value: Any = None


class Rows(Struct):
    results: list[dict[str, Any]]


class Canary(Struct, forbid_unknown_fields=True):
    canary_argument: str


class Office(Toolset, name="office"):
    """Three tools that everybody may use."""

    @tool(title="Echo")
    async def echo(self, call: Call, arguments: Value) -> Value:
        """Gives back what it gets."""
        return arguments

    @tool(title="Rows")
    async def rows_of(self, call: Call, arguments: Value) -> Rows:
        """Gives three rows."""
        return Rows([{"id": n, "value": [n, arguments.value]} for n in range(3)])

    @tool(title="Fail")
    async def fail(self, call: Call, arguments: Value) -> Value:
        """Fails."""
        raise Fault("not_found", "There is none. Use another one.")


class Vault(Toolset, name="vault"):
    """A tool that needs a role, and is of another toolset."""

    canaries = 0

    @tool(title="canary title", required_roles=("BOSS",))
    async def hidden_tool(self, call: Call, arguments: Canary) -> Value:
        """The canary's description."""
        self.canaries += 1
        return Value("canary")


def fuzzed(pick: random.Random) -> dict[str, Any]:
    """A plan: half of them mostly as they should be, and in the others nothing need be."""
    ids = [f"s{n}" for n in range(pick.randint(1, 5))]
    if pick.random() < 0.5:
        steps = [_good(pick, ids[:number], name) for number, name in enumerate(ids)]
    else:
        steps = [_step(pick, name, ids) for name in ids]
    return {
        "steps": steps,
        "output": {f"o{n}": f"$.{pick.choice(ids)}" for n in range(pick.randint(1, 3))},
        **({"max_calls": pick.randint(1, 8)} if pick.random() < 0.3 else {}),
        **({"max_tokens": pick.choice([100, 1000])} if pick.random() < 0.3 else {}),
    }


def _good(pick: random.Random, before: list[str], name: str) -> dict[str, Any]:
    step: dict[str, Any] = {"id": name, "tool": pick.choice([*VISIBLE, "rows_of"])}
    value: Any = HIDDEN
    if before:
        value = {"$path": f"$.{pick.choice(before)}"}
    if before and pick.random() < 0.5:
        step["rows"] = f"$.{pick.choice(before)}.results[*]"
        value = {"$path": pick.choice(["@.id", "@", "@.none"])}
    step["arguments"] = {"value": value}
    if pick.random() < 0.02:
        step["tool"] = HIDDEN
    return step


def _step(pick: random.Random, name: str, ids: list[str]) -> dict[str, Any]:
    before = ids[: ids.index(name)] or ids
    step: dict[str, Any] = {"id": name if pick.random() < 0.97 else pick.choice(ids)}
    if pick.random() < 0.8:
        names = [*VISIBLE * 6, HIDDEN, HIDDEN, "run_plan", "call_tool", f"office_{HIDDEN}",
                 HIDDEN.upper(), f"{HIDDEN} ", "research_brief", f"$.{HIDDEN}", f"office.{HIDDEN}"]  # fmt: skip
        step["tool"] = pick.choice(names)
        step["arguments"] = _value(pick, before, 0)
        if not isinstance(step["arguments"], dict) or "$path" in step["arguments"]:
            step["arguments"] = {"value": step["arguments"]}
    if pick.random() < 0.4 or "tool" not in step:
        step["rows"] = _path(pick, before)
        if pick.random() < 0.4:
            step["where"] = [{"path": _path(pick, before), "op": pick.choice(["eq", "lt", "in",
                              "contains", "exists"]), "value": _value(pick, before, 2)}]  # fmt: skip
        if pick.random() < 0.2:
            step["join"] = {key: _path(pick, before) or "@" for key in ("rows", "on", "equals")} | {
                "name": "other"
            }
        if pick.random() < 0.3:
            step["fields"] = {HIDDEN if pick.random() < 0.1 else "f": _path(pick, before) or "@"}
        if pick.random() < 0.3:
            step["limit"] = pick.randint(1, 3)
    return step


def _path(pick: random.Random, ids: list[str]) -> str:
    return pick.choice(PATHS[:7] if pick.random() < 0.9 else PATHS).format(pick.choice(ids))


def _value(pick: random.Random, ids: list[str], depth: int) -> Any:
    kind = pick.random()
    if kind < 0.35:
        return {"$path": _path(pick, ids)}
    if kind < 0.7 and depth < 3:
        keys = ["value", "value", "value", "canary_argument", "name"]
        return {pick.choice(keys): _value(pick, ids, depth + 1) for _ in range(pick.randint(0, 2))}
    if kind < 0.8 and depth < 3:
        return [_value(pick, ids, depth + 1) for _ in range(pick.randint(0, 3))]
    return pick.choice([1, "x", None, True, HIDDEN, 1e9, "a" * 50])


@pytest.mark.parametrize("caller", [
    Actor(subject="fuzz", roles=("READER",)), Actor(subject="fuzz", roles=("*",), endpoint="desk"),
], ids=["by its roles", "by its endpoint"])  # fmt: skip
async def test_no_plan_shows_or_calls_a_hidden_tool(caller):
    """Not its schema, not its description, not that it is there: neither to a caller without the
    role, nor at an endpoint that joins other toolsets.
    """
    broker, vault, seen = MemoryBroker(), Vault(), Counter()
    worker = Worker("office", max_in_flight=64)
    worker.add(Office(), vault)
    await broker.connect(name="office").serve(worker)
    settings = EdgeSettings(joined_endpoints={"desk": ("office",)})
    async with open_edge(broker.connect(name="edge"), settings) as edge:
        await edge.bus.serve(edge.connector)
        await known(edge.directory, "office", "connector")
        assert HIDDEN in edge.registry.view(None).tools
        plans = Plans(edge.registry, edge.http_calls._calls)

        async def answer(plan: dict[str, Any]) -> str:
            try:
                parsed = msgspec.convert(plan, Plan)
            except msgspec.ValidationError:
                return "not a plan"
            try:
                return encode(await plans.run_plan(_call(caller), parsed)).decode()
            except Fault as fault:
                return f"{fault.code}: {fault.failure.message}"

        for seed in range(FIRST, FIRST + NUMBER):
            plan = fuzzed(random.Random(seed))
            text = await answer(plan)
            assert "canary title" not in text, seed
            assert "description" not in text, seed
            written = encode(plan).decode()
            if "canary_argument" not in written:
                assert "canary" not in text, seed
            # Only such a plan is refused whatever its calls would give, and in which order.
            if any(HIDDEN in step.get("tool", "") for step in plan["steps"]):
                other = await answer(msgspec.json.decode(written.replace(HIDDEN, ABSENT)))
                assert other == text.replace(HIDDEN, ABSENT), seed
            seen["ran" if text.startswith("{") else "refused"] += 1
            seen["unknown"] += "Unknown tool" in text
    assert vault.canaries == 0
    assert min(seen["ran"], seen["refused"], seen["unknown"]) > NUMBER / 50, seen


def _call(caller: Actor) -> Any:
    async def progress(*_: Any) -> None:
        await asyncio.sleep(0)

    return SimpleNamespace(actor=caller, remaining_s=30.0, progress=progress)
