"""An engine as a declaration: the requests of one search, and what their replies mean.

An engine sends nothing itself. `steps` yields each request and receives its reply, so that every
request takes a turn at the egress, and a test needs no network:

    class Example(Engine):
        name, url = "example", "https://example.org/search"

        def request(self, query): return HttpRequest("GET", self.url, params={"q": query.query})
        def parse(self, query, reply): return EnginePage(rows, more=bool(rows))

A reply without rows is empty only where it says so. Everything else without rows raises
`EngineError`: a challenge, a limit, a markup that has changed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from selectolax.lexbor import LexborNode

from searchbus_contracts.engines import EngineRequest
from searchbus_contracts.web import WebResult
from searchbus_pages import TooComplexError
from searchbus_upstream import HttpReply, HttpRequest, is_public_url, retry_after_s
from searchbus_upstream import read_json as upstream_json
from searchbus_upstream.text import plain

from ..outcome import EngineError, Outcome
from ..parse import parse_html
from ..search import USER_AGENT

T = TypeVar("T")
PROGRAM = "searchbus/0.1 (+https://github.com/searchbus/searchbus; web search for agents)"
"""The User-Agent of requests to interfaces for programs."""
_CHALLENGE = re.compile(
    rb"captcha|challenge-form|cdn-cgi/challenge|automated (?:queries|requests)|unusual traffic",
    re.I,
)
_MAX_ROWS = 50


@dataclass(frozen=True, slots=True)
class EnginePage:
    """Rows of one page, best first, and whether there is a further page."""

    rows: tuple[WebResult, ...]
    more: bool = False


class Engine(ABC):
    """One engine, at its own URL by default."""

    name: ClassVar[str]
    url: str
    limiting: ClassVar[frozenset[int]] = frozenset({403, 429})
    """Statuses by which it limits this address."""

    def __init__(self, url: str | None = None) -> None:
        self.url = url or self.url

    def steps(self, query: EngineRequest) -> Generator[HttpRequest, HttpReply, EnginePage]:
        """The requests of one search; most engines need one. Raises EngineError for a reply of no
        use."""
        reply = yield self.request(query)
        require_success(reply, self.limiting)
        return self.parse(query, reply)

    @abstractmethod
    def request(self, query: EngineRequest) -> HttpRequest:
        """The request of a page of results."""

    @abstractmethod
    def parse(self, query: EngineRequest, reply: HttpReply) -> EnginePage:
        """The page of a successful reply; raises EngineError."""


class PageEngine(Engine):
    """An engine whose result page is read: CSS selectors say where its parts are.

    Args:
        row, link, title, snippet: selectors; the last three within a row.
        next_page: of the link to the next page.
        empty: the words of a page that says that nothing matches.
    """

    row: ClassVar[str]
    link: ClassVar[str]
    title: ClassVar[str]
    snippet: ClassVar[str]
    next_page: ClassVar[str]
    empty: ClassVar[re.Pattern[str]]

    def headers(self, query: EngineRequest, cookies: dict[str, str]) -> dict[str, str]:
        """As a browser sends them; what is empty in the cookies is left out."""
        language = query.language or "en"
        return {
            "User-Agent": USER_AGENT,
            "Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
            "Accept-Language": f"{language},en;q=0.5",
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items() if value),
        }

    def parse(self, query: EngineRequest, reply: HttpReply) -> EnginePage:
        """See `Engine`."""
        try:
            tree = parse_html(reply.text)
        except TooComplexError as error:
            raise changed(str(error)) from None
        blocks = tree.css(self.row)[:_MAX_ROWS]
        rows = tuple(row for block in blocks if (row := self._row(block)) is not None)
        if rows:
            return EnginePage(rows, more=tree.css_first(self.next_page) is not None)
        text = tree.body.text(separator=" ") if tree.body is not None else ""
        # Before a challenge, whose words may be those of the query.
        if not blocks and self.empty.search(plain(text)):
            return EnginePage(())
        if _CHALLENGE.search(reply.body):
            raise EngineError(Outcome.CHALLENGE, "it asks for proof that this is no program")
        raise changed("its page has no results where they are expected")

    def _row(self, block: LexborNode) -> WebResult | None:
        link, title = block.css_first(self.link), block.css_first(self.title)
        snippet = block.css_first(self.snippet)
        return result(
            link.attributes.get("href") if link is not None else None,
            title.text(separator=" ") if title is not None else "",
            snippet.text(separator=" ") if snippet is not None else "",
        )


def require_success(reply: HttpReply, limiting: Set[int] = Engine.limiting) -> None:
    """Raise EngineError for a reply that is cut off or has another status than 200."""
    if reply.status == 200 and not reply.truncated:
        return
    asked_s = retry_after_s(reply.headers)
    if reply.status in (202, 403, 429, 503) and _CHALLENGE.search(reply.body):
        detail = "it asks for proof that this is no program"
        raise EngineError(Outcome.CHALLENGE, detail, asked_s)
    if reply.status in limiting:
        detail = f"it limits this address (HTTP {reply.status})"
        raise EngineError(Outcome.RATE_LIMITED, detail, asked_s)
    if reply.status == 202:
        raise EngineError(Outcome.CHALLENGE, "it answers with HTTP 202 and no results", asked_s)
    detail = "its page was cut off" if reply.truncated else f"it answers HTTP {reply.status}"
    raise EngineError(Outcome.UPSTREAM_ERROR, detail, asked_s)


def read_json(reply: HttpReply, kind: type[T]) -> T:
    """The reply of an interface; raises EngineError where it has another form."""
    try:
        return upstream_json(reply.body, kind)
    except (ValueError, RecursionError):
        raise changed("its reply has another form than expected") from None


def changed(what: str) -> EngineError:
    """The failure of a reply that cannot be read: the markup or the interface has changed."""
    return EngineError(Outcome.UNKNOWN_MARKUP, f"{what}: it may have changed")


def result(
    url: object, title: object, snippet: object, published_at: str | None = None
) -> WebResult | None:
    """A row; None where it has no title, or no http or https URL of a public host."""
    if not isinstance(url, str) or not isinstance(title, str) or not is_public_url(url):
        return None
    shown = plain(title)
    text = plain(snippet) if isinstance(snippet, str) else ""
    return (
        WebResult(title=shown, url=url, snippet=text, published_at=published_at) if shown else None
    )


def results_of(
    rows: list[Any], read: Callable[[dict[str, Any]], WebResult | None]
) -> tuple[WebResult, ...]:
    """The rows that `read` can read; raises EngineError where there are rows and it reads none."""
    objects = [row for row in rows[:_MAX_ROWS] if isinstance(row, dict)]
    found = tuple(row for one in objects if (row := read(one)) is not None)
    if rows and not found:
        raise changed("its rows have another form than expected")
    return found


def iso_time(seconds: object) -> str | None:
    """ISO 8601 in UTC of seconds of the epoch; None for everything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return None
