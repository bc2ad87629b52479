"""web_search and instant_answer for callers: cached, single flight, handed on when refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from searchbus_bus import Bus, Call
from searchbus_contracts import ErrorCode, Fault, decode, encode
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_upstream import Cached, SharedCache, UpstreamTimeout, UpstreamUnreachable

from .asking import USER_AGENT, check_query
from .egress import Egress
from .fleet import Fleet
from .instant import InstantAnswer, decode_instant
from .outcomes import Kind, Refused
from .search import Search

__all__ = ["DuckDuckGo", "Freshness"]

SERVICE = "ddg"
_ROWS_A_PAGE = 10
_INSTANT_TIMEOUT_S = 10.0
_INSTANT_MAX_BYTES = 2 * 1024 * 1024
_HAND_ON = {ErrorCode.UPSTREAM_BLOCKED, ErrorCode.UPSTREAM_LIMITED, ErrorCode.OVERLOADED}
_MIN_LEFT_S = 0.5


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old answers may be, in seconds."""

    search_s: float = 600.0
    instant_s: float = 3600.0
    stale_s: float = 6 * 3600.0


class _Rows(msgspec.Struct):
    rows: list[WebResult]
    note: str | None = None


class DuckDuckGo:
    """What the tools and the endpoint ask."""

    def __init__(
        self,
        bus: Bus,
        egress: Egress,
        search: Search,
        fleet: Fleet,
        cache: SharedCache,
        *,
        instant_url: str,
        freshness: Freshness | None = None,
    ) -> None:
        self._bus = bus
        self._egress = egress
        self._search = search
        self._fleet = fleet
        self._cache = cache
        self._instant_url = instant_url
        self._freshness = freshness or Freshness()

    async def search(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        """Search the web; raises Fault."""
        query = check_query(request.query)
        # Any number up to a page costs one page: they share an answer.
        rows = math.ceil(request.limit / _ROWS_A_PAGE) * _ROWS_A_PAGE
        wanted = msgspec.structs.replace(request, query=query, limit=rows)
        options = (wanted.query, wanted.limit, wanted.region, wanted.time, wanted.safe)

        async def fetch() -> bytes:
            reply = await self._fetch(call, wanted)
            body = encode(_Rows(list(reply.results), reply.note))
            if reply.note is not None:
                raise _Partial(body)
            return body

        try:
            cached = await self._cached(f"search/{options!r}", fetch, self._freshness.search_s)
        except _Partial as partial:
            cached = Cached(partial.body, _now_ms())
        found = decode(cached.value, _Rows)
        return WebSearchReply(
            results=tuple(found.rows[: request.limit]),
            provider="duckduckgo",
            fetched_at_ms=cached.made_ms,
            note=_note(cached) or (found.note if len(found.rows) < request.limit else None),
            stale=cached.stale,
        )

    async def _fetch(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        """From the upstream, or from a worker whose address is welcome."""
        left_s = call.remaining_s
        try:
            found = await self._search.find(request, call.actor.subject, left_s - 0.1)
        except Fault as fault:
            if fault.code not in _HAND_ON or call.remaining_s < _MIN_LEFT_S:
                raise
            if request.hops >= 8 or not await self._fleet.leave_to_others():
                raise self._worded(fault) from None
            return await self._bus.request(
                self._bus.subjects.endpoint(SERVICE, "fetch"),
                msgspec.structs.replace(request, hops=request.hops + 1),
                WebSearchReply,
                service=SERVICE,
                timeout_s=call.remaining_s,
                actor=call.actor,
            )
        return WebSearchReply(
            results=tuple(found.rows), provider="duckduckgo", fetched_at_ms=_now_ms(),
            note=found.note,
        )  # fmt: skip

    async def fetch(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        """A search that another worker handed on: no cache, it holds the lease."""
        return await self._fetch(call, request)

    def _worded(self, fault: Fault) -> Fault:
        """All addresses are refused: the wait is that of the first to be tried again."""
        if fault.code == ErrorCode.OVERLOADED:
            return fault
        wait_s = max(1, math.ceil(self._fleet.remaining_s))
        return Fault(
            fault.code,
            "DuckDuckGo refuses automated searches from here at the moment. This does not mean "
            f"that there are no results. Try again in {wait_s} seconds, or use another search "
            "tool.",
            retryable=True,
            retry_after_ms=wait_s * 1000,
        )

    async def instant(self, call: Call, query: str) -> tuple[InstantAnswer, str | None]:
        """An instant answer, and a note where it is an old one; raises Fault."""
        query = check_query(query)

        async def fetch() -> bytes:
            try:
                return await self._fetch_instant(query, call.remaining_s)
            except Refused as refused:
                raise _instant_fault(refused) from None

        cached = await self._cached(f"instant/{query!r}", fetch, self._freshness.instant_s)
        return msgspec.json.decode(cached.value, type=InstantAnswer), _note(cached)

    async def _fetch_instant(self, query: str, left_s: float) -> bytes:
        params = {
            "q": query, "format": "json", "no_html": "1", "no_redirect": "1", "skip_disambig": "0",
            "t": "searchbus",
        }  # fmt: skip
        try:
            reply = await self._egress.transport.send(
                "GET", self._instant_url, params=params,
                headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
                timeout_s=min(left_s, _INSTANT_TIMEOUT_S), max_bytes=_INSTANT_MAX_BYTES,
            )  # fmt: skip
        except UpstreamTimeout as error:
            raise Refused(Kind.TIMEOUT, str(error)) from None
        except UpstreamUnreachable as error:
            raise Refused(Kind.UPSTREAM_ERROR, str(error)) from None
        return encode(decode_instant(reply))

    async def _cached(self, question: str, fetch: Callable[[], Any], fresh_s: float) -> Cached:
        return await self._cache.get(
            question, fetch, fresh_s=fresh_s, stale_s=self._freshness.stale_s
        )


class _Partial(Exception):
    """Results that are worth giving to who asks now, but not worth keeping."""

    def __init__(self, body: bytes) -> None:
        super().__init__("only a part could be fetched")
        self.body = body


def _instant_fault(refused: Refused) -> Fault:
    if refused.kind is Kind.RATE_LIMITED:
        return Fault(
            ErrorCode.UPSTREAM_LIMITED,
            "DuckDuckGo limits instant answers from here. Try again in 60 seconds.",
            retry_after_ms=60_000,
        )
    if refused.kind is Kind.TIMEOUT:
        return Fault(ErrorCode.UPSTREAM_FAILED, "DuckDuckGo did not answer in time. Try again.")
    return Fault(
        ErrorCode.UPSTREAM_FAILED, f"DuckDuckGo could not be asked: {refused.detail}. Try again."
    )


def _note(cached: Cached) -> str | None:
    if not cached.stale:
        return None
    then = datetime.fromtimestamp(cached.made_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"DuckDuckGo cannot be reached now; this is its answer of {then}."


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
