"""The tools of the toolset web, for an interface that speaks another API.

    found = await search(call, "web_search_news", {"query": "whales"})
    pages = await read_pages(call, ["https://example.org/"])

An interface calls no service by itself: `call` takes each call through the policies of the edge.
"""

from __future__ import annotations

import math
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from searchbus_bus.tasks import all_of
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.coverage import COVERAGE, RANKING, Ranked, SourceCoverage
from searchbus_contracts.queries import MAX_TOKENS

from ...tools.reply import Reply

__all__ = ["EXTRACT", "TOOLSET", "CallTool", "Found", "Page", "Row", "read_pages", "search"]

TOOLSET = "web"
EXTRACT = "web_extract_content"
_URLS_OF_ONE_CALL = 5
T = TypeVar("T")


class CallTool(Protocol):
    """Calls one tool of the toolset web for the caller of an HTTP request."""

    def __call__(
        self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """The tool's reply; raises Fault for every failure.

        Args:
            timeout_s: shortens the tool's own time limit.
        """


class Row(Struct, rename="camel"):
    """One result of a search.

    Args:
        ranked: None from a service that does not say it.
    """

    title: str
    url: str
    snippet: str = ""
    published_at: str | None = None
    ranked: Ranked | None = None


class Found(Struct):
    """The results of a search, best first.

    Args:
        notes: what could not be done as asked, for people.
        coverage: what each provider gave.
    """

    results: list[Row] = []
    notes: list[str] = []
    coverage: list[SourceCoverage] = []


class Page(Struct):
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
    items: list[Page] = field(default_factory=list)


async def search(
    call: CallTool, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None
) -> Found:
    """Search with one of the three searches.

    Raises:
        Fault: the search failed.
    """
    reply = await call(tool, arguments, timeout_s=timeout_s)
    found = _decode(reply, Found)
    meta = reply.meta or {}
    ranking = msgspec.convert(meta.get(RANKING, []), list[Ranked])
    if len(ranking) == len(found.results):
        for row, ranked in zip(found.results, ranking, strict=True):
            row.ranked = ranked
    if COVERAGE in meta:
        found.coverage = msgspec.convert(meta[COVERAGE], list[SourceCoverage])
    return found


async def read_pages(
    call: CallTool,
    urls: Sequence[str],
    *,
    max_tokens: int = MAX_TOKENS,
    timeout_s: float | None = None,
) -> list[Page]:
    """The pages, in the order of the URLs; five are one call.

    Raises:
        Fault: a call failed as a whole. For a page that cannot be read, its status says why.
    """
    count = math.ceil(len(urls) / _URLS_OF_ONE_CALL)
    parts = [urls[i * _URLS_OF_ONE_CALL : (i + 1) * _URLS_OF_ONE_CALL] for i in range(count)]
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
