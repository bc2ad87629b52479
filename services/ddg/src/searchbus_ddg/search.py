"""A search over as many pages as are wanted, html first, lite where html cannot be read."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import WebResult, WebSearchRequest

from .asking import Asking
from .egress import Egress, blocked
from .outcomes import REFUSALS, Kind, Page, Refused

__all__ = ["Found", "Search", "fault_of"]

MAX_PAGES = 4


class Found:
    """The rows of a search, whether there could be more, and why they were not fetched."""

    def __init__(self) -> None:
        self.rows: list[WebResult] = []
        self.complete = False
        self.note: str | None = None


class Search:
    """Searches through one egress."""

    def __init__(self, egress: Egress, asking: Asking) -> None:
        self._egress = egress
        self._asking = asking

    async def find(self, request: WebSearchRequest, caller: str, timeout_s: float) -> Found:
        """Rows for a request: exactly `limit` where there are so many.

        Raises:
            Fault: see fault_of; overloaded. After a first page a failure only shortens the list.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        endpoint, page = await self._first(request, caller, end_s)
        found = Found()
        seen: set[str] = set()
        for number in range(1, MAX_PAGES + 1):
            new = [row for row in page.rows if row.url not in seen]
            seen.update(row.url for row in new)
            found.rows += new
            if len(found.rows) >= request.limit:
                break
            # A page that adds nothing new would go on so for ever.
            if not page.next_form or not new or number == MAX_PAGES:
                found.complete = True
                break
            try:
                ask = functools.partial(self._asking.following, endpoint, page.next_form, request)
                page = await self._page(caller, end_s, ask)
            except (Refused, Fault) as error:
                found.note = f"Further results could not be fetched: {_reason(error)}."
                break
        found.complete = found.complete and len(found.rows) < request.limit
        del found.rows[request.limit :]
        return found

    async def _first(
        self, request: WebSearchRequest, caller: str, end_s: float
    ) -> tuple[str, Page]:
        try:
            return "html", await self._page(
                caller, end_s, functools.partial(self._asking.first, "html", request)
            )
        except Refused as refused:
            # A refusal of the address holds for lite as well; trying it would prolong it.
            if refused.kind not in (Kind.UNKNOWN_MARKUP, Kind.UPSTREAM_ERROR):
                raise fault_of(refused, self._egress) from None
            try:
                return "lite", await self._page(
                    caller, end_s, functools.partial(self._asking.first, "lite", request)
                )
            except Refused as again:
                raise fault_of(again if again.kind in REFUSALS else refused, self._egress) from None

    async def _page(
        self, caller: str, end_s: float, ask: Callable[[float], Awaitable[Page]]
    ) -> Page:
        left_s = end_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise Fault(ErrorCode.DEADLINE_EXCEEDED, "The time was over. Ask for fewer results.")
        return await self._egress.use(caller, left_s, ask)


def fault_of(refused: Refused, egress: Egress) -> Fault:
    """What a caller hears of a refusal; never that there were no results."""
    if refused.kind in (Kind.CHALLENGE, Kind.FINGERPRINT):
        return blocked(egress.breaker.remaining_s)
    if refused.kind is Kind.RATE_LIMITED:
        wait_s = max(1, round(egress.breaker.remaining_s))
        return Fault(
            ErrorCode.UPSTREAM_LIMITED,
            f"DuckDuckGo limits searches from here. Try again in {wait_s} seconds, or use another "
            "search tool.",
            retry_after_ms=wait_s * 1000,
        )
    if refused.kind is Kind.TIMEOUT:
        return Fault(
            ErrorCode.UPSTREAM_FAILED, "DuckDuckGo did not answer in time. Try again shortly."
        )
    changed = refused.kind is Kind.UNKNOWN_MARKUP
    advice = "Use another search tool." if changed else "Try again shortly."
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"DuckDuckGo could not be searched: {refused.detail}. {advice}",
        retryable=not changed,
    )


def _reason(error: Refused | Fault) -> str:
    return error.detail if isinstance(error, Refused) else error.failure.message.rstrip(".")
