"""The toolset `engines`: web_find and engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from searchbus_bus import Bus, Call, Toolset, WithMeta
from searchbus_contracts import ErrorCode, Fault, ToolDescriptor
from searchbus_contracts.codec import doc
from searchbus_contracts.coverage import COVERAGE, SourceCoverage
from searchbus_contracts.engines import ENGINES

from ..domains import read_domains
from ..progress import reporting
from ..providers import PROVIDERS
from ..providers.base import Provider, Query, Result
from ..tools import (
    ExcludeDomains,
    IncludeDomains,
    QueryText,
    TimeText,
    query_text,
    read_time_range,
    web_tool,
)
from .search import MAX_CURSOR_CHARS, ROWS, EngineSearch, states

_MAX_BOOSTS = 20


class Boost(Struct, forbid_unknown_fields=True):
    """A domain whose results count more or less."""

    domain: Annotated[str, doc("Such as example.org or example.org/path")]
    factor: Annotated[float, doc("Above 1 moves its results up, below 1 down", ge=0.1, le=10)]


class WebFind(Struct, forbid_unknown_fields=True, rename="camel"):
    """Arguments of web_find."""

    query: QueryText
    max_results: Annotated[int, doc("Number of results (1-25)", ge=1, le=25)] = 10
    topic: Annotated[Literal["general", "news"], doc("general: web pages; news: news only")] = (
        "general"
    )
    region: (
        Annotated[
            str,
            doc(
                "Country of the results, two letters of ISO 3166, e.g. de", pattern="^[A-Za-z]{2}$"
            ),
        ]
        | UnsetType
    ) = UNSET
    language: (
        Annotated[
            str,
            doc("Language of the results, letters of ISO 639, e.g. fr", pattern="^[A-Za-z]{2,3}$"),
        ]
        | UnsetType
    ) = UNSET
    safe_search: Annotated[
        Literal["off", "moderate", "strict"] | UnsetType,
        doc("strict: only engines that have it are asked"),
    ] = UNSET
    time_range: TimeText = ""
    engines: (
        Annotated[
            list[str],
            doc("Names of the engines to ask, as the tool engines lists them", max_length=10),
        ]
        | UnsetType
    ) = UNSET
    include_domains: IncludeDomains | UnsetType = UNSET
    exclude_domains: ExcludeDomains | UnsetType = UNSET
    boost_domains: (
        Annotated[list[Boost], doc("Domains that count more or less", max_length=_MAX_BOOSTS)]
        | UnsetType
    ) = UNSET
    cursor: (
        Annotated[
            str,
            doc(
                "The cursor of the answer before, for the next results; repeat the other arguments",
                max_length=MAX_CURSOR_CHARS,
            ),
        ]
        | UnsetType
    ) = UNSET


class FoundPage(Struct, omit_defaults=True, rename="camel"):
    """One result."""

    title: str
    url: str
    snippet: str
    engines: Annotated[dict[str, int], doc("Engine → its rank of the page")]
    published_at: Annotated[str | UnsetType, doc("ISO 8601")] = UNSET
    source: Annotated[str | UnsetType, doc("Registrable domain")] = UNSET


class WebFindResponse(Struct, omit_defaults=True):
    """Answer of web_find."""

    query: str
    results: list[FoundPage]
    coverage: Annotated[list[SourceCoverage], doc("What each engine gave, or why it gave nothing")]
    cursor: Annotated[str | UnsetType, doc("For the next results; absent at the end")] = UNSET
    notes: Annotated[list[str], doc("What could not be done as asked")] = []


class ListEngines(Struct, forbid_unknown_fields=True):
    """Arguments of engines: none."""


class EngineEntry(Struct, omit_defaults=True, rename="camel"):
    """One engine."""

    name: str
    title: str
    kind: Annotated[
        str, doc("keyed: an API with a key; api: an open interface; page: a result page")
    ]
    state: Annotated[
        str,
        doc(
            "ready; unused: no request yet; failed: the last request; cooling: "
            "refused, not asked for a while; off: not chosen by the operator; unavailable: no "
            "worker can ask it"
        ),
    ]
    filters: list[str]
    topic: str
    max_pages: int
    terms: Annotated[str | UnsetType, doc("What its operator asks of programs")] = UNSET
    last_outcome: Annotated[str | UnsetType, doc("What its last request came to")] = UNSET
    retry_after_ms: Annotated[int | UnsetType, doc("While it is cooling")] = UNSET


class EnginesResponse(Struct):
    """Answer of engines."""

    engines: list[EngineEntry]


class EngineTools(Toolset, name="engines"):
    """Web search with chosen engines, and the list of them.

    Args:
        keyed: the providers with a key or an instance of their own that are configured.
        on: the engines without a key that are used unless a search names others.
        costly: whether a search is paid for.
    """

    def __init__(
        self,
        bus: Bus,
        search: EngineSearch,
        *,
        keyed: Sequence[Provider],
        on: Sequence[str],
        costly: bool,
    ) -> None:
        self._bus = bus
        self._search = search
        self._keyed = {provider.name: provider for provider in keyed}
        self._on = frozenset(on)
        self._costly = costly

    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        """Mark the search as costly where a provider is paid for."""
        costly = self._costly and descriptor.name == "web_find"
        return msgspec.structs.replace(descriptor, costly=costly)

    @web_tool(
        title="Search the web by region, language and engine",
        examples=(
            "web results in French for Switzerland",
            "the next page of the results of a web search",
            "search the web with strict safe search",
        ),
        keywords=("region", "language", "safe search", "paging", "Mojeek", "Marginalia"),
        in_prompts=False,
    )
    async def web_find(self, call: Call, arguments: WebFind) -> WithMeta[WebFindResponse]:
        """Web search with region, language, safe search, domain boosts and further pages, over
        chosen engines.
        """
        query = Query(
            query_text(arguments.query),
            ROWS,
            time=read_time_range(arguments.time_range),
            topic=arguments.topic,
            include_domains=read_domains("includeDomains", arguments.include_domains),
            exclude_domains=read_domains("excludeDomains", arguments.exclude_domains),
            region=(arguments.region or "").lower(),
            language=(arguments.language or "").lower(),
            safe=arguments.safe_search or "",
        )
        engines = tuple(dict.fromkeys(arguments.engines or ()))
        page = await self._search.find(
            query,
            limit=arguments.max_results,
            boosts=_boosts(arguments.boost_domains or []),
            engines=engines,
            cursor=arguments.cursor or "",
            actor=call.actor,
            timeout_s=call.remaining_s,
            on_done=reporting(call, self._search.count(engines), "searched"),
        )
        coverage = [*page.found.coverage, *page.left_out]
        answer = WebFindResponse(
            arguments.query,
            [_shown(result) for result in page.found.results],
            coverage,
            page.cursor or UNSET,
            [*page.found.notes, *page.notes],
        )
        return WithMeta(answer, {COVERAGE: msgspec.to_builtins(coverage)})

    @web_tool(
        title="List the web search engines",
        examples=("which search engines can be used, and which of them work now",),
        keywords=("engines", "providers"),
        in_prompts=False,
        untrusted=False,
    )
    async def engines(self, call: Call, arguments: ListEngines) -> EnginesResponse:
        """Which web search engines there are, what each can do, and whether it works now."""
        found = await states(self._bus, call.actor, call.remaining_s)
        entries = [
            EngineEntry(
                name=name,
                title=kind.title,
                kind="keyed",
                state="off" if provider is None else _keyed_state(provider),
                filters=list(kind.filters),
                topic="any",
                max_pages=1,
            )
            for name, kind in PROVIDERS.items()
            if name not in ENGINES
            for provider in [self._keyed.get(name)]
        ]
        for name, facts in ENGINES.items():
            entry = EngineEntry(
                name=name,
                title=facts.title,
                kind=facts.kind,
                state="unavailable" if isinstance(found, Fault) else "unused",
                filters=list(facts.filters),
                topic=facts.topic,
                max_pages=facts.max_pages,
                terms=facts.terms,
            )
            state = None if isinstance(found, Fault) else found.get(name)
            if state is not None:
                entry.state = state.state
                entry.last_outcome = state.outcome or UNSET
                entry.retry_after_ms = state.retry_after_ms or UNSET
            if name not in self._on:
                entry.state = "off"
            entries.append(entry)
        return EnginesResponse(entries)


def _keyed_state(provider: Any) -> str:
    return "ready" if provider.usable else "cooling"


def _shown(result: Result) -> FoundPage:
    return FoundPage(
        title=result.title,
        url=result.url,
        snippet=result.snippet,
        engines=dict(result.ranked.positions) if result.ranked is not None else {},
        published_at=result.published_at or UNSET,
        source=result.source or UNSET,
    )


def _boosts(given: Sequence[Boost]) -> dict[str, float]:
    """Domain → factor; raises Fault."""
    found: dict[str, float] = {}
    for boost in given:
        (domain,) = read_domains("boostDomains", [boost.domain])
        if domain in found:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, f"boostDomains names {domain} twice. Leave one out."
            )
        found[domain] = boost.factor
    return found
