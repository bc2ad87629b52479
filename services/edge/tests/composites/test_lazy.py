"""find_tools and call_tool on the bus."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_bus import Worker
from searchbus_contracts import ErrorCode, Fault, ToolCall
from searchbus_edge.catalog.view import View
from searchbus_edge.composites.lazy import add_lazy_tools
from searchbus_edge.search.lazy import LAZY, LAZY_TOOLS
from searchbus_edge.tools.call import Served
from searchbus_edge.tools.faults import invalid_params
from searchbus_edge.tools.reply import Reply


class Calls:
    """Replies to every call, and keeps it."""

    def __init__(self, make_tool):
        found = make_tool("find_tools", listed_as="lazy_find_tools", toolset=LAZY)
        self.everything = View((0, True), tool_of={(LAZY, "find_tools"): found})
        self.requests = []
        self.fault = None

    async def call(self, request):
        self.requests.append(request)
        if self.fault:
            raise self.fault
        return Served(self.everything.tool_of[LAZY, "find_tools"], Reply(structured=b'{"a":1}'))


class Caller:
    remaining_s = 3.0

    def __init__(self, actor):
        self.actor = actor


@pytest.fixture
def calls(make_tool):
    return Calls(make_tool)


@pytest.fixture
def worker(calls):
    worker = Worker("connector")
    add_lazy_tools(worker, calls)
    return worker


async def call(worker, actor, name):
    request = ToolCall(tool=name, arguments=msgspec.Raw(b'{"query": "q"}'))
    return await worker.find_tool(LAZY, name).handler(Caller(actor), request)


def test_both_are_in_the_catalogue(worker):
    """With their own descriptors, which the tool index reads."""
    assert all(tool in worker.catalog.tools for tool in LAZY_TOOLS)


async def test_call_is_served_as_a_call_at_the_edge(worker, calls, reader):
    """For the same caller, under the listed name, within the time that is left."""
    reply = await call(worker, reader, "find_tools")
    (request,) = calls.requests
    assert reply.structured == {"a": 1}
    assert (request.actor, request.name, request.arguments, request.timeout_s) == (
        reader, "lazy_find_tools", {"query": "q"}, 3.0
    )  # fmt: skip


async def test_tool_that_is_not_offered_is_unavailable(worker, reader):
    """As long as there is no tool index."""
    with pytest.raises(Fault) as caught:
        await call(worker, reader, "call_tool")
    assert caught.value.code == ErrorCode.UNAVAILABLE


async def test_unknown_tool_is_an_invalid_argument(worker, calls, reader):
    """A protocol error has no meaning on the bus."""
    calls.fault = invalid_params("Unknown tool: x.")
    with pytest.raises(Fault, match="Unknown tool: x") as caught:
        await call(worker, reader, "find_tools")
    assert caught.value.code == ErrorCode.INVALID_ARGUMENT
