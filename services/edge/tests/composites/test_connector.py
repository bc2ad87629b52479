"""search, fetch and research_brief over sources that the tests control."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from searchbus_bus import declared_tools
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_edge.composites.connector import (
    FAILURES,
    Brief,
    Connector,
    Fetch,
    Search,
    build_worker,
)
from searchbus_edge.composites.sources import Fetched, Hit

TEXT = "Whales sing long songs in the deep sea every winter."


class Source:
    """Finds pages named after itself."""

    def __init__(self, name: str, count: int = 3, fault: Fault | None = None, serves: bool = True):
        self.name, self.count, self.fault, self._serves = name, count, fault, serves
        self.queries: list[str] = []

    def serves(self, actor):
        return self._serves

    async def search(self, query, limit, *, actor, timeout_s):
        self.queries.append(query)
        if self.fault:
            raise self.fault
        return [
            Hit(
                f"{self.name}:{n}",
                f"Title {n}",
                f"https://{self.name}.example/{n}",
                self.name,
                "Found.",
            )
            for n in range(self.count)
        ]

    async def fetch(self, hit_id, *, actor, timeout_s):
        if not hit_id.startswith(f"{self.name}:"):
            return None
        if hit_id.endswith(":1"):
            raise Fault(ErrorCode.UPSTREAM_FAILED, "Gone.")
        return Fetched(hit_id, "Title", TEXT, "https://x")


@pytest.fixture
def call():
    """A call with five seconds left; `steps` has its progress."""
    steps = []

    async def progress(step, total, message):
        steps.append((step, total))

    actor = Actor(subject="a", roles=())
    return SimpleNamespace(actor=actor, remaining_s=5.0, progress=progress, steps=steps)


def test_three_tools_are_declared():
    """Read-only, with their time limits."""
    tools = {tool.name: tool for tool in declared_tools(Connector)}
    assert {name: tool.timeout_ms for name, tool in tools.items()} == {
        "search": 20_000, "fetch": 45_000, "research_brief": 60_000,
    }  # fmt: skip
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert all(tool.renderer == "json" for tool in tools.values())
    assert build_worker(Connector(())).catalog.toolsets == ("connector",)


async def test_search_asks_every_source_with_a_weight(call):
    """Ten results at most, in the order of the fusion."""
    a, b, off = Source("a", 8), Source("b", 8), Source("off")
    connector = Connector([(a, 1.0), (b, 0.5), (off, 0.0)])
    found = await connector.search(call, Search("  two \n words "))
    assert len(found.value.results) == 10
    assert found.value.results[0].id == "a:0"
    assert found.meta is None
    assert (a.queries, off.queries) == (["two words"], [])


async def test_failed_source_is_named_in_meta(call):
    """The others' results count."""
    fault = Fault(ErrorCode.UPSTREAM_BLOCKED, "Refused.", retry_after_ms=9)
    found = await Connector([(Source("a"), 1), (Source("b", fault=fault), 1)]).search(
        call, Search("q")
    )
    assert len(found.value.results) == 3
    assert found.meta[FAILURES]["b"]["code"] == "upstream_blocked"


async def test_search_fails_typed_where_no_source_answers(call):
    """None serves, or all failed."""
    with pytest.raises(Fault, match="No source can be searched") as caught:
        await Connector([(Source("a", serves=False), 1)]).search(call, Search("q"))
    assert caught.value.code == "unavailable"
    fault = Fault(ErrorCode.QUOTA_EXHAUSTED, "Empty.")
    with pytest.raises(Fault, match=r"Every source failed\. a: Empty\."):
        await Connector([(Source("a", fault=fault), 1)]).search(call, Search("q"))


@pytest.mark.parametrize("query", ["", " \n ", "x" * 1001])
async def test_queries_are_checked(call, query):
    """The message names the argument."""
    connector = Connector([(Source("a"), 1)])
    with pytest.raises(Fault, match=r"^invalid_query: query "):
        await connector.search(call, Search(query))
    with pytest.raises(Fault, match=r"^invalid_query: question ") as caught:
        await connector.research_brief(call, Brief(query))
    assert caught.value.code == "invalid_query"


async def test_fetch_finds_the_source_of_an_id(call):
    """Spaces around it are a model's."""
    connector = Connector([(Source("a"), 1), (Source("b"), 1)])
    assert (await connector.fetch(call, Fetch(" b:0 "))).text == TEXT
    with pytest.raises(Fault, match="no such id"):
        await connector.fetch(call, Fetch("c:0"))


async def test_brief_reads_the_best_and_cites_them(call):
    """Four at most; one that cannot be read is named and leaves its snippet."""
    found = await Connector([(Source("a", 6), 1)]).research_brief(call, Brief("Which whales sing?"))
    assert [source.id for source in found.value.sources] == ["a:0", "a:1", "a:2", "a:3"]
    texts = {p.citation: p.text for p in found.value.passages if p.text == TEXT}
    assert set(texts) == {1, 3, 4}
    assert list(found.meta[FAILURES]) == ["https://a.example/1"]
    assert call.steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
