"""Answers of Tavily's API: `/tavily/search` and `/tavily/extract`.

answer = await search(call, body, today)        # a SearchAnswer, to be encoded as JSON
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from opentelemetry import trace

from searchbus_contracts import ErrorCode, Fault

from .chunks import chunks_of_page
from .tavily_requests import Search, plan_search, read_extract, read_search
from .web_tools import CallTool, Page, Row, read_pages
from .web_tools import search as search_web

__all__ = ["ExtractAnswer", "SearchAnswer", "error_body", "extract", "search", "status_of"]

SEARCH_TIME_S = 55.0
"""Clients wait for a minute."""
_STATUS: dict[str, int] = {
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.INVALID_QUERY: 400,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.QUOTA_EXHAUSTED: 432,
    ErrorCode.INTERNAL: 500,
    ErrorCode.UPSTREAM_FAILED: 502,
    ErrorCode.DEADLINE_EXCEEDED: 504,
}


class Usage(Struct):
    """Nothing is counted in credits."""

    credits: int = 0


class Result(Struct):
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
    results: list[Result]
    response_time: float
    request_id: str
    answer: None = None
    follow_up_questions: None = None
    images: tuple[()] = ()
    usage: Usage | UnsetType = UNSET
    untrusted: bool = True
    notes: list[str] | UnsetType = UNSET


class Extracted(Struct):
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

    results: list[Extracted]
    failed_results: list[NotExtracted]
    response_time: float
    request_id: str
    usage: Usage | UnsetType = UNSET
    untrusted: bool = True
    notes: list[str] | UnsetType = UNSET


async def search(call: CallTool, body: Mapping[str, Any], today: date) -> SearchAnswer:
    """Answer POST /search.

    Args:
        body: the decoded JSON object.
        today: in UTC.

    Raises:
        Fault: the request is not valid, or the search failed.
    """
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


async def extract(call: CallTool, body: Mapping[str, Any]) -> ExtractAnswer:
    """Answer POST /extract.

    Raises:
        Fault: the request is not valid, or no page could be asked for.
    """
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
        results.append(Extracted(page.url, text))
    return ExtractAnswer(
        results,
        failed,
        response_time=_since(started_s),
        request_id=_request_id(),
        usage=Usage() if request.include_usage else UNSET,
        notes=notes or UNSET,
    )


def status_of(fault: Fault) -> int:
    """The HTTP status that Tavily's clients expect for a failure."""
    return _STATUS.get(fault.code, 503)


def error_body(message: str) -> dict[str, Any]:
    """An error in the shape of Tavily's."""
    return {"detail": {"error": message}}


async def _add_pages(
    call: CallTool, request: Search, results: Sequence[Result], timeout_s: float
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


async def _chunks(query: str, page: Page, most: int) -> str:
    # Off the loop: comparing the words of a long page takes tens of milliseconds.
    return await asyncio.to_thread(chunks_of_page, query, page, most=most)


def _result(row: Row, position: int) -> Result:
    return Result(
        row.url,
        row.title,
        row.snippet,
        score=row.ranked.score if row.ranked is not None else round(1 / position, 4),
        published_date=row.published_at or UNSET,
    )


def _why(page: Page) -> str:
    return f"{page.status}: {page.message}" if page.message else page.status


def _since(started_s: float) -> float:
    return round(time.perf_counter() - started_s, 2)


def _request_id() -> str:
    """The trace of the request as a UUID, so that an operator finds it."""
    trace_id = trace.get_current_span().get_span_context().trace_id
    return str(uuid.UUID(int=trace_id) if trace_id else uuid.uuid4())
