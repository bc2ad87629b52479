"""Answers of SearXNG's search API: `/searxng/search`.

answer = await search(call, read_search(form))      # to be encoded as JSON
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlparse

from msgspec import UNSET, Struct, UnsetType

from searchbus_bus.tasks import all_of
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.coverage import SourceCoverage

from .searxng_requests import CATEGORIES, Search
from .web_tools import TOOLSET, CallTool, Found, Row
from .web_tools import search as search_web

__all__ = ["PAGE_SIZE", "Answer", "search", "status_of"]

PAGE_SIZE = 10
_MOST = {"general": 25, "news": 20}
"""Results that a tool gives at most; pages after the first share what is left of them."""
_MOST_ABSENT = 10
_STATUS: dict[str, int] = {
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.INVALID_QUERY: 400,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.INTERNAL: 500,
}
_OF_ENGINES = frozenset(
    {
        ErrorCode.UPSTREAM_BLOCKED,
        ErrorCode.UPSTREAM_LIMITED,
        ErrorCode.UPSTREAM_FAILED,
        ErrorCode.QUOTA_EXHAUSTED,
        ErrorCode.DEADLINE_EXCEEDED,
    }
)
"""Failures of search engines, which SearXNG reports beside the results and not as an error."""
_REASONS: dict[str | None, str] = {
    ErrorCode.UPSTREAM_BLOCKED: "access denied",
    ErrorCode.UPSTREAM_LIMITED: "too many requests",
    ErrorCode.RATE_LIMITED: "too many requests",
    ErrorCode.QUOTA_EXHAUSTED: "quota exhausted",
    ErrorCode.DEADLINE_EXCEEDED: "timeout",
}


_ENGINES = {"ddg": "duckduckgo"}
"""Providers that SearXNG knows by another name."""


class Result(Struct, kw_only=True):
    """One result.

    Args:
        engines, positions: the providers that have it, and where; of a service that does not say
            it, the toolset and the place in the answer.
    """

    title: str
    url: str
    content: str
    publishedDate: str | None
    engine: str
    engines: list[str]
    positions: list[int]
    score: float
    category: str
    parsed_url: tuple[str, ...]
    template: str = "default.html"


class Answer(Struct, kw_only=True):
    """Answer of a search.

    Args:
        number_of_results: 0, as SearXNG has it where engines give no number.
        untrusted, notes: additions to SearXNG's answer; text of strangers is marked, and what was
            not done as asked is named.
    """

    query: str
    number_of_results: int = 0
    results: list[Result]
    answers: tuple[()] = ()
    corrections: tuple[()] = ()
    infoboxes: tuple[()] = ()
    suggestions: tuple[()] = ()
    unresponsive_engines: list[tuple[str, str]]
    untrusted: bool = True
    notes: list[str] | UnsetType = UNSET


async def search(call: CallTool, request: Search) -> Answer:
    """Answer a search.

    Raises:
        Fault: the search failed otherwise than by its engines.
    """
    parts = await all_of(*(_category(call, request, category) for category in request.categories))
    unique: dict[str, Result] = {}
    for found_results, _ in parts:
        for result in found_results:
            unique.setdefault(result.url, result)
    results = list(unique.values())
    if len(parts) > 1:
        results.sort(key=lambda result: -result.score)
    founds = [found for _, found in parts]
    notes = [*request.notes, *dict.fromkeys(note for found in founds for note in found.notes)]
    return Answer(
        query=request.query,
        results=results,
        unresponsive_engines=_unresponsive(founds, request.engines),
        notes=notes or UNSET,
    )


def status_of(fault: Fault) -> int:
    """The HTTP status of a failure."""
    return _STATUS.get(fault.code, 503)


async def _category(call: CallTool, request: Search, category: str) -> tuple[list[Result], Found]:
    """The results of one category on the page, and what the tool said."""
    try:
        rows, found = await _page(call, request, category)
    except Fault as fault:
        if fault.code not in _OF_ENGINES:
            raise
        failed = SourceCoverage.of_failure(TOOLSET, fault.failure)
        return [], Found(notes=[fault.failure.message], coverage=[failed])
    results = [_result(row, position, category) for position, row in enumerate(rows, 1)]
    return results, found


async def _page(call: CallTool, request: Search, category: str) -> tuple[list[Row], Found]:
    """The rows of a page. Later pages leave out what the first showed: a search for more results
    fuses longer lists, in which others may come first."""

    async def ask(count: int) -> Found:
        arguments: dict[str, Any] = {"query": request.query, "maxResults": count}
        if request.time_range:
            arguments["timeRange"] = request.time_range
        return await search_web(call, CATEGORIES[category], arguments, timeout_s=request.timeout_s)

    if request.page == 1:
        found = await ask(PAGE_SIZE)
        return found.results, found
    first, found = await all_of(ask(PAGE_SIZE), ask(_MOST[category]))
    shown = {row.url for row in first.results}
    rest = [row for row in found.results if row.url not in shown]
    start = (request.page - 2) * PAGE_SIZE
    return rest[start : start + PAGE_SIZE], found


def _result(row: Row, position: int, category: str) -> Result:
    positions = row.ranked.positions if row.ranked is not None else {TOOLSET: position}
    providers = sorted(positions, key=lambda name: positions[name])
    engines = [_engine(name) for name in providers]
    return Result(
        title=row.title,
        url=row.url,
        content=row.snippet,
        publishedDate=row.published_at,
        engine=engines[0] if engines else TOOLSET,
        engines=engines or [TOOLSET],
        positions=[positions[name] for name in providers] or [position],
        score=row.ranked.score if row.ranked is not None else round(1 / position, 4),
        category=category,
        parsed_url=_parsed(row.url),
    )


def _parsed(url: str) -> tuple[str, ...]:
    """The six parts of a URL; of what is none, all of it as the path."""
    try:
        return tuple(urlparse(url))
    except ValueError:
        return ("", "", url, "", "", "")


def _unresponsive(founds: Sequence[Found], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """Engines that did not answer, and those that are wanted and that there are not."""
    reasons = {_engine(part.source): _reason(part) for f in founds for part in f.coverage}
    failed = [(name, reason) for name, reason in sorted(reasons.items()) if reason]
    absent = [name[:40] for name in wanted if name not in reasons]
    return failed + [(name, "no such engine here") for name in absent[:_MOST_ABSENT]]


def _engine(provider: str) -> str:
    return _ENGINES.get(provider, provider)


def _reason(part: SourceCoverage) -> str:
    """Why an engine did not answer; empty where it did."""
    if part.state in ("answered", "empty"):
        return ""
    if part.state == "stale":
        return "fails now; its results are from before"
    return _REASONS.get(part.code) or part.message or part.state
