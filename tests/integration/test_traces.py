"""One trace over client, edge, bus, workers and upstreams, as a collector gets it over OTLP."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from searchbus_testing import until

from .collector import Collector, Span

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
SECRET_WORD = "zanzibarquux"
"""Part of every query; must not be in any span."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def stack(collector, start_stack, tmp_path_factory):
    stack = start_stack(
        tmp_path_factory.mktemp("traced"), "--fake-upstreams", "--scale", "ddg=2",
        SEARCHBUS_OTLP_ENDPOINT=collector.url,
        # The fake limits nothing here: the pace is tested elsewhere.
        SEARCHBUS_DDG_INTERVAL_S="0",
    )  # fmt: skip
    fakes = json.loads((stack.data / "fakes.json").read_text())
    httpx.post(f"{fakes['ddg']}/_fake", json={"quick_requests": 0, "latency_s": 0.0})
    return stack


def calls(name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments}


async def send(
    client: httpx.AsyncClient, url: str, method: str, params: dict[str, Any], *, in_meta: bool
) -> tuple[str, str]:
    """Send one request within a trace of the client's own; its trace id and span id."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    parent = f"00-{trace_id}-{span_id}-01"
    headers = dict(HEADERS)
    if in_meta:
        params = {**params, "_meta": {"traceparent": parent}}
    else:
        headers["traceparent"] = parent
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    response = await client.post(url, json=body, headers=headers, timeout=300)
    assert response.status_code == 200, response.text
    return trace_id, span_id


def edges(spans: list[Span]) -> set[tuple[str, str]]:
    """Who called whom, over the borders of processes: (service span, service span)."""
    by_id = {span.span_id: span for span in spans}
    return {
        (f"{by_id[s.parent_id].service} {by_id[s.parent_id].name}", f"{s.service} {s.name}")
        for s in spans
        if s.parent_id in by_id
    }


async def one_trace(
    stack, collector, method: str, params: dict[str, Any], expected: set[tuple[str, str]]
) -> list[Span]:
    """The spans of one request, as soon as every expected edge is among them."""
    async with httpx.AsyncClient(trust_env=False) as client:
        trace_id, span_id = await send(
            client, f"{stack.state['url']}/mcp", method, params, in_meta=True
        )

    def spans() -> list[Span]:
        return list(collector.spans.get(trace_id, ()))

    await until(
        lambda: expected <= edges(spans()) and any(s.parent_id == span_id for s in spans()),
        timeout_s=300,
        message=lambda: f"{expected - edges(spans())} of {edges(spans())}",
    )
    return spans()


async def test_who_called_whom_in_a_web_search(stack, collector):
    """Client → edge → web → ddg → DuckDuckGo, each as a span of its own kind."""
    expected = {
        ("edge tools/call web_search", "edge request web"),
        ("edge request web", "web process tool.web.web_search"),
        ("web process tool.web.web_search", "web request ddg"),
        ("web request ddg", "ddg process ddg.search"),
        ("ddg process ddg.search", "ddg POST duckduckgo"),
    }
    spans = await one_trace(
        stack, collector, *calls("web_search", query=f"{SECRET_WORD} tea"), expected
    )
    assert edges(spans) == expected
    named = {span.name: span for span in spans}
    call = named["tools/call web_search"]
    assert call.kind == 2  # server
    assert call.attributes["mcp.method.name"] == "tools/call"
    assert call.attributes["gen_ai.tool.name"] == "web_search"
    sent = named["request web"]
    assert sent.kind == 4  # producer
    assert sent.attributes["messaging.system"] == "nats"
    assert sent.attributes["messaging.destination.name"] == "sb.v1.tool.web.web_search"
    assert named["process tool.web.web_search"].attributes["messaging.operation.type"] == "process"
    upstream = named["POST duckduckgo"]
    assert upstream.kind == 3
    assert upstream.attributes["http.response.status_code"] == 200
    assert upstream.attributes["server.address"] == "127.0.0.1"


async def test_who_called_whom_in_a_search_of_every_source(stack, collector):
    """The connector asks documents and the web side by side."""
    expected = {
        ("edge tools/call search", "edge request connector"),
        ("edge request connector", "edge process tool.connector.search"),
        ("edge process tool.connector.search", "edge request retrieval"),
        ("edge process tool.connector.search", "edge request web"),
        ("edge request retrieval", "retrieval process retrieval.search"),
        ("edge request web", "web process tool.web.web_search"),
        ("ddg process ddg.search", "ddg POST duckduckgo"),
    }
    await one_trace(stack, collector, *calls("search", query=f"{SECRET_WORD} gloves"), expected)


async def test_who_called_whom_in_a_search_for_tools(stack, collector):
    """The edge asks the index; a failed call is marked with its code."""
    expected = {
        ("edge request toolindex", "toolindex process toolindex.search"),
        ("toolindex process toolindex.search", "toolindex embed query"),
    }
    await one_trace(stack, collector, "tools/search", {"query": "search the web"}, expected)
    expected = {("edge request retrieval", "retrieval process tool.fomc.search_fomc")}
    spans = await one_trace(
        stack, collector, *calls("search_fomc", query=f"{SECRET_WORD} rates"), expected
    )
    failed = [s for s in spans if s.attributes.get("error.type") == "empty_corpus"]
    assert {s.service for s in failed} == {"edge", "retrieval"}


MIXED = [
    lambda n: ("tools/list", {}),
    lambda n: ("tools/search", {"query": f"{SECRET_WORD} search the web {n}"}),
    lambda n: ("prompts/search", {"query": "check a claim"}),
    lambda n: ("resources/search", {"query": f"{SECRET_WORD} handbook"}),
    lambda n: calls("web_search", query=f"{SECRET_WORD} {n % 40}"),
    lambda n: calls("ddg_web_search", query=f"{SECRET_WORD} {n % 40}"),
    lambda n: calls("instant_answer", query=f"{SECRET_WORD} {n % 10}"),
    lambda n: calls("search", query=f"{SECRET_WORD} {n % 40}"),
    lambda n: calls("web_extract_content", urls=[f"http://site{n % 7}.example.org/{n % 20}"]),
    lambda n: calls("search_fomc", query=f"{SECRET_WORD} {n}"),
    lambda n: calls("find_tools", query=f"{SECRET_WORD} search"),
    lambda n: calls("call_tool", name="ddg_web_search", arguments={"query": f"{SECRET_WORD} 1"}),
    lambda n: calls("no_such_tool", query=SECRET_WORD),
    lambda n: calls("web_search", query="", max_results=SECRET_WORD),
]


async def mixed(stack, count: int) -> list[tuple[str, str]]:
    """Send requests of all kinds, sixteen at once: the ids of the traces and of the client's spans."""
    url = f"{stack.state['url']}/mcp"
    slots = asyncio.Semaphore(16)
    # The edge closes a connection that is idle for five seconds; the client does it before.
    limits = httpx.Limits(max_connections=16, keepalive_expiry=1)
    async with httpx.AsyncClient(trust_env=False, limits=limits) as client:

        async def one(number: int) -> tuple[str, str]:
            async with slots:
                method, params = MIXED[number % len(MIXED)](number)
                return await send(client, url, method, params, in_meta=number % 2 == 0)

        return await asyncio.gather(*(one(number) for number in range(count)))


@pytest.mark.slow
async def test_a_thousand_mixed_requests_are_a_thousand_connected_traces(stack, collector):
    """Every trace is one tree below the client's span; none is lost, none mixed with another."""
    asked = await mixed(stack, 1000)

    def broken() -> list[Any]:
        found = []
        for trace_id, span_id in asked:
            spans = list(collector.spans.get(trace_id, ()))
            known = {span.span_id for span in spans}
            below = [span for span in spans if span.parent_id == span_id]
            if len(below) != 1 or any(s.parent_id not in known | {span_id} for s in spans):
                found.append((trace_id, [(s.service, s.name) for s in spans]))
        return found

    # Spans come in batches, some seconds later.
    await until(lambda: not broken(), timeout_s=300, interval_s=0.5, message=lambda: str(broken()))


async def test_no_span_says_what_was_asked(stack, collector):
    """Names, attributes and links of everything that came: no word of a query."""
    asked = await mixed(stack, 2 * len(MIXED))
    await until(lambda: all(trace_id in collector.spans for trace_id, _ in asked), timeout_s=300)
    for spans in [*collector.spans.values()]:  # more may come
        for span in spans:
            assert SECRET_WORD not in repr(span)
