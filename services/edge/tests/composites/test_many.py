"""search_many over sources that the tests control."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from msgspec import to_builtins

from searchbus_contracts import Actor, ErrorCode, Failure, Fault, encode
from searchbus_edge.composites import many
from searchbus_edge.composites.many import Many, SearchMany
from searchbus_edge.composites.sources import Quoted, SourceHit, SourceHits

HIT = "https://site.example/{}?utm_source=x"


class Source:
    """Finds a page that every query finds, and one of the query's own."""

    def __init__(self, name: str, fails: str = "") -> None:
        self.name, self.fails, self.asked = name, fails, []

    def absence(self, actor):
        return Failure(code="forbidden", message="Absent.") if "absent" in self.name else None

    async def search(self, query, limit, *, passages, actor, timeout_s):
        self.asked.append(query)
        if self.fails and self.fails in query:
            raise Fault(ErrorCode.UPSTREAM_BLOCKED, "Refused. Try again.")
        own = SourceHit(f"{self.name}:{query}", query, f"https://own.example/{query}", self.name)
        both = SourceHit(f"{self.name}:all", "All", HIT.format("all"), self.name, (Quoted("T."),))
        return SourceHits([own, both] if query != "nothing" else [])


@pytest.fixture
def call():
    """A call; `steps` has its progress."""
    steps = []

    async def progress(step, total, message):
        steps.append((step, total))

    return SimpleNamespace(
        actor=Actor(subject="a", roles=()), remaining_s=5.0, progress=progress, steps=steps
    )


async def ask(call, *sources, **arguments):
    """The answer as JSON values."""
    many = Many([(source, 1.0) for source in sources])
    return to_builtins(await many.search_many(call, SearchMany(**arguments)))


async def test_page_of_several_queries_is_listed_once_and_first(call):
    """With their numbers; the same query twice is asked once."""
    source = Source("web")
    found = await ask(call, source, queries=["a", "b", " b ", "nothing"])
    assert [(r["title"], r["queries"]) for r in found["results"]] == [
        ("a", [0]), ("All", [0, 1]), ("b", [1]),
    ] or found["results"][0]["title"] == "All"  # fmt: skip
    assert sum(r["title"] == "All" for r in found["results"]) == 1
    assert [(q["query"], q["found"]) for q in found["queries"]] == [
        ("a", 2),
        ("b", 2),
        ("nothing", 0),
    ]
    assert sorted(source.asked) == ["a", "b", "nothing"]
    assert call.steps == [(1, 3), (2, 3), (3, 3)]


async def test_chapters_of_one_address_are_results_of_their_own(call):
    """Each with its own queries."""
    source = Source("documents/c")

    async def search(query, limit, **options):
        hits = [SourceHit(f"doc:c:{n}", n, "http://a.org/book", source.name) for n in query]
        return SourceHits(hits)

    source.search = search
    found = await ask(call, source, queries=["ab", "bc"])
    assert {r["title"]: r["queries"] for r in found["results"]} == {"a": [0], "b": [0, 1], "c": [1]}


async def test_each_query_has_its_coverage(call):
    """Only where something is missing."""
    found = await ask(call, Source("documents"), Source("web", fails="b"), queries=["a", "b"])
    assert "coverage" not in found["queries"][0]
    assert [(c["source"], c["state"]) for c in found["queries"][1]["coverage"]] == [
        ("documents", "answered"),
        ("web", "blocked"),
    ]


async def test_answer_without_results_is_a_failure_where_a_source_failed(call):
    """Else an empty list."""
    with pytest.raises(Fault, match="upstream_blocked"):
        await ask(call, Source("web", fails="a"), queries=["a", "aa"])
    assert (await ask(call, Source("web"), queries=["nothing"]))["results"] == []


async def test_sources_and_budgets(call):
    """An unknown source is named; results are left out for the budget."""
    with pytest.raises(Fault, match="there is no news"):
        await ask(call, Source("web"), queries=["a"], sources=["news"])
    queries = [f"query number {n}" for n in range(10)]
    found = await ask(call, Source("web"), queries=queries, max_tokens=600)
    assert 0 < len(found["results"]) < 11
    assert found["truncated"]
    with pytest.raises(Fault, match="Raise it"):
        await ask(call, Source("web"), queries=queries, max_tokens=100)


async def test_answer_is_fitted_in_few_steps_and_off_the_loop(call, monkeypatch):
    """A hundred results that hardly fit: not counted anew for each that is left out."""
    source, threads = Source("web"), []

    async def search(query, limit, **options):
        return SourceHits(
            [SourceHit(f"{query}{n}", "T" * 90, f"https://{query}.example/{n}", "web", (Quoted("T."),))
             for n in range(10)]
        )  # fmt: skip

    def counted(value):
        threads.append(threading.get_ident())
        return encode(value)

    source.search = search
    monkeypatch.setattr(many, "encode", counted)
    queries = [f"q{n}" for n in range(10)]
    asked = {"queries": queries, "max_results": 100}
    found = await ask(call, source, **asked, max_tokens=1000)
    assert 0 < len(found["results"]) < 50
    assert found["truncated"]
    assert 2 < len(threads) < 10
    assert threading.get_ident() not in threads
    whole = await ask(call, source, **asked)
    ids = [result["id"] for result in whole["results"]]
    assert ids[: len(found["results"])] == [result["id"] for result in found["results"]]
    assert "truncated" not in whole
    threads.clear()
    with pytest.raises(Fault, match="Raise it"):
        await ask(call, source, **asked, max_tokens=100)
    assert 2 < len(threads) < 10
