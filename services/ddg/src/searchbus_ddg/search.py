"""One search over as many result pages as are needed: html first, lite where html is unreadable."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable

import msgspec

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import WebResult, WebSearchRequest

from .egress import Egress, blocked
from .outcome import REFUSALS, DuckDuckGoError, Outcome, ResultPage
from .page_client import PageClient

__all__ = ["Refused", "Search", "SearchRows", "fault_of"]

MAX_PAGES = 4


class SearchRows(msgspec.Struct):
    """The rows of a search; `note` says why further pages could not be fetched."""

    rows: list[WebResult]
    note: str | None = None


class Refused(Fault):
    """DuckDuckGo refused a request that was sent.

    Args:
        outcome: one of `REFUSALS`.
    """

    def __init__(self, outcome: Outcome, code: ErrorCode, message: str, wait_s: int) -> None:
        super().__init__(code, message, retry_after_ms=wait_s * 1000)
        self.outcome = outcome


class Search:
    """Searches through one egress."""

    def __init__(self, egress: Egress, pages: PageClient) -> None:
        self._egress = egress
        self._pages = pages

    async def run(self, request: WebSearchRequest, caller: str, timeout_s: float) -> SearchRows:
        """Return the first `request.limit` rows, or all where there are fewer.

        Args:
            caller: for fair turns on the egress.

        Raises:
            Fault: the first page could not be fetched (see `fault_of`); `Refused` where DuckDuckGo
                refused it. A failure of a later page only shortens the list.
        """
        end_s = asyncio.get_running_loop().time() + timeout_s
        endpoint, page = await self._first_page(request, caller, end_s)
        rows: dict[str, WebResult] = {}
        note = None
        for number in range(1, MAX_PAGES + 1):
            known = len(rows)
            for row in page.rows:
                rows.setdefault(row.url, row)
            # DuckDuckGo repeats its last page for ever: stop at a page without new rows.
            last = not page.next_form or len(rows) == known or number == MAX_PAGES
            if last or len(rows) >= request.limit:
                break
            fetch = functools.partial(self._pages.next_page, endpoint, page.next_form, request)
            try:
                page = await self._fetch(caller, end_s, fetch)
            except DuckDuckGoError as error:
                note = f"Further results could not be fetched: {error.detail}."
                break
            except Fault as fault:
                reason = fault.failure.message.rstrip(".")
                note = f"Further results could not be fetched: {reason}."
                break
        return SearchRows(list(rows.values())[: request.limit], note)

    async def _first_page(
        self, request: WebSearchRequest, caller: str, end_s: float
    ) -> tuple[str, ResultPage]:
        """The endpoint that can be read, and its first page."""
        html = functools.partial(self._pages.first_page, "html", request)
        lite = functools.partial(self._pages.first_page, "lite", request)
        try:
            return "html", await self._fetch(caller, end_s, html)
        except DuckDuckGoError as html_error:
            # A refusal of the address holds for lite as well, and a request would prolong it.
            if html_error.outcome not in (Outcome.UNKNOWN_MARKUP, Outcome.UPSTREAM_ERROR):
                raise fault_of(html_error, self._egress) from None
            try:
                return "lite", await self._fetch(caller, end_s, lite)
            except DuckDuckGoError as error:
                shown = error if error.outcome in REFUSALS else html_error
                raise fault_of(shown, self._egress) from None

    async def _fetch(
        self, caller: str, end_s: float, fetch: Callable[[float], Awaitable[ResultPage]]
    ) -> ResultPage:
        left_s = end_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise Fault(
                ErrorCode.DEADLINE_EXCEEDED,
                "The deadline passed. Try again, or ask for fewer results.",
            )
        return await self._egress.use(caller, left_s, fetch)


def fault_of(error: DuckDuckGoError, egress: Egress) -> Fault:
    """The failure of a call; it never reads as if there were no results."""
    wait_s = max(1, round(egress.breaker.remaining_s))
    if error.outcome is Outcome.RATE_LIMITED:
        return Refused(
            error.outcome,
            ErrorCode.UPSTREAM_LIMITED,
            f"DuckDuckGo limits searches from here. Try again in {wait_s} seconds, or use another "
            "search tool.",
            wait_s,
        )
    if error.outcome in REFUSALS:
        failure = blocked(wait_s).failure
        return Refused(error.outcome, ErrorCode.UPSTREAM_BLOCKED, failure.message, wait_s)
    if error.outcome is Outcome.TIMEOUT:
        return Fault(
            ErrorCode.UPSTREAM_FAILED, "DuckDuckGo did not answer in time. Try again shortly."
        )
    changed = error.outcome is Outcome.UNKNOWN_MARKUP
    advice = "Use another search tool." if changed else "Try again shortly."
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"DuckDuckGo could not be searched: {error.detail}. {advice}",
        retryable=not changed,
    )
