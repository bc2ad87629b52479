"""How well the tools that searchbus ships are found, with the real model.

shipped_queries.jsonl was written before the ranking was tuned, shipped_queries_held_out.jsonl before
the tools' examples were. A line has a query and its right tools, none where no tool serves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from searchbus_bus import Toolset, declared_tools
from searchbus_contracts import Actor, Catalog, ToolDescriptor
from searchbus_ddg.tools import DdgTools
from searchbus_edge.composites.connector import Connector
from searchbus_edge.search.lazy import LAZY_TOOLS
from searchbus_retrieval.tools import FomcTools
from searchbus_toolindex.entries import entries_of
from searchbus_toolindex.finder import Finder
from searchbus_toolindex.index import Index
from searchbus_web.tools import WebTools

from .conftest import shared_embedder

TOOLSETS: tuple[type[Toolset], ...] = (Connector, DdgTools, FomcTools, WebTools)
EVERY_ROLE = Actor(subject="every-role", roles=("*",))


class Query(msgspec.Struct):
    query: str
    right: tuple[str, ...]


def queries(name: str) -> list[Query]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [msgspec.json.decode(line, type=Query) for line in text.splitlines()]


def shipped_tools() -> Iterable[ToolDescriptor]:
    for toolset in TOOLSETS:
        yield from declared_tools(toolset)
    yield from LAZY_TOOLS


@pytest.fixture
async def finder() -> Finder:
    embedder = await shared_embedder()
    entries = list(entries_of(Catalog(service="shipped", tools=tuple(shipped_tools()))))
    texts = [text for entry in entries for text in (entry.text, *entry.examples)]
    vectors = dict(zip(texts, await embedder.embed_short(texts, urgent=False), strict=True))
    index = Index()
    index.replace("shipped", entries, lambda e: [vectors[t] for t in (e.text, *e.examples)])
    return Finder(index, embedder)


@pytest.mark.parametrize(
    ("name", "least_right", "most_returned", "least_empty"),
    [
        ("shipped_queries.jsonl", 24, 3.5, 17),
        ("shipped_queries_held_out.jsonl", 24, 5.0, 16),
    ],
)
async def test_right_tool_comes_first_and_foreign_tasks_find_nothing(
    finder, name, least_right, most_returned, least_empty
):
    """Of 30 queries in scope and 20 out of scope."""
    right, empty, returned = [], [], 0
    for query in queries(name):
        reply = await finder.find(query.query, actor=EVERY_ROLE, limit=10)
        names = [f"{found.toolset}.{found.name}" for found in reply.found]
        if not query.right:
            empty.append(not names)
            continue
        right.append(bool(names) and names[0] in query.right)
        returned += len(names)
    assert (len(right), len(empty)) == (30, 20)
    assert sum(right) >= least_right
    assert returned / len(right) <= most_returned
    assert sum(empty) >= least_empty
