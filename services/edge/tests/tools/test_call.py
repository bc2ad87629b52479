"""A tool call from its name to its reply, over the in-memory bus."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from dataclasses import replace
from queue import Queue
from typing import Any

import msgspec
import pytest
from mcp.shared.exceptions import MCPError
from opentelemetry.sdk.trace import TracerProvider

from searchbus_bus import Call, Toolset, Worker, endpoint, spend, tool
from searchbus_bus.loop_watch import LoopWatch, serves
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import ErrorCode, Fault, ToolReply
from searchbus_contracts.toolindex import FindReply, FindRequest
from searchbus_edge.auth.signing import Cursors
from searchbus_edge.catalog.view import ListedTool
from searchbus_edge.search.finder import Finder
from searchbus_edge.search.lazy import Lazy, own_tools
from searchbus_edge.tools.arguments import check_arguments
from searchbus_edge.tools.audit import AuditLog
from searchbus_edge.tools.budgets import Budgets
from searchbus_edge.tools.call import (
    ToolCalls,
    ToolRequest,
    _outcome,
    require_capabilities,
)
from searchbus_edge.tools.limits import LocalLimiter, SharedLimiter
from searchbus_edge.tools.reply import Reply
from searchbus_edge.tools.resolve import Resolver, Target
from searchbus_testing import known, until

from ..conftest import Nothing


@pytest.fixture
def build(bus, directory, registry):
    """Builds the calls; options of ToolCalls."""

    logs: list[AuditLog] = []

    def stopping(audit: AuditLog) -> AuditLog:
        logs.append(audit)
        return audit

    def make(**options) -> ToolCalls:
        off = LocalLimiter(0, 1)
        options.setdefault("audit", stopping(AuditLog()))
        finder = Finder(bus, directory, Cursors(b"k" * 32), off, enabled=True)
        defaults = {"limiter": off, "costly": off, "timeout_cap_s": 5.0}
        own = Worker("connector")
        calls = ToolCalls(bus, Resolver(registry), own, **(defaults | options))
        own.add(Lazy(finder, registry, calls))
        return calls

    yield make
    for audit in logs:
        audit.close()


def target(view, name):
    """What a call of a tool of the view is for."""
    return Target(view, name, view.tools[name], view.tools[name])


@pytest.fixture
def call(build, registry, reader):
    """Calls a tool of the toolset dictionary; returns its reply."""

    async def run(name, calls=None, on_event=None, continues=False, **arguments):
        calls = calls or build()
        target = calls.resolver.target(registry.view("dictionary"), name, arguments)
        request = ToolRequest(reader, target, arguments, on_event=on_event, continues=continues)
        return (await calls.call(request)).reply.decoded()

    return run


async def test_reply_of_the_worker_has_its_text(call):
    """Made from the structured value, as the tool's renderer says."""
    reply = await call("look_up", word="bus")
    assert reply.structured == {"word": "bus", "sense": "é ✓"}
    assert msgspec.json.decode(reply.content[0].text) == reply.structured


@pytest.mark.parametrize("name", ["absent", "secret"])
async def test_unknown_and_hidden_tools_look_the_same(call, name):
    """-32602, before the worker is called."""
    with pytest.raises(MCPError) as caught:
        await call(name)
    assert caught.value.error.message.startswith(f"Unknown tool: {name}.")


async def test_unknown_tool_may_be_of_a_service_that_was_not_seen_yet(call, directory):
    """After a restart of the edge nothing is known of what is away."""
    directory._presence.expected = frozenset({"dictionary", "retrieval"})
    with pytest.raises(MCPError, match="The tools of retrieval are not known yet"):
        await call("search_fomc")


def changed(view, name, **changes):
    """The view with another ListedTool of that name."""
    return replace(view, tools={**view.tools, name: replace(view.tools[name], **changes)})


async def test_results_with_text_of_others_are_marked(build, registry, reader):
    """Beside what the worker itself says for the host."""
    view = registry.view("dictionary")
    descriptor = view.tools["look_up"].descriptor
    for untrusted in (False, True):
        said = msgspec.structs.replace(descriptor, untrusted=untrusted)
        changed_view = changed(view, "look_up", descriptor=said)
        request = ToolRequest(reader, target(changed_view, "look_up"), {"word": "bus"})
        meta = (await build().call(request)).reply.meta or {}
        assert meta.get("dev.searchbus/untrusted", False) is untrusted


async def test_held_tool_is_refused_with_the_reason(build, registry, reader, dictionary):
    """Before its service receives anything."""
    view = changed(registry.view("dictionary"), "look_up", held="its description changed")
    request = ToolRequest(reader, target(view, "look_up"), {"word": "bus"})
    reply = (await build().call(request)).reply.decoded()
    assert reply.is_error
    assert "its description changed" in reply.content[0].text
    assert reply.structured["error"]["code"] == "unavailable"


async def test_a_call_that_holds_the_loop_is_named_by_tool_and_trace(call, monkeypatch, caplog):
    """By the watch of the loop, also before it reaches the bus."""
    looks: Queue[None] = Queue()

    @serves(lambda names: looks.put(None) or "checking")
    def hold(_: object, given: dict[str, Any]) -> dict[str, Any]:
        for _look in range(3):
            looks.get(timeout=60)
        return given

    monkeypatch.setattr("searchbus_edge.tools.call.check_arguments", hold)
    watch = LoopWatch(held_s=0.05)
    watch.start()
    try:
        await call("look_up", word="bus")
        await until(lambda: "tool look_up" in caplog.text)
    finally:
        watch.stop()
    assert re.search(r"\(checking; tool look_up, trace [0-9a-f]{32}\)", caplog.text)


async def test_arguments_outside_the_schema_are_an_error_reply(call, build, dictionary):
    """Before the limits and the worker: a wrong call costs the caller nothing."""
    nothing = build(limiter=LocalLimiter(1, 1))
    for _ in range(3):
        reply = await call("look_up", nothing, word=5)
        assert reply.is_error
        assert reply.structured["error"]["code"] == "invalid_argument"
        assert reply.content[0].text.startswith("invalid_argument: word: ")


async def test_failures_are_error_replies_and_crashes_are_internal(call):
    """A typed one keeps its code; the other says nothing."""
    assert (await call("fail")).content[0].text == "rate_limited: Too many. Wait."
    with pytest.raises(MCPError) as caught:
        await call("crash")
    assert caught.value.error.code == -32603
    assert "canary" not in caught.value.error.message


async def test_events_of_the_worker_are_passed_on(call):
    """In order."""
    events = []
    assert (await call("steps", on_event=events.append)).content[0].text == "done"
    assert [event.progress for event in events] == [1, 2, 3]


async def test_cap_ends_a_call_before_its_own_timeout(call, build, dictionary):
    """The tool's own would be 20 s; the worker is cancelled."""
    reply = await call("slow", build(timeout_cap_s=0.05))
    assert reply.content[0].text.startswith("deadline_exceeded: ")
    assert dictionary.cancelled == 1


async def test_deadline_of_the_caller_counts_too(build, registry, reader, dictionary):
    """A composite has less time than the tool that it calls."""
    request = ToolRequest(reader, target(registry.view("dictionary"), "slow"), {}, timeout_s=0.05)
    served = await build().call(request)
    assert served.reply.value["error"]["code"] == "deadline_exceeded"
    assert dictionary.cancelled == 1


async def test_limits_count_calls_and_costly_tools(call, build, registry, clock):
    """A costly tool is counted per tool, and refused where the count is unreachable. What goes on
    with a call is no other one, unless it costs money."""
    store = MemoryKeyValue(ttl_s=60, clock=clock)
    calls = build(
        limiter=LocalLimiter(1, 2, clock=clock),
        costly=SharedLimiter("costly", store, 1, 1, clock=clock, fail_closed=True),
    )
    assert not (await call("say", calls)).is_error
    assert not (await call("say", calls)).is_error
    refused = await call("say", calls)
    assert refused.structured["error"]["code"] == "rate_limited"
    assert not (await call("say", calls, continues=True)).is_error
    store.away = True
    clock.now_s += 10
    assert not (await call("say", calls)).is_error
    tools = registry.view("dictionary").tools
    costly = msgspec.structs.replace(tools["say"].descriptor, costly=True)
    tools["say"] = replace(tools["say"], descriptor=costly)
    for continues in (False, True):
        refused = await call("say", calls, continues=continues)
        assert refused.structured["error"]["code"] == "rate_limited"


def audited(caplog) -> list[dict[str, Any]]:
    """The lines of the audit log."""
    return [
        json.loads(line) for r in caplog.records if r.name == "searchbus.audit" for line in r.lines
    ]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("say", "ok"),
        ("fail", "rate_limited"),
        ("look_up", "invalid_argument"),
        ("absent", "json-rpc -32602"),
    ],
)
async def test_every_call_is_audited(call, build, caplog, name, outcome):
    """With its outcome; arguments only by the setting."""
    caplog.set_level(logging.INFO, "searchbus.audit")
    audit = AuditLog()
    try:
        await call(name, build(audit=audit))
    except MCPError:
        pass
    audit.close()
    (line,) = audited(caplog)
    assert (line["tool"], line["outcome"], line["subject"]) == (name, outcome, "reader")
    assert "arguments" not in line


async def test_a_call_that_fails_unexpectedly_is_not_audited_as_cancelled(
    call, build, caplog, monkeypatch
):
    """Nobody cancelled it."""
    caplog.set_level(logging.INFO, "searchbus.audit")

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr("searchbus_edge.tools.call.shown", fail)
    audit = AuditLog()
    with pytest.raises(RuntimeError):
        await call("say", build(audit=audit))
    audit.close()
    assert [line["outcome"] for line in audited(caplog)] == ["internal"]


@pytest.fixture
def call_tool(build, registry, reader, caplog):
    """Calls a tool by call_tool; returns the reply and the tools in the audit log."""
    caplog.set_level(logging.INFO, "searchbus.audit")

    async def run(name, arguments, **options):
        view = registry.view(None)
        view.tools.update({own.name: ListedTool(own.name, own, "") for own in own_tools()})
        audit = AuditLog()
        calls = build(audit=audit, **options)
        given = {"name": name, "arguments": arguments}
        found = calls.resolver.target(view, "call_tool", given)
        request = ToolRequest(reader, found, given)
        reply = (await calls.call(request)).reply.decoded()
        audit.close()
        return reply, [line["tool"] for line in audited(caplog)]

    return run


async def test_call_tool_passes_every_step_of_the_called_tool(call_tool, clock):
    """Limits, arguments, audit log."""
    reply, audited = await call_tool("look_up", {"word": "bus"})
    assert reply.structured["word"] == "bus"
    assert audited == ["look_up", "call_tool"]
    limited = LocalLimiter(1, 1, clock=clock)
    await call_tool("say", {}, limiter=limited)
    reply, _ = await call_tool("say", {}, limiter=limited)
    assert reply.structured["error"]["code"] == "rate_limited"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent", "invalid_argument: Unknown tool: absent. find_tools finds those there are."),
        ("secret", "invalid_argument: Unknown tool: secret. find_tools finds those there are."),
        ("look_up", "invalid_argument: word: is required."),
        ("find_tools", "invalid_argument: find_tools cannot be called through itself."),
    ],
)
async def test_bad_call_by_call_tool_is_an_error_reply(call_tool, name, text):
    """A model cannot read -32602 of a host."""
    reply, _ = await call_tool(name, {})
    assert reply.is_error
    assert reply.content[0].text.startswith(text)


async def test_internal_error_by_call_tool_stays_one(call_tool):
    """The model can do nothing about it."""
    with pytest.raises(MCPError):
        await call_tool("crash", {})


@pytest.mark.parametrize("for_composite", [True, False])
async def test_span_is_named_after_the_tool_unless_it_is_a_composites(
    build, registry, reader, for_composite
):
    """A composite's span keeps its name, and its outcome when a source fails."""
    provider = TracerProvider()
    with provider.get_tracer("t").start_as_current_span("own") as span:
        request = ToolRequest(
            reader, target(registry.view("dictionary"), "fail"), {}, for_composite=for_composite
        )
        await build().call(request)
    assert span.name == ("own" if for_composite else "tools/call fail")
    assert ("error.type" in span.attributes) is not for_composite


@pytest.mark.parametrize(
    ("error", "outcome"),
    [({"code": "not_found"}, "not_found"), ({"code": "x1"}, "error"), ({"code": 5}, "error"),
     ("text", "error"), ({}, "error")],
)  # fmt: skip
def test_outcomes_are_codes_of_the_wire(error, outcome):
    """A tool may write any other text there, and each would be a time series."""
    reply = Reply.of(ToolReply(structured={"error": error}, is_error=True))
    assert _outcome(reply) == (outcome, 0)


def test_missing_capability_is_named(make_tool):
    """Before the worker is called: -32021."""
    descriptor = make_tool(client_capabilities=("sampling", "roots")).descriptor
    require_capabilities(descriptor, ("roots", "sampling"))
    with pytest.raises(MCPError) as caught:
        require_capabilities(descriptor, ("roots",))
    assert caught.value.error.code == -32021
    assert caught.value.error.data == {"requiredCapabilities": {"sampling": {}}}


async def test_cap_ends_an_own_tool_too(build, registry, directory, reader, broker, monkeypatch):
    """Over the bus its worker would end it; here nobody else does."""

    class Index:
        @endpoint
        async def search(self, call: Call, request: FindRequest) -> FindReply:
            return await asyncio.Event().wait()

    monkeypatch.setattr("searchbus_edge.search.finder.SEARCH_TIMEOUT_S", 600.0)
    worker = Worker("toolindex")
    worker.add(Index())
    await broker.connect().serve(worker)
    await known(directory, "toolindex")
    view = registry.view(None)
    view.tools.update({own.name: ListedTool(own.name, own, "") for own in own_tools()})
    calls, query = build(timeout_cap_s=0.05), {"query": "words"}
    request = ToolRequest(reader, calls.resolver.target(view, "find_tools", query), query)
    async with asyncio.timeout(60):
        reply = (await calls.call(request)).reply
    assert reply.value["error"]["code"] == "deadline_exceeded"


async def test_own_tools_count_what_they_do_themselves(build, registry, reader, clock):
    """Not against the limit of calls: a search has a limit of its own."""
    view = registry.view(None)
    view.tools.update({own.name: ListedTool(own.name, own, "") for own in own_tools()})
    calls = build(limiter=LocalLimiter(1, 1, clock=clock))
    for _ in range(2):
        request = ToolRequest(reader, calls.resolver.target(view, "find_tools", {}), {})
        reply = (await calls.call(request)).reply
        assert reply.value["error"]["code"] == "unavailable"  # no index is running


class Paid(Toolset, name="paid"):
    """Tools that cost two and a half credits, however they end."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

    @tool(title="buy", costly=True)
    async def buy(self, call: Call, arguments: Nothing) -> str:
        """Buys."""
        spend(2)
        spend(0.5)
        return "bought"

    @tool(title="lose", costly=True)
    async def lose(self, call: Call, arguments: Nothing) -> str:
        """Pays, and finds nothing."""
        spend(2.5)
        raise Fault(ErrorCode.UPSTREAM_FAILED, "Nothing was found.")

    @tool(title="late", costly=True)
    async def late(self, call: Call, arguments: Nothing) -> str:
        """Pays, and has no time left."""
        spend(2.5)
        raise Fault(ErrorCode.DEADLINE_EXCEEDED, "The provider did not answer in time.")

    @tool(title="wait", costly=True)
    async def wait(self, call: Call, arguments: Nothing) -> str:
        """Pays, and does not end."""
        spend(2.5)
        self.started.set()
        await asyncio.Event().wait()
        return ""


@pytest.mark.parametrize(
    ("name", "credits"), [("buy", 2.5), ("lose", 2.5), ("late", 2.5), ("wait", 1.0)]
)
async def test_credits_of_a_call_count_however_it_ends(
    build, broker, directory, registry, reader, monkeypatch, name, credits
):
    """One that its caller leaves counts one, since nobody learns what it cost."""
    worker, toolset = Worker("paid"), Paid()
    worker.add(toolset)
    await broker.connect(name="paid").serve(worker)
    await until(lambda: "paid" in registry.toolsets)
    audited = {}
    audit = AuditLog()
    monkeypatch.setattr(audit, "record", lambda *_, **fields: audited.update(fields))
    budgets = Budgets({"caller_credits": 1}, MemoryKeyValue(ttl_s=60.0))
    calls = build(audit=audit, budgets=budgets)
    request = ToolRequest(reader, target(registry.view("paid"), name), {})
    task = asyncio.create_task(calls.call(request))
    if name == "wait":
        await toolset.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
    assert audited["credits"] == credits
    refused = await calls.call(request)
    assert "caller_credits of today is used up" in refused.reply.decoded().content[0].text
    audit.close()


def test_arguments_that_are_far_too_deep_are_refused_as_such(make_tool):
    """The schema is circular, so that the repair goes as deep as they do."""
    inner = {"properties": {"inner": {"$ref": "#/$defs/inner"}}}
    schema = {"type": "object", "$defs": {"inner": inner}, **inner}
    arguments: dict[str, Any] = {}
    for _ in range(900):
        arguments = {"inner": arguments}
    with pytest.raises(Fault, match="nested too deeply") as caught:
        check_arguments(make_tool(input_schema=schema), arguments)
    assert caught.value.code == "invalid_argument"
