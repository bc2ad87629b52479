"""search, fetch, verify_quote and research_brief over sources that the tests control."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from msgspec import to_builtins

from searchbus_bus import Worker, declared_tools
from searchbus_contracts import Actor, ErrorCode, Failure, Fault, encode
from searchbus_contracts.coverage import COVERAGE
from searchbus_edge.composites.briefing import Brief
from searchbus_edge.composites.connector import Connector, Search, VerifyQuote
from searchbus_edge.composites.gathering import FAILURES
from searchbus_edge.composites.sources import (
    Anchor,
    Fetch,
    FetchedSource,
    Quoted,
    SourceHit,
    SourceHits,
)
from searchbus_edge.composites.web import found_in
from searchbus_passages import DEFAULT_TOKENS, count, find_quote

REFUSED = Fault(ErrorCode.UPSTREAM_BLOCKED, "Refused.", retry_after_ms=9)
WORDS = ("Some", "Others")
TEXT = "Whales sing long songs in the deep sea every winter."


class Source:
    """Finds pages named after itself; page 1 cannot be read, and page 2 is beside the point."""

    def __init__(self, name: str, count: int = 3, fault: Fault | None = None, absent: str = ""):
        self.name, self.count, self.fault, self.absent = name, count, fault, absent
        self.queries: list[str] = []
        self.failures: dict[str, Failure] = {}

    def absence(self, actor):
        return Failure(code=self.absent, message="Absent.") if self.absent else None

    async def search(self, query, limit, *, passages, actor, timeout_s):
        self.queries.append(query)
        if self.fault:
            raise self.fault
        hits = [
            SourceHit(f"{self.name}:{n}", f"Title {n}", f"https://{self.name}.example/{n}", self.name,
                (Quoted(f"Whale {n} sings to boats at night in winter."),))
            for n in range(self.count)
        ]  # fmt: skip
        return SourceHits(hits, self.failures)

    async def passages(self, question, hit, *, actor, timeout_s):
        if hit.id.endswith(":1"):
            raise Fault(ErrorCode.UPSTREAM_FAILED, "Gone.")
        if hit.id.endswith(":2"):
            return []
        texts = [f"{word} whales {hit.id} sing {hit.id} {word} {n}" for n, word in enumerate(WORDS)]
        return [
            Quoted(texts[0], Anchor(7, 7 + len(texts[0]), "0123456789abcdef" * 4)),
            Quoted(texts[1]),
        ]

    async def fetch(self, hit_id, *, actor, timeout_s, start=0, end=None, max_tokens=None):
        if not hit_id.startswith(f"{self.name}:"):
            return None
        part = TEXT[start:end]
        return FetchedSource(hit_id, "Title", part, "https://x", start=start, length=len(TEXT))

    async def quote(self, hit_id, quote, *, actor, timeout_s):
        page = await self.fetch(hit_id, actor=actor, timeout_s=timeout_s)
        return None if page is None else found_in(page, find_quote(page.text, quote))


@pytest.fixture
def call():
    """A call with five seconds left; `steps` has its progress."""
    steps = []

    async def progress(step, total, message):
        steps.append((step, total))

    actor = Actor(subject="a", roles=())
    return SimpleNamespace(actor=actor, remaining_s=5.0, progress=progress, steps=steps)


def test_four_tools_are_declared():
    """Read-only, with their time limits."""
    tools = {tool.name: tool for tool in declared_tools(Connector)}
    assert {name: tool.timeout_ms for name, tool in tools.items()} == {
        "search": 20_000, "fetch": 45_000, "research_brief": 60_000, "verify_quote": 45_000,
    }  # fmt: skip
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert all(tool.renderer == "json" for tool in tools.values())
    worker = Worker("connector")
    worker.add(Connector(()))
    assert worker.catalog.toolsets == ("connector",)


async def test_search_asks_every_source_with_a_weight(call):
    """Ten results at most, in the order of the fusion."""
    a, b, off = Source("a", 8), Source("b", 8), Source("off")
    connector = Connector([(a, 1.0), (b, 0.5), (off, 0.0)])
    found = await connector.search(call, Search("  two \n words "))
    assert len(found.value.results) == 10
    assert found.value.results[0].id == "a:0"
    assert [entry["state"] for entry in found.meta[COVERAGE]] == ["answered", "answered"]
    assert (a.queries, off.queries) == (["two words"], [])


async def test_failed_source_is_named_in_the_metadata(call):
    """The contract of search has one key, whatever failed."""
    connector = Connector([(Source("a"), 1), (Source("b", fault=REFUSED), 1)])
    found = await connector.search(call, Search("q"))
    value = to_builtins(found.value)
    assert list(value) == ["results"]
    assert len(value["results"]) == 3
    assert found.meta[FAILURES] == {
        "b": {"code": "upstream_blocked", "message": "Refused.", "retryable": True,
              "retry_after_ms": 9}
    }  # fmt: skip
    assert [(c["source"], c["state"]) for c in found.meta[COVERAGE]] == [
        ("a", "answered"),
        ("b", "blocked"),
    ]
    alone = await Connector([(Source("a"), 1)]).search(call, Search("q"))
    assert FAILURES not in alone.meta


async def test_absent_sources_and_failed_parts_are_named_too(call):
    """A role that the caller lacks, a service that is gone, a collection that failed."""
    a = Source("a")
    a.failures = {"a/hr": Failure(code="unavailable", message="Gone.")}
    sources = [(a, 1), (Source("b", absent="forbidden"), 1), (Source("c", absent="unavailable"), 1)]
    found = await Connector(sources).search(call, Search("q"))
    named = {source: failure["code"] for source, failure in found.meta[FAILURES].items()}
    assert named == {"a/hr": "unavailable", "b": "forbidden", "c": "unavailable"}
    brief = await Connector(sources).research_brief(call, Brief("q"))
    assert {failure.source for failure in brief.value.failures} >= set(named)
    states = {entry.source: entry.state for entry in brief.value.coverage}
    assert states == {
        "a": "answered",
        "a/hr": "failed",
        "b": "left_out",
        "c": "failed",
        "https://a.example/1": "failed",
    }


@pytest.mark.parametrize("method", ["search", "brief"])
async def test_nothing_found_and_a_source_failed_is_an_error(call, method):
    """An empty answer would say that there is nothing; a role that is lacking is no failure."""

    async def ask(*sources: Source):
        connector = Connector([(source, 1) for source in sources])
        if method == "search":
            return await connector.search(call, Search("q"))
        return await connector.research_brief(call, Brief("q"))

    no_credit = Fault(ErrorCode.QUOTA_EXHAUSTED, "No credit.")
    empty, failed = Source("a", 0), Source("b", fault=no_credit)
    with pytest.raises(Fault, match=r"sources failed\. b: No credit\.") as caught:
        await ask(empty, failed)
    assert caught.value.code == "quota_exhausted"
    with pytest.raises(Fault, match=r"c: Absent\.") as caught:
        await ask(empty, Source("c", absent="unavailable"))
    assert caught.value.code == "unavailable"
    part = Source("d", 0)
    part.failures = {"d/hr": Failure(code="unavailable", message="Gone.")}
    with pytest.raises(Fault, match=r"Gone\."):
        await ask(part)
    with pytest.raises(Fault, match=r"b: No credit\. c: Absent\.") as caught:
        await ask(failed, Source("c", absent="forbidden"))
    assert caught.value.code == "quota_exhausted"
    with pytest.raises(Fault, match=r"Absent\.") as caught:
        await ask(Source("c", absent="forbidden"))
    assert caught.value.code == "forbidden"
    found = await ask(empty, Source("c", absent="forbidden"))
    assert list(found.meta[FAILURES]) == ["c"]
    found = await ask(empty)
    assert [(entry["source"], entry["state"]) for entry in found.meta[COVERAGE]] == [("a", "empty")]
    assert FAILURES not in found.meta
    with pytest.raises(Fault, match="No source is configured"):
        await ask()


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


async def test_part_of_a_text_is_fetched_by_its_offsets(call):
    """Exactly that part, with what is needed to see it in the whole."""
    connector = Connector([(Source("a"), 1)])
    found = await connector.fetch(call, Fetch("a:0#7-22"))
    assert found.text == TEXT[7:22] == "sing long songs"
    assert found.metadata == {
        "start": "7", "end": "22", "chars": str(len(TEXT)), "untrusted": "true",
    }  # fmt: skip
    assert (await connector.fetch(call, Fetch("a:0#7-"))).text == TEXT[7:]
    with pytest.raises(Fault, match="part 7-7 is empty"):
        await connector.fetch(call, Fetch("a:0#7-7"))


async def test_quotation_is_verified_at_the_source_of_its_id(call):
    """With an id for fetch, which gives that text."""
    connector = Connector([(Source("a"), 1), (Source("b"), 1)])
    found = await connector.verify_quote(call, VerifyQuote("b:0", "sing short songs"))
    assert (found.match, found.text, found.untrusted) == ("nearest", "sing long songs", True)
    assert [(d.quote, d.text) for d in found.differences] == [("short", "long")]
    assert found.id == "b:0#7-22"
    assert (await connector.fetch(call, Fetch(found.id))).text == found.text
    with pytest.raises(Fault, match="no such id"):
        await connector.verify_quote(call, VerifyQuote("c:0", "songs"))


async def test_passages_of_a_brief_have_their_places(call):
    """Where the source knows them."""
    found = await Connector([(Source("a"), 1)]).research_brief(call, Brief("Which whales sing?"))
    brief = to_builtins(found.value)
    first, second = brief["passages"][:2]
    assert (first["start"], first["end"]) == (7, 38)
    assert "start" not in second
    assert [s.get("content_hash") for s in brief["sources"]] == ["0123456789abcdef", None]


async def test_brief_says_each_thing_once(call):
    """Models pay for every word of it: no question, and no coverage where nothing is missing."""
    source = Source("a", 1)
    brief = to_builtins(
        (await Connector([(source, 1)]).research_brief(call, Brief("Which whales sing?"))).value
    )
    assert brief == {
        "untrusted": True,
        "passages": [
            {"citation": 1, "text": "Some whales a:0 sing a:0 Some 0", "start": 7, "end": 38}
        ],
        "sources": [
            {"citation": 1, "id": "a:0", "title": "Title 0", "url": "https://a.example/0",
             "source": "a", "content_hash": "0123456789abcdef"}
        ],
    }  # fmt: skip


async def test_brief_reads_the_best_and_cites_them(call):
    """Four passages at most; a source that cannot be read is named and leaves its snippet."""
    found = await Connector([(Source("a", 6), 1)]).research_brief(call, Brief("Which whales sing?"))
    sources, passages = found.value.sources, found.value.passages
    assert [(s.citation, s.id) for s in sources] == [(1, "a:0"), (2, "a:1"), (3, "a:3")]
    assert found.value.untrusted is True
    shown = {passage.citation: passage.text for passage in passages}
    said = "Whale 1 sings to boats at night in winter."
    assert re.fullmatch(rf"<(untrusted_text_\w{{8}})>\n{said}\n</\1>", shown[2])
    assert (shown[1], shown[3]) == (
        "Some whales a:0 sing a:0 Some 0", "Some whales a:3 sing a:3 Some 0",
    )  # fmt: skip
    assert [failure.source for failure in found.value.failures] == ["https://a.example/1"]
    assert call.steps == [(0, 3), (1, 3), (2, 3), (3, 3)]


async def test_brief_has_a_share_of_each_source(call):
    """And at most four passages, none twice."""
    sources = [(Source("a", 9), 1.0), (Source("b", 9), 0.7)]
    found = await Connector(sources).research_brief(call, Brief("Which whales sing?"))
    assert {source.source for source in found.value.sources} == {"a", "b"}
    texts = [passage.text for passage in found.value.passages]
    assert len(set(texts)) == len(texts) <= 4


async def test_brief_keeps_a_budget_and_leads_on(call):
    """The next page has the sources that were left out, and those behind them."""
    connector = Connector([(Source("a", 9), 1.0)])
    whole = (await connector.research_brief(call, Brief("Which whales sing?"))).value
    assert "truncated" not in to_builtins(whole)
    first = (
        await connector.research_brief(call, Brief("Which whales sing?", max_tokens=430))
    ).value
    assert count(encode(first).decode()) <= 430
    assert first.truncated
    assert [s.id for s in first.sources] == [s.id for s in whole.sources[: len(first.sources)]]
    rest = Brief("Which whales sing?", cursor=first.cursor)
    following = (await connector.research_brief(call, rest)).value
    assert following.sources[0].id == whole.sources[len(first.sources)].id
    with pytest.raises(Fault, match="cursor: unknown"):
        await connector.research_brief(call, Brief("Which whales sing?", cursor="x"))


async def test_results_of_a_search_are_never_more_than_hosts_accept(call):
    """Ten addresses of thousands of characters would be."""
    source = Source("a", 10)
    source.name = "a" + ".x1" * 2000
    found = await Connector([(source, 1.0)]).search(call, Search("q"))
    assert 0 < len(found.value.results) < 10
    assert count(encode(found.value).decode()) <= DEFAULT_TOKENS
