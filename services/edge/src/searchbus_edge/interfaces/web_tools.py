"""The tools of the toolset web, for an interface that speaks another API.

`answer` gives its work a function that takes each call through the policies of the edge, for
`search_web` and `read_pages`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from fastapi import Request
from msgspec import Struct, field

from searchbus_bus.tasks import all_of
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.coverage import COVERAGE, RANKING, Ranked, SourceCoverage
from searchbus_contracts.queries import MAX_TOKENS

from ..http.answer import INERT, UNTRUSTED, DisconnectWatch, PlainAnswer
from ..http.faults import HttpError
from ..http.head import Headers, Received
from ..tools.reply import Reply
from .calls import HttpCalls, failure_of

TOOLSET = "web"
SEARCH, NEWS = "web_search_advanced", "web_search_news"
EXTRACT = "web_extract_content"
_URLS_OF_ONE_CALL = 5
RESULT: Headers = (*UNTRUSTED, *INERT)
"""Headers of every result."""
T = TypeVar("T")


class CallWebTool(Protocol):
    """Calls one tool of the toolset web for the caller of an HTTP request."""

    def __call__(
        self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """The tool's reply within `timeout_s` or its own limit; raises Fault for every failure."""


class FoundPage(Struct, rename="camel"):
    """One result of a search; `ranked` is None from a service that does not say it."""

    title: str
    url: str
    snippet: str = ""
    published_at: str | None = None
    ranked: Ranked | None = None


class WebResults(Struct):
    """The results, best first; notes for people on what was not done; what each provider gave."""

    results: list[FoundPage] = []
    notes: list[str] = []
    coverage: list[SourceCoverage] = []


class ReadPage(Struct):
    """A web page.

    Args:
        content: Markdown between marks of untrusted text; empty unless `status` is ok.
        status: ok or why there is no content, see the web service's README.
        cursor: the URL that stands for the rest of a long page.
    """

    url: str
    status: str
    content: str = ""
    message: str | None = None
    start: int = 0
    end: int = 0
    chars: int = 0
    truncated: bool = False
    cursor: str | None = None


class _Pages(Struct):
    items: list[ReadPage] = field(default_factory=list)


async def answer(
    calls: HttpCalls,
    received: Received,
    request: Request,
    work: Callable[[CallWebTool], Awaitable[PlainAnswer]],
) -> PlainAnswer:
    """The answer by calls of web tools in one span, until the client leaves; raises Fault,
    HttpError."""

    async def call(
        tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None
    ) -> Reply:
        view = calls.toolset(TOOLSET)
        if view is None:
            raise Fault(ErrorCode.UNAVAILABLE, "No web service is running. Try again later.")
        served = await calls.call(received, view, tool, arguments, timeout_s=timeout_s, inside=True)
        return served.reply

    failure: Fault | HttpError | None = None
    found = PlainAnswer(status=503)  # for a client that has left
    with (
        DisconnectWatch(request.receive, None),
        calls.message(received, "tools/call") as outcome,
    ):
        try:
            found = await work(call)
        except Exception as error:
            outcome.error = "tool_error"
            failure = failure_of(error, "tools/call")
    if failure is not None:
        raise failure
    return found


async def search_web(call: CallWebTool, tool: str, arguments: dict[str, Any]) -> WebResults:
    """Search with one of the three searches; raises Fault."""
    reply = await call(tool, arguments)
    found = _decode(reply, WebResults)
    meta = reply.meta or {}
    ranking = msgspec.convert(meta.get(RANKING, []), list[Ranked])
    if len(ranking) == len(found.results):
        for row, ranked in zip(found.results, ranking, strict=True):
            row.ranked = ranked
    if COVERAGE in meta:
        found.coverage = msgspec.convert(meta[COVERAGE], list[SourceCoverage])
    return found


async def read_pages(
    call: CallWebTool,
    urls: Sequence[str],
    *,
    max_tokens: int = MAX_TOKENS,
    timeout_s: float | None = None,
) -> list[ReadPage]:
    """The pages, in the order of the URLs; five are one call. Raises Fault where a call failed; for
    a page that cannot be read, its status says why."""
    starts = range(0, len(urls), _URLS_OF_ONE_CALL)
    parts = [urls[start : start + _URLS_OF_ONE_CALL] for start in starts]
    replies = await all_of(
        *(
            call(EXTRACT, {"urls": list(part), "max_tokens": max_tokens}, timeout_s=timeout_s)
            for part in parts
        )
    )
    return [page for reply in replies for page in _decode(reply, _Pages).items]


def _decode(reply: Reply, kind: type[T]) -> T:
    if reply.structured is None:
        raise Fault(ErrorCode.UPSTREAM_FAILED, "The web service gave no answer. Try again shortly.")
    return msgspec.json.decode(reply.structured, type=kind)
