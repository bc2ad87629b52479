"""tools/call from the checked name to the result, over the in-memory bus."""

from __future__ import annotations

import logging

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from searchbus_edge.calls.caller import ToolCaller

from searchbus_bus.keyvalue_memory import MemoryKeyValue
from searchbus_edge.calls.limits import LocalLimiter, SharedLimiter
from searchbus_edge.lists.cursors import Cursors
from searchbus_edge.search.finder import Finder
from searchbus_edge.search.lazy import LazyTools


@pytest.fixture
def build(bus, directory, registry):
    """Builds a caller; options of ToolCaller."""

    def make(**options) -> ToolCaller:
        off = LocalLimiter(0, 1)
        finder = Finder(bus, directory, Cursors(b"k" * 32), off, enabled=True)
        defaults = {"limiter": off, "costly": off, "timeout_cap_s": 5.0}
        return ToolCaller(bus, registry, LazyTools(finder), **(defaults | options))

    return make


@pytest.fixture
def call(build, registry, reader, context):
    """Calls a tool of the toolset dictionary."""

    async def run(name, caller=None, ctx=None, **arguments):
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        caller = caller or build()
        return await caller.call(ctx or context(), registry.view("dictionary"), reader, params)

    return run


async def test_reply_of_the_worker_is_rendered(call):
    """With arguments that came as text."""
    result = await call("look_up", word="bus")
    assert result.structured_content == {"word": "bus", "sense": "é ✓"}


@pytest.mark.parametrize("name", ["absent", "secret"])
async def test_unknown_and_hidden_tools_look_the_same(call, name):
    """-32602, before the worker is called."""
    with pytest.raises(MCPError) as caught:
        await call(name)
    assert caught.value.error.message.startswith(f"Unknown tool: {name}.")


async def test_failures_are_error_results_and_crashes_are_internal(call):
    """A typed one keeps its code; the other says nothing."""
    assert (await call("fail")).content[0].text == "rate_limited: Too many. Wait."
    with pytest.raises(MCPError) as caught:
        await call("crash")
    assert caught.value.error.code == -32603
    assert "canary" not in caught.value.error.message


async def test_progress_arrives_before_the_result(call, context):
    """In order."""
    ctx = context()
    assert (await call("steps", ctx=ctx)).content[0].text == "done"
    assert [step for step, *_ in ctx.sent] == [1, 2, 3]


async def test_cap_ends_a_call_before_its_own_timeout(call, build, dictionary):
    """The tool's own would be 20 s; the worker is cancelled."""
    result = await call("slow", build(timeout_cap_s=0.05))
    assert result.content[0].text.startswith("deadline_exceeded: ")
    assert dictionary.cancelled == 1


async def test_limits_count_calls_and_costly_tools(call, build, registry, reader, context, clock):
    """A costly tool is counted per tool, and refused where the count is unreachable."""
    store = MemoryKeyValue(ttl_s=60, clock=clock)
    caller = build(
        limiter=LocalLimiter(1, 2, clock=clock),
        costly=SharedLimiter("costly", store, 1, 1, clock=clock, fail_closed=True),
    )
    assert not (await call("say", caller)).is_error
    assert not (await call("say", caller)).is_error
    refused = await call("say", caller)
    assert refused.structured_content["error"]["code"] == "rate_limited"
    store.away = True
    clock.now_s += 10
    assert not (await call("say", caller)).is_error
    view = registry.view("dictionary")
    import msgspec

    listed = view.tools["say"]
    costly = type(listed)(
        "say", msgspec.structs.replace(listed.descriptor, costly=True), listed.service,
        listed.validator,
    )  # fmt: skip
    view.tools["say"] = costly
    assert (await call("say", caller)).structured_content["error"]["code"] == "rate_limited"


@pytest.mark.parametrize(
    ("name", "outcome"), [("say", "ok"), ("fail", "rate_limited"), ("absent", "json-rpc -32602")]
)
async def test_every_call_is_audited(call, caplog, name, outcome):
    """With its outcome; arguments only by the setting."""
    with caplog.at_level(logging.INFO, "searchbus.audit"):
        try:
            await call(name)
        except MCPError:
            pass
    (record,) = [r for r in caplog.records if r.name == "searchbus.audit"]
    assert (record.tool, record.outcome, record.subject) == (name, outcome, "reader")
    assert not hasattr(record, "arguments")


async def test_arguments_are_audited_by_the_setting(call, build, caplog):
    """As the client sent them."""
    with caplog.at_level(logging.INFO, "searchbus.audit"):
        await call("look_up", build(audit_arguments=True), word="bus")
    assert caplog.records[-1].arguments == {"word": "bus"}
