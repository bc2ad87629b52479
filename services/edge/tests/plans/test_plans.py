"""run_plan: rows, references, budgets, failures, and plans that are meant to hurt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from msgspec import convert

from searchbus_contracts import Actor, Fault
from searchbus_edge.plans import paths, running
from searchbus_edge.plans.checking import Plan, PlanAnswer, weight
from searchbus_edge.plans.running import Plans

FIND = {"id": "found", "tool": "find", "arguments": {"text": "lamp", "count": 6}}
PRICES = {
    "id": "prices", "tool": "price", "rows": "$.found.results[*]",
    "where": [{"path": "@.score", "op": "ge", "value": 2}], "limit": 3,
    "arguments": {"id": {"$path": "@.id"}},
}  # fmt: skip


@pytest.fixture
def weighings(monkeypatch) -> list[threading.Thread]:
    """The threads that filled and weighed arguments, one for each time."""
    made_by: list[threading.Thread] = []

    def weighed(value: Any, most: int, work: paths.Work | None = None) -> int:
        if most == running.MAX_ARGUMENT_BYTES:
            made_by.append(threading.current_thread())
        return weight(value, most, work)

    monkeypatch.setattr(running, "weight", weighed)
    return made_by


def value(reply) -> dict[str, Any]:
    """The structured content of a good reply."""
    assert not reply.is_error, reply.content
    return reply.structured


def message(reply) -> str:
    """The message of a failed reply."""
    assert reply.is_error
    return reply.structured["error"]["message"]


async def test_rows_are_filtered_limited_and_called_for(bench):
    """Only the output is returned; a failed row is named and left out."""
    reply = await bench.run(
        FIND, PRICES, output={"euro": "$.prices[*].result.value.euro", "ids": "$.prices[*].row.id"}
    )
    assert value(reply) == {
        "output": {"euro": [20, 40], "ids": ["p2", "p4"]},
        "calls": 4,
        "failures": [
            {"step": "prices", "code": "not_found", "message": "No such product.", "rows": 1}
        ],
    }
    assert bench.shop.called[1:] == [("price", "p2"), ("price", "p3"), ("price", "p4")]


async def test_rows_are_joined_made_unique_and_reduced(bench):
    """A join pairs rows by key; fields may come from both sides."""
    stock = [{"product": "p1", "left": 4}, {"product": "p1", "left": 4}, {"product": "p9"}]
    reply = await bench.run(
        {"id": "both", "rows": "$.found.results", "fields": {"name": "@.title", "n": "@.s.left"},
         "join": {"rows": "$.stock.value[*]", "on": "@.id", "equals": "@.product", "name": "s"},
         "unique": "@.id"},
        FIND, {"id": "stock", "tool": "echo", "arguments": {"value": stock}},
        output={"both": "$.both"},
    )  # fmt: skip
    assert value(reply)["output"] == {"both": [{"name": "lamp 1", "n": 4}]}


CONDITIONS = [
    ({"op": "eq", "value": 1}, [1, 1.0]),
    ({"op": "ne", "value": 1}, [True, "1", None, [1], "b", "abc"]),
    ({"op": "gt", "value": "a"}, ["b", "abc"]),
    ({"op": "in", "value": [True, "b", {"$path": "$.a.value[0]"}]}, [1, True, 1.0, "b"]),
    ({"op": "contains", "value": 1.0}, [[1]]),
    ({"op": "contains", "value": "b"}, ["b", "abc"]),
    ({"path": "@[0]", "op": "exists"}, [[1]]),
    ({"path": "@[0]", "op": "exists", "value": False}, [1, True, 1.0, "1", None, "b", "abc"]),
]


async def test_conditions_compare_only_what_can_be_compared(bench):
    """1 is 1.0 and not true; an object or a list equals nothing."""
    rows = [1, True, 1.0, "1", None, [1], "b", "abc"]
    names = [f"s{number}" for number in range(len(CONDITIONS))]
    reply = await bench.run(
        {"id": "a", "tool": "echo", "arguments": {"value": rows}},
        *(
            {"id": name, "rows": "$.a.value[*]", "where": [{"path": "@", **condition}]}
            for name, (condition, _) in zip(names, CONDITIONS, strict=True)
        ),
        output={name: f"$.{name}" for name in names},
    )
    found = value(reply)["output"]
    assert [repr(found[name]) for name in names] == [repr(kept) for _, kept in CONDITIONS]


async def test_text_that_is_json_has_paths_too(bench):
    """As servers without structured results send it; any other text is one value."""
    reply = await bench.run(
        {"id": "a", "tool": "as_text", "arguments": {"value": '{"n": [7]}'}},
        {"id": "b", "tool": "as_text", "arguments": {"value": "[no"}},
        output={"a": "$.a.n[-1]", "b": "$.b"},
    )
    assert value(reply)["output"] == {"a": 7, "b": "[no"}


REFUSED = [
        ([{"id": "a", "tool": "secret", "arguments": {"id": "x"}}], "Unknown tool: secret"),
        ([{"id": "a", "tool": "nothing"}], "Unknown tool: nothing"),
        ([{"id": "a", "tool": "run_plan"}], "a plan cannot run a plan"),
        ([{"id": "a", "tool": "find", "arguments": {"text": ""}}], "steps.a.arguments: text"),
        ([{"id": "a", "tool": "find", "arguments": {}}], "text: is required"),
        (
            [FIND, {"id": "a", "tool": "find",
                    "arguments": {"text": {"$path": "$.found"}, "count": 0}}],
            "count",
        ),
        ([FIND, {"id": "a", "tool": "price", "arguments": {"x": {"$path": "$.found"}}}], "x: is un"),
        ([FIND, {**PRICES, "id": "found"}], "two steps have the id found"),
        ([PRICES], "there is no step found"),
        ([{"id": "a", "rows": "$.b"}, {"id": "b", "rows": "$.a"}], "need each other"),
        ([{"id": "a", "rows": "$.a"}], "need each other"),
        ([{"id": "a", "tool": "price", "arguments": {"id": {"$path": "@.id"}}}], "is of a row"),
        ([FIND, {"id": "a", "rows": "$..results"}], "cannot be read at character 1"),
        ([FIND, {"id": "a", "rows": "$.found.results[?@.x]"}], "filters"),
        ([{"id": "a", "limit": 3}], "needs a tool"),
        ([{"id": "a", "tool": "echo", "limit": 3}], "has no rows"),
        ([{"id": "a", "tool": "echo", "arguments": {"value": "x" * 70_000}}], "more than 65536"),
]  # fmt: skip


async def test_plan_is_refused_before_its_first_call(bench):
    """The message names the field; nothing was called."""
    for steps, named in REFUSED:
        reply = await bench.run(*steps, output={"a": "$.a"})
        assert named in message(reply)
    assert bench.shop.called == []


async def test_steps_begin_in_the_order_of_the_plan(bench):
    """Where nothing else orders them; a set's order differs from run to run."""
    ids = ["z", "q", "b", "a", "m", "c"]
    paths = [{"$path": f"$.{one}.results[0].id"} for one in ids]
    await bench.run(
        {"id": "all", "tool": "echo", "arguments": {"value": paths}},
        *({"id": one, "tool": "find", "arguments": {"text": one}} for one in ids),
        output={"a": "$.a.results[0].id"},
    )
    assert [text for _, text in bench.shop.called[: len(ids)]] == ids


async def test_hidden_tool_looks_like_one_that_is_not_there(bench):
    """Not a word differs but the name."""
    hidden, absent = [
        message(await bench.run({"id": "a", "tool": name}, output={"a": "$.a"}))
        for name in ("secret", "sacred")
    ]
    assert hidden == absent.replace("sacred", "secret")


async def test_deep_arguments_are_refused(bench):
    """The request or the plan's own limit of levels; nothing overflows."""
    for levels in (40, 900):
        deep: Any = 1
        for _ in range(levels):
            deep = [deep]
        reply = await bench.run(
            {"id": "a", "tool": "echo", "arguments": {"value": deep}}, output={"a": "$.a"}
        )
        assert "levels" in message(reply) or "deep" in message(reply)
    assert bench.shop.called == []


async def test_step_behind_a_failed_one_is_skipped_and_the_rest_is_returned(bench):
    """The other steps' results are there."""
    reply = await bench.run(
        {"id": "bad", "tool": "price", "arguments": {"id": "p3"}},
        {"id": "after", "tool": "echo", "arguments": {"value": {"$path": "$.bad.value"}}},
        {"id": "good", "tool": "echo", "arguments": {"value": 1}},
        output={"after": "$.after", "good": "$.good.value", "none": "$.good.nothing"},
    )
    found = value(reply)
    assert (found["output"], found["skipped"]) == ({"good": 1}, ["after"])
    assert [(f["step"], f["code"]) for f in found["failures"]] == [
        ("bad", "not_found"),
        ("output.none", "not_found"),
    ]


async def test_plan_without_any_output_fails_as_its_first_step(bench):
    """So a client that looks at isError alone knows."""
    reply = await bench.run(
        {"id": "bad", "tool": "price", "arguments": {"id": "p3"}}, output={"x": "$.bad"}
    )
    assert message(reply) == "bad: No such product."
    assert reply.structured["error"]["code"] == "not_found"


async def test_map_over_map_ends_at_the_calls_that_are_allowed(bench):
    """Before the calls of a step are made; what was there before is returned."""

    def echo(name: str, rows: str) -> dict[str, Any]:
        return {"id": name, "tool": "find", "rows": rows, "arguments": {"text": "x", "count": 50}}

    reply = await bench.run(
        {"id": "a", "tool": "find", "arguments": {"text": "x", "count": 50}},
        echo("b", "$.a.results[*]"), echo("c", "$.b[*].result.results[*]"),
        output={"n": "$.a.results[0].id", "c": "$.c"}, max_calls=60,
    )  # fmt: skip
    found = value(reply)
    assert (found["output"], found["calls"], len(bench.shop.called)) == ({"n": "p0"}, 51, 51)
    assert "2500 more are needed" in found["failures"][0]["message"]


async def test_rows_that_double_cost_nothing_until_they_are_shown(bench):
    """Thirty doublings of a row: neither the answer nor the arguments of a call get so large."""
    doubling = [
        {"id": f"s{n}", "rows": f"$.s{n - 1}" if n else "$.found.results",
         "fields": {"a": "@", "b": "@"}} for n in range(30)
    ]  # fmt: skip
    reply = await bench.run(
        FIND, *doubling, {"id": "sent", "tool": "echo", "arguments": {"value": {"$path": "$.s29"}}},
        output={"all": "$.s29", "sent": "$.sent", "ids": "$.found.results[*].id"},
    )  # fmt: skip
    found = value(reply)
    assert found["output"] == {"ids": ["p0", "p1", "p2", "p3", "p4", "p5"]}
    assert found["truncated"] == ["all"]
    assert "more than 262144 bytes" in found["failures"][0]["message"]


async def test_filters_that_look_at_everything_for_each_row_are_stopped(bench):
    """A million values is the most of one plan."""
    many = {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 500}}
    reply = await bench.run(
        many, {"id": "k", "rows": "$.m.results", "fields": {"k": "@.none", "r": "@"}},
        {"id": "pairs", "rows": "$.k",
         "join": {"rows": "$.m.results", "on": "@.r.long", "equals": "@.long", "name": "o"}},
        output={"p": "$.pairs[0].o.id", "n": "$.m.results[0].id"},
    )  # fmt: skip
    found = value(reply)
    assert found["output"] == {"n": "p0"}
    assert "rows" in found["failures"][0]["message"] or "values" in found["failures"][0]["message"]


@pytest.mark.parametrize("bench", [{"call_rate_per_s": 0.001, "call_burst": 4}], indirect=True)
async def test_plan_spends_no_more_than_its_caller_may(bench):
    """run_plan is one call, its steps the others; after a refusal a tool is not asked again."""
    reply = await bench.run(
        FIND, {**PRICES, "where": [], "limit": 6}, output={"e": "$.prices[*].result.value.euro"}
    )
    found = value(reply)
    assert len(bench.shop.called) <= 3
    limited = [f for f in found["failures"] if f["code"] == "rate_limited"]
    assert sum(f["rows"] for f in limited) >= 4
    assert all(f["retry_after_ms"] > 0 for f in limited)


@pytest.mark.parametrize("bench", [{"call_rate_per_s": 0.001, "call_burst": 4}], indirect=True)
async def test_rows_of_a_tool_that_refuses_are_not_filled(bench, weighings):
    """They would be work and memory; those of the sixteen calls that run may be."""
    find = {**FIND, "arguments": {"text": "x", "count": 45}}
    reply = await bench.run(
        find, {**PRICES, "where": [], "limit": 45}, output={"n": "$.found.results[0].id"}
    )
    (failure,) = value(reply)["failures"]
    assert failure["code"] == "rate_limited"
    assert failure["rows"] >= 42
    assert len(weighings) <= 1 + 3 + 16


async def test_rows_beyond_the_calls_of_a_plan_are_not_filled(bench, weighings):
    """Two steps share them; neither knows how many the other makes."""
    bench.shop.pause_s = 0.01
    find = {**FIND, "arguments": {"text": "x", "count": 45}}
    steps = [{**PRICES, "id": name, "where": [], "limit": 45} for name in ("a", "b")]
    reply = await bench.run(find, *steps, output={"n": "$.found.results[0].id"}, max_calls=50)
    assert (value(reply)["calls"], len(bench.shop.called)) == (50, 50)
    assert len(weighings) <= 50 + 16


async def test_time_that_ends_leaves_what_is_done(bench):
    """The step that ran is named; nothing of it runs on."""
    reply = await bench.run(
        FIND, {"id": "slow", "tool": "wait"}, output={"n": "$.found.results[0].id", "s": "$.slow"},
        timeout_s=3.0,
    )  # fmt: skip
    found = value(reply)
    assert found["output"] == {"n": "p0"}
    assert [(f["step"], f["code"]) for f in found["failures"]] == [("slow", "deadline_exceeded")]
    await _until(lambda: bench.shop.cancelled == 1 and bench.shop.running == 0)


async def test_cancelled_plan_leaves_nothing_running(bench):
    """Every call that it made is cancelled at its worker."""
    rows = {"id": "all", "tool": "wait", "rows": "$.found.results",
            "arguments": {"value": {"$path": "@.id"}}}  # fmt: skip
    task = asyncio.create_task(bench.run(FIND, rows, output={"a": "$.all"}))
    await _until(lambda: bench.shop.running == 6)
    task.cancel()
    await _until(lambda: bench.shop.running == 0)
    assert bench.shop.cancelled == 6


async def test_independent_calls_run_at_once_within_a_bound(bench):
    """Sixteen of one plan."""
    bench.shop.pause_s = 0.05
    rows = {**PRICES, "where": [], "limit": 30}
    await bench.run(
        {**FIND, "arguments": {"text": "x", "count": 30}}, rows, output={"p": "$.prices"}
    )
    assert bench.shop.most_running == 16


async def test_progress_names_each_step(bench):
    """It increases."""
    events = []
    arguments = {"steps": [FIND, PRICES], "output": {"p": "$.prices"}}
    await bench.call("run_plan", arguments, on_event=events.append)
    assert [(e.progress, e.total, e.message) for e in events] == [
        (1, 2, "found"),
        (2, 2, "prices"),
    ]


async def test_answer_keeps_its_budget_and_says_what_was_cut(bench):
    """The beginning of a list, and what fits behind it."""
    reply = await bench.run(
        {**FIND, "arguments": {"text": "lamp", "count": 200}},
        output={"all": "$.found.results", "ids": "$.found.results[0:2].id"}, max_tokens=3000,
    )  # fmt: skip
    found = value(reply)
    assert 0 < len(found["output"]["all"]) < 200
    assert found["truncated"] == ["all", "ids"] or found["output"]["ids"] == ["p0", "p1"]


async def test_results_have_a_limit_in_all(bench):
    """Of one plan; a giant result is not read."""
    big = "x" * 60_000
    rows = {"id": "all", "tool": "echo", "rows": "$.m.results", "arguments": {"value": big}}
    reply = await bench.run(
        {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 90}}, rows,
        output={"n": "$.m.results[0].id"}, max_calls=100,
    )  # fmt: skip
    (failure,) = value(reply)["failures"]
    assert "more than 4194304 bytes" in failure["message"]
    assert 15 < failure["rows"] < 40


WIDE = {f"f{n}": "@.id" for n in range(29)} | {"long": "@.long"}


async def test_rows_that_a_plan_makes_count_as_results(bench):
    """Joined, reduced, and the lists that paths make: a plan of a few lines has megabytes of them."""
    many = {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 100}}
    same = {"rows": "$.w", "on": "@.long", "equals": "@.long", "name": "o"}
    lists = {f"f{n}": "@.none[*]" for n in range(30)}
    for steps in (
        [{"id": "w", "rows": "$.m.results", "fields": WIDE}, {"id": "x", "rows": "$.w", "join": same}],
        [{"id": "w", "rows": "$.m.results", "fields": WIDE},
         {"id": "x", "rows": "$.w", "join": same, "fields": {"whole": "@"}}],
        [{"id": "w", "rows": "$.m.results"},
         *({"id": f"x{n}", "rows": "$.w", "fields": lists} for n in range(20))],
    ):  # fmt: skip
        found = value(await bench.run(many, *steps, output={"n": "$.m.results[0].id"}))
        assert found["failures"], steps
        assert all("more than 4194304 bytes" in f["message"] for f in found["failures"])
    pairs = {"id": "x", "rows": "$.w", "join": same, "fields": {"a": "@.id", "b": "@.o.id"}}
    few = {"id": "w", "rows": "$.m.results", "fields": {"id": "@.id", "long": "@.long"}}
    found = value(await bench.run(many, few, pairs, output={"n": "$.x[9999]"}))
    assert found["output"] == {"n": {"a": "p99", "b": "p99"}}


async def test_arguments_that_are_filled_for_each_row_are_work(bench, monkeypatch):
    """A few kilobytes of a plan, or one result that each call gets, are many values for many rows."""
    monkeypatch.setattr(running, "MAX_RESULT_BYTES", 2**30)
    many = {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 195}}
    big = {"id": "big", "tool": "echo", "arguments": {"value": [1] * 12_000}}
    for given in ([{"$path": "@.id"}, *[1] * 12_000], {"$path": "$.big.value"}):
        reply = await bench.run(
            many, big,
            {"id": "e", "tool": "echo", "rows": "$.m.results", "arguments": {"value": given}},
            output={"n": "$.m.results[0].id", "rows": "$.e[*].row.id"}, max_calls=200,
        )  # fmt: skip
        found, made = value(reply), bench.shop.called.count(("echo", None)) - 1
        assert 30 < made < 100
        assert found["output"] == {"n": "p0", "rows": [f"p{n}" for n in range(made)]}
        (failure,) = found["failures"]
        assert (failure["step"], failure["rows"]) == ("e", 195 - made)
        assert "The plan looks at too many values" in failure["message"]
        bench.shop.called.clear()


def test_work_that_is_refused_counts_nothing():
    """A step that asks for too much leaves to others what they can do with."""
    work = paths.Work(10)
    work.charge(8)
    with pytest.raises(Fault, match="too many values"):
        work.charge(3)
    work.charge(2)
    with pytest.raises(Fault, match="too many values"):
        work.charge(1)


class Uncopied(list):
    """A list of which nothing may be taken."""

    def __getitem__(self, place):
        raise AssertionError(place)

    def __iter__(self):
        raise AssertionError


@pytest.mark.parametrize("path", ["$.s[*]", "$.s[0:]", "$.s[1:9]"])
def test_a_path_that_is_refused_copies_nothing(path):
    """Each row of a plan may ask for it again, since what is refused counts nothing."""
    with pytest.raises(Fault, match="too many values"):
        paths.parse(path, "rows").nodes({"s": Uncopied(range(10))}, paths.Work(6))


async def test_arguments_that_a_plan_makes_count_as_results(bench):
    """Empty lists are two characters each in the plan, and sixty bytes in memory."""
    rows = {"id": "e", "tool": "price", "rows": "$.m.results",
            "arguments": {"id": [{"$path": "@.id"}, *[[]] * 2000]}}  # fmt: skip
    reply = await bench.run(
        {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 50}}, rows,
        output={"n": "$.m.results[0].id"}, max_calls=60,
    )  # fmt: skip
    wrong, full = value(reply)["failures"]
    assert "the tool's schema" in wrong["message"]
    assert "more than 4194304 bytes" in full["message"]
    assert 10 < full["rows"] < 40


async def test_arguments_are_filled_for_calls_that_run_and_beside_the_loop(bench, weighings):
    """Sixteen of a plan; those of the other rows would only wait."""
    rows = {"id": "w", "tool": "wait", "rows": "$.m.results", "arguments": {"value": 1}}
    find = {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 30}}
    task = asyncio.create_task(bench.run(find, rows, output={"w": "$.w"}))
    await _until(lambda: bench.shop.running == 16)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(weighings) == 17
    assert threading.main_thread() not in weighings


def test_copying_a_row_is_work_for_each_of_its_fields():
    """Also where no copy is kept."""
    work = paths.Work(1000)
    rows = [{"k": 1} | {f"f{n}": n for n in range(30)}] * 10
    key = paths.parse("@.k", "on")
    with pytest.raises(Fault, match="too many values"):
        paths.Selection(join=(rows, key, key, "o"), where=(paths.Test(key, "eq", 2),)).apply(
            rows, work
        )


async def test_plans_of_one_caller_leave_room_for_those_of_others(bench, monkeypatch):
    """A quarter of what all plans may hold; it is free again when a plan ends."""
    monkeypatch.setattr(running, "MAX_HELD_BYTES", 1_000_000)
    plans = Plans(bench.edge.registry, bench.edge.http_calls._calls)
    many = {"id": "m", "tool": "find", "arguments": {"text": "x", "count": 400}}

    def run(subject: str, *steps: dict[str, Any]) -> Awaitable[PlanAnswer]:
        plan = convert({"steps": [many, *steps], "output": {"n": "$.m.results[0].id"}}, Plan)
        call = SimpleNamespace(
            actor=Actor(subject=subject, roles=("READER",)), remaining_s=60.0, progress=progress
        )
        return plans.run_plan(call, plan)

    slow = asyncio.create_task(run("a", {"id": "w", "tool": "wait", "rows": "$.m.results[0:1]"}))
    await _until(lambda: bench.shop.running == 1)
    with pytest.raises(Fault, match="overloaded") as raised:
        await run("a")
    assert raised.value.failure.retry_after_ms == 1000
    assert (await run("b")).output == {"n": "p0"}
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    assert (await run("a")).output == {"n": "p0"}


async def progress(*_: Any) -> None:
    """Nobody follows."""


async def test_call_tool_runs_a_plan_and_no_plan_runs_call_tool(bench):
    """Recursion has no way in."""
    with pytest.raises(MCPError):  # no tool index here: call_tool is not offered
        await bench.call("call_tool", {"name": "run_plan", "arguments": {}})


async def _until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
