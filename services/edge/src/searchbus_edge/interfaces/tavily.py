"""Tavily's API: `/tavily/search` and `/tavily/extract`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from msgspec import UNSET, Struct, UnsetType
from opentelemetry import trace

from searchbus_contracts import Fault, encode
from searchbus_contracts.visible import marked, unmarked
from searchbus_passages import terms

from ..composites.passages import cut, distinct
from ..http.answer import PlainAnswer
from ..http.body import UNREADABLE
from ..http.faults import TAVILY
from ..http.head import Received, parse_head
from .calls import HttpCalls, plain_app, read_arguments
from .tavily_requests import TavilySearch, plan_search, read_extract, read_search
from .web_tools import RESULT, CallWebTool, FoundPage, ReadPage, answer, read_pages, search_web

SEARCH_TIME_S = 55.0
"""Clients wait for a minute."""
MAX_CHUNK_CHARS = 500
_BETWEEN = " [...] "
_RANKED = 8
"""Times as many are compared as are asked for: comparing takes the square of their number."""


class _Keyed(Struct, frozen=True):
    api_key: str = ""


_keyed = msgspec.json.Decoder(_Keyed)


def tavily_app(calls: HttpCalls, *, clock: Callable[[], float] = time.time) -> FastAPI:
    """The application of the interface; `clock` gives seconds of the epoch."""
    app = plain_app(calls, TAVILY)

    async def serve(
        request: Request, ask: Callable[..., Awaitable[Struct]], *given: date
    ) -> PlainAnswer:
        received, body = await _admit(calls, request)

        async def work(call: CallWebTool) -> PlainAnswer:
            return PlainAnswer(encode(await ask(call, body, *given)), headers=RESULT)

        return await answer(calls, received, request, work)

    @app.post("/tavily/search")
    @app.post("/tavily/search/")
    async def search_page(request: Request) -> PlainAnswer:
        return await serve(request, search, datetime.fromtimestamp(clock(), UTC).date())

    @app.post("/tavily/extract")
    @app.post("/tavily/extract/")
    async def extract_page(request: Request) -> PlainAnswer:
        return await serve(request, extract)

    return app


async def _admit(calls: HttpCalls, request: Request) -> tuple[Received, dict[str, Any]]:
    """The caller and the body. The key may be in the body (`api_key`), where a stranger's values
    are not made."""
    scope, head = request.scope, parse_head(request.scope["headers"])
    if head.authorization:
        received = await calls.admit(scope)
        return received, read_arguments(await calls.json(received, request.receive))
    body = await calls.json_of_stranger(head, request.receive)
    if key := _key_in(body):
        credential = (b"authorization", f"Bearer {key}".encode("latin-1", "replace"))
        scope = {**scope, "headers": [*scope["headers"], credential]}
    return await calls.admit(scope), read_arguments(body)


def _key_in(body: bytes) -> str:
    """The key in a body; empty where there is none."""
    try:
        return _keyed.decode(body).api_key
    except UNREADABLE:
        return ""


class Usage(Struct):
    """Nothing is counted in credits."""

    credits: int = 0


class TavilyResult(Struct):
    """One result; `raw_content` is None where it was not asked for or could not be read."""

    url: str
    title: str
    content: str
    score: float
    raw_content: str | None = None
    published_date: str | UnsetType = UNSET


class SearchAnswer(Struct):
    """Answer of /search.

    Args:
        untrusted, notes: additions to Tavily's answer; text of strangers is marked, and what was
            not done as asked is named.
    """

    query: str
    results: list[TavilyResult]
    response_time: float
    request_id: str
    answer: None = None
    follow_up_questions: None = None
    images: tuple[()] = ()
    usage: Usage | UnsetType = UNSET
    untrusted: bool = True
    notes: list[str] | UnsetType = UNSET


class ExtractedPages(Struct):
    """A page that was read."""

    url: str
    raw_content: str
    title: None = None
    images: tuple[()] = ()


class NotExtracted(Struct):
    """A page that was not."""

    url: str
    error: str


class ExtractAnswer(Struct):
    """Answer of /extract; see SearchAnswer for the additions."""

    results: list[ExtractedPages]
    failed_results: list[NotExtracted]
    response_time: float
    request_id: str
    usage: Usage | UnsetType = UNSET
    untrusted: bool = True
    notes: list[str] | UnsetType = UNSET


async def search(call: CallWebTool, body: Mapping[str, Any], today: date) -> SearchAnswer:
    """Answer POST /search on a day of UTC; raises Fault (invalid request, or it failed)."""
    started_s = time.perf_counter()
    request, notes = read_search(body)
    plan = plan_search(request, today)
    found = await search_web(call, plan.tool, plan.arguments)
    rows, of_period = plan.period.keep(found.results)
    rows = rows[: request.max_results]
    notes += [*plan.notes, *found.notes, *of_period]
    results = [_result(row, position) for position, row in enumerate(rows, 1)]
    if request.reads_pages and rows:
        left_s = max(1.0, SEARCH_TIME_S - (time.perf_counter() - started_s))
        notes += await _add_pages(call, request, results, left_s)
    return SearchAnswer(
        request.query,
        results,
        response_time=_since(started_s),
        request_id=_request_id(),
        usage=Usage() if request.include_usage else UNSET,
        notes=notes or UNSET,
    )


async def extract(call: CallWebTool, body: Mapping[str, Any]) -> ExtractAnswer:
    """Answer POST /extract; raises Fault (invalid request, or no page to ask for)."""
    started_s = time.perf_counter()
    request, notes = read_extract(body)
    pages = await read_pages(call, request.url_list, timeout_s=request.timeout_s)
    results, failed = [], []
    for page in pages:
        if page.status != "ok":
            failed.append(NotExtracted(page.url, _why(page)))
            continue
        text = page.content
        if request.query:
            text = await _chunks(request.query, page, request.chunks_per_source)
        results.append(ExtractedPages(page.url, text))
    return ExtractAnswer(
        results,
        failed,
        response_time=_since(started_s),
        request_id=_request_id(),
        usage=Usage() if request.include_usage else UNSET,
        notes=notes or UNSET,
    )


async def _add_pages(
    call: CallWebTool, request: TavilySearch, results: Sequence[TavilyResult], timeout_s: float
) -> list[str]:
    """Put the text of the pages into the results; notes on those that could not be read."""
    try:
        pages = await read_pages(call, [result.url for result in results], timeout_s=timeout_s)
    except Fault as fault:
        # The results themselves are worth more than a failure.
        return [f"The pages could not be read: {fault.failure.message}"]
    notes = []
    for result, page in zip(results, pages, strict=True):
        if page.status != "ok":
            notes.append(f"{result.url} could not be read: {_why(page)}")
            continue
        if request.include_raw_content:
            result.raw_content = page.content
        if request.search_depth == "advanced":
            text = await _chunks(request.query, page, request.chunks_per_source)
            result.content = text or result.content
    return notes


async def _chunks(query: str, page: ReadPage, most: int) -> str:
    # Off the loop: comparing the words of a long page takes tens of milliseconds.
    return await asyncio.to_thread(chunks_of_page, query, page, most=most)


def _result(row: FoundPage, position: int) -> TavilyResult:
    return TavilyResult(
        row.url,
        row.title,
        row.snippet,
        score=row.ranked.score if row.ranked is not None else round(1 / position, 4),
        published_date=row.published_at or UNSET,
    )


def _why(page: ReadPage) -> str:
    return f"{page.status}: {page.message}" if page.message else page.status


def _since(started_s: float) -> float:
    return round(time.perf_counter() - started_s, 2)


def _request_id() -> str:
    """The trace of the request as a UUID, so that an operator finds it."""
    trace_id = trace.get_current_span().get_span_context().trace_id
    return str(uuid.UUID(int=trace_id) if trace_id else uuid.uuid4())


def chunks(query: str, text: str, *, most: int) -> list[str]:
    """The chunks of a text, best first; its first one where none has a word of the query."""
    wanted = set(terms(query))
    parts = [part.strip()[:MAX_CHUNK_CHARS] for part in cut(text, MAX_CHUNK_CHARS)]
    hits = {part: len(wanted & set(terms(part))) for part in parts}
    ranked = sorted((part for part in hits if hits[part]), key=lambda part: -hits[part])
    return distinct(ranked[: most * _RANKED])[:most] or parts[:1]


def chunks_of_page(query: str, page: ReadPage, *, most: int) -> str:
    """The chunks of a page's content between its marks, joined by ` [...] `; empty without one."""
    mark, text = unmarked(page.content)
    kept = chunks(query, text, most=most)
    return marked(_BETWEEN.join(kept), mark) if kept else ""
