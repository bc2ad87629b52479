"""The catalogues and queries that the search for tools is measured and fitted on.

Two are public (../shared/data/tools), three are here: the tools that searchbus ships, those that an
office may have, and those of invented servers, which nothing is fitted on. Nonsense has no tool in any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from searchbus_bus import Toolset, declared_tools
from searchbus_contracts import Actor, Catalog, ToolDescriptor
from searchbus_ddg.tools import DdgTools
from searchbus_edge.composites.connector import Connector
from searchbus_edge.composites.many import Many
from searchbus_edge.plans.running import Plans
from searchbus_edge.search.lazy import own_tools
from searchbus_evaluation import entry_of, read_catalogue
from searchbus_retrieval.memory import MemoryTools
from searchbus_retrieval.tools import FomcTools
from searchbus_toolindex.embedding import Embeds
from searchbus_toolindex.entries import IndexEntry, descriptors_of
from searchbus_toolindex.entries import entry_of as indexed
from searchbus_toolindex.finder import IndexFinder
from searchbus_toolindex.index import Index
from searchbus_web.engines.tools import EngineTools
from searchbus_web.pages.tools import PageTools
from searchbus_web.tools import WebTools

HERE = Path(__file__).parent
SHIPPED = (
    "shipped_queries",
    "shipped_queries_held_out",
    "shipped_queries_third",
    "shipped_queries_fourth",
)
"""In the order in which they were written: before the ranking, the tools' first examples, the gate, and
after all of them. The gate is fitted on the first two."""
NONSENSE = ("nonsense_queries", "nonsense_queries_held_out")
"""Neither was seen by the fit (`fit_nonsense`); the second was written after the gate."""
EVERY_ROLE = Actor(subject="every-role", roles=("*",))
_TOOLSETS: tuple[type[Toolset], ...] = (Connector, DdgTools, FomcTools, WebTools)
_NEWER: tuple[type[Toolset], ...] = (EngineTools, MemoryTools, Many, PageTools, Plans)
NEWER = "shipped_queries_newer"
"""Queries for `_NEWER`, written without their descriptions in sight. They are searched among the
tools of all toolsets; the sets above are older than these toolsets, and measured without them."""


@dataclass(frozen=True)
class Case:
    """A query and the names of its right entries; none where no entry serves it."""

    query: str
    right: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ToolSet:
    """A catalogue and its queries."""

    name: str
    entries: tuple[IndexEntry, ...]
    cases: tuple[Case, ...]


class _Line(msgspec.Struct):
    query: str
    right: list[str]


def shipped_cases(name: str) -> list[Case]:
    """The queries of one of `SHIPPED`, or `NEWER`; right tools by `toolset.name`."""
    lines = (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    read = [msgspec.json.decode(line, type=_Line) for line in lines]
    return [Case(line.query, frozenset(line.right)) for line in read]


def shipped() -> ToolSet:
    """The tools that searchbus ships, with all their queries."""
    catalog = Catalog(service="shipped", tools=tuple(_shipped_tools()))
    cases = [case for name in SHIPPED for case in shipped_cases(name)]
    return ToolSet("shipped", tuple(map(indexed, descriptors_of(catalog))), tuple(cases))


def newer() -> ToolSet:
    """The tools of all toolsets, with the queries for the newer ones."""
    catalog = Catalog(service="shipped", tools=tuple(_shipped_tools(_TOOLSETS + _NEWER)))
    return ToolSet(NEWER, tuple(map(indexed, descriptors_of(catalog))), tuple(shipped_cases(NEWER)))


def read_sets(reference: Path) -> list[ToolSet]:
    """The shipped tools, the office, and the public sets."""
    folders = {
        "office": HERE / "office",
        "livemcpbench": reference / "data" / "tools" / "livemcpbench",
        "stabletoolbench": reference / "data" / "tools" / "stabletoolbench",
    }
    return [shipped(), *(_read(name, folder) for name, folder in folders.items())]


def held_out() -> ToolSet:
    """Tools of invented servers, with requests that they serve and others that none of them serves."""
    served = _read("servers", HERE / "servers")
    return replace(served, cases=(*served.cases, *nonsense("servers_foreign")))


def spoken() -> list[Case]:
    """Requests as people say them, for tools of LiveMCPBench; any right tool serves the request."""
    return shipped_cases("spoken_livemcpbench")


def nonsense(name: str = NONSENSE[0]) -> list[Case]:
    """Queries that no tool serves: one of `NONSENSE`, or `fit_nonsense` for the fit."""
    lines = (HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [Case(line) for line in lines]


async def finder_of(entries: Sequence[IndexEntry], embedder: Embeds) -> IndexFinder:
    """A search over these entries."""
    texts = list(dict.fromkeys(text for e in entries for text in e.embedded))
    made = await embedder.embed_short(texts, urgent=False)
    vectors = dict(zip(texts, made, strict=True))
    index = Index(embedder.model)
    index.replace("set", entries, lambda e: [vectors[t] for t in e.embedded])
    return IndexFinder(index, embedder)


def _read(name: str, folder: Path) -> ToolSet:
    tools, queries = read_catalogue(folder)
    cases = [Case(query.text, frozenset(query.relevant)) for query in queries]
    return ToolSet(name, tuple(entry_of(tool) for tool in tools), tuple(cases))


def _shipped_tools(toolsets: Sequence[type[Toolset]] = _TOOLSETS) -> Iterable[ToolDescriptor]:
    for toolset in toolsets:
        yield from declared_tools(toolset)
    yield from own_tools()
