"""SearXNG's search API (https://docs.searxng.org/dev/search_api.html): `/searxng/search`.

Values are checked as SearXNG checks them, and unknown parameters are ignored as there. What a known
parameter asks for and the tools do not do is in `notes` of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlparse

from fastapi import FastAPI, Request
from msgspec import UNSET, Struct, UnsetType

from searchbus_bus.tasks import all_of
from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.coverage import SourceCoverage

from ..http.answer import PlainAnswer
from ..http.faults import SEARXNG, HttpRefusedError
from .calls import HttpCalls, parameters, plain_app
from .web_tools import (
    NEWS,
    RESULT,
    SEARCH,
    TOOLSET,
    CallWebTool,
    FoundPage,
    WebResults,
    answer,
    search_web,
)

PAGE_SIZE = 10
_MOST = {"general": 25, "news": 20}
"""Results that a tool gives at most; pages after the first share what is left of them."""
_MOST_ABSENT = 10
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
CATEGORIES = {"general": SEARCH, "news": NEWS}
"""Category → the tool of the toolset web that answers it."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-zA-Z]{2})?")
_ANY_LANGUAGE = ("", "all", "auto")
_TIME_RANGES = {"": "", "None": "", "day": "d", "week": "w", "month": "m", "year": "y"}
_MAX_DIGITS = 9
_MOST_NAMES = 10
_METHODS = ["GET", "HEAD", "POST"]
_FORM = "application/x-www-form-urlencoded"


def searxng_app(calls: HttpCalls) -> FastAPI:
    """The application of the interface; a POST has its parameters in a form or in the address."""
    app = plain_app(calls, SEARXNG)

    @app.api_route("/searxng", methods=_METHODS)
    @app.api_route("/searxng/", methods=_METHODS)
    @app.api_route("/searxng/search", methods=_METHODS)
    @app.api_route("/searxng/search/", methods=_METHODS)
    async def search_page(request: Request) -> PlainAnswer:
        received = await calls.admit(request.scope)
        form = parameters(request.scope["query_string"])
        if request.method == "POST":
            if received.head.content_type.partition(";")[0].strip().lower() not in ("", _FORM):
                message = f"Send the parameters as a form: Content-Type: {_FORM}"
                raise HttpRefusedError(415, message)
            form |= parameters(await calls.body(received, request.receive))

        async def work(call: CallWebTool) -> PlainAnswer:
            found = await search(call, read_search(form))
            return PlainAnswer(encode(found), headers=RESULT)

        return await answer(calls, received, request, work)

    return app


class SearxngResult(Struct, kw_only=True):
    """One result. `engines`, `positions`: providers that have it, else toolset and place."""

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


class SearxngAnswer(Struct, kw_only=True):
    """Answer of a search.

    Args:
        number_of_results: 0, as SearXNG has it where engines give no number.
        untrusted, notes: additions to SearXNG's answer; text of strangers is marked, and what was
            not done as asked is named.
    """

    query: str
    number_of_results: int = 0
    results: list[SearxngResult]
    answers: tuple[()] = ()
    corrections: tuple[()] = ()
    infoboxes: tuple[()] = ()
    suggestions: tuple[()] = ()
    unresponsive_engines: list[tuple[str, str]]
    untrusted: bool = True
    notes: list[str] | UnsetType = UNSET


class SearxngSearch(Struct, frozen=True, kw_only=True):
    """One search.

    Args:
        time_range: `d`, `w`, `m`, `y`, or empty.
        engines: names that the request asks for; all providers answer, whichever it names.
        notes: what is not done as asked.
    """

    query: str
    page: int = 1
    categories: tuple[str, ...] = ("general",)
    time_range: str = ""
    engines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def search(call: CallWebTool, request: SearxngSearch) -> SearxngAnswer:
    """Answer a search; raises Fault where it failed otherwise than by its engines."""
    parts = await all_of(*(_category(call, request, category) for category in request.categories))
    unique: dict[str, SearxngResult] = {}
    for found_results, _ in parts:
        for result in found_results:
            unique.setdefault(result.url, result)
    results = list(unique.values())
    if len(parts) > 1:
        results.sort(key=lambda result: -result.score)
    founds = [found for _, found in parts]
    notes = [*request.notes, *dict.fromkeys(note for found in founds for note in found.notes)]
    return SearxngAnswer(
        query=request.query,
        results=results,
        unresponsive_engines=_unresponsive(founds, request.engines),
        notes=notes or UNSET,
    )


async def _category(
    call: CallWebTool, request: SearxngSearch, category: str
) -> tuple[list[SearxngResult], WebResults]:
    """The results of one category on the page, and what the tool said."""
    try:
        rows, found = await _page(call, request, category)
    except Fault as fault:
        if fault.code not in _OF_ENGINES:
            raise
        failed = SourceCoverage.of_failure(TOOLSET, fault.failure)
        return [], WebResults(notes=[fault.failure.message], coverage=[failed])
    results = [_result(row, position, category) for position, row in enumerate(rows, 1)]
    return results, found


async def _page(
    call: CallWebTool, request: SearxngSearch, category: str
) -> tuple[list[FoundPage], WebResults]:
    """The rows of a page. Later pages leave out what the first showed: a search for more results
    fuses longer lists, in which others may come first."""

    async def ask(count: int) -> WebResults:
        arguments: dict[str, Any] = {"query": request.query, "maxResults": count}
        if request.time_range:
            arguments["timeRange"] = request.time_range
        return await search_web(call, CATEGORIES[category], arguments)

    if request.page == 1:
        found = await ask(PAGE_SIZE)
        return found.results, found
    first, found = await all_of(ask(PAGE_SIZE), ask(_MOST[category]))
    shown = {row.url for row in first.results}
    rest = [row for row in found.results if row.url not in shown]
    start = (request.page - 2) * PAGE_SIZE
    return rest[start : start + PAGE_SIZE], found


def _result(row: FoundPage, position: int, category: str) -> SearxngResult:
    positions = row.ranked.positions if row.ranked is not None else {TOOLSET: position}
    providers = sorted(positions, key=lambda name: positions[name])
    engines = [_engine(name) for name in providers]
    return SearxngResult(
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


def _unresponsive(founds: Sequence[WebResults], wanted: Sequence[str]) -> list[tuple[str, str]]:
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


def read_search(form: Mapping[str, str]) -> SearxngSearch:
    """The search that is asked; raises Fault: forbidden (another format), invalid_argument."""
    if form.get("format", "html") != "json":
        raise Fault(ErrorCode.FORBIDDEN, "Only format=json is allowed. Send it.")
    if not form.get("q"):
        raise Fault(ErrorCode.INVALID_ARGUMENT, "No query")
    categories, unknown = _categories(form)
    notes = []
    if unknown:
        named = ", ".join(name[:40] for name in unknown[:_MOST_NAMES])
        notes.append(f"No such categories here, ignored: {named}.")
    language = form.get("language", "")
    if language not in _ANY_LANGUAGE:
        if not _LANGUAGE.fullmatch(language):
            raise _invalid("language", language)
        notes.append(f"language={language} is not applied: results are of any language.")
    safesearch = form.get("safesearch", "0")
    if safesearch not in ("0", "1", "2"):
        raise _invalid("safesearch", safesearch)
    if safesearch != "0":
        notes.append(f"safesearch={safesearch} is not applied: each provider has its own default.")
    engines = tuple(_split(form.get("engines", "")))
    if engines:
        notes.append("engines is not applied: all providers answer.")
    time_range = _TIME_RANGES.get(form.get("time_range", ""))
    if time_range is None:
        raise _invalid("time_range", form["time_range"])
    return SearxngSearch(
        query=form["q"],
        page=_page_number(form.get("pageno", "1")),
        categories=categories,
        time_range=time_range,
        engines=engines,
        notes=tuple(notes),
    )


def _categories(form: Mapping[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """Those that there are, general where there is none; and those that are not known."""
    wanted = list(dict.fromkeys(_split(form.get("categories", ""))))
    known = tuple(name for name in wanted if name in CATEGORIES)
    return known or ("general",), [name for name in wanted if name not in CATEGORIES]


def _page_number(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= _MAX_DIGITS) or int(given) < 1:
        raise _invalid("pageno", given)
    return int(given)


def _split(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _invalid(name: str, value: str) -> Fault:
    """SearXNG's own words."""
    what = f'Invalid value "{value[:80]}" for parameter {name}' if value else f"Empty {name}"
    return Fault(ErrorCode.INVALID_ARGUMENT, what)
