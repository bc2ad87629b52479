"""Web search and instant answers: cached, and forwarded while this worker's address is refused."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from searchbus_bus import Bus, Call, endpoint
from searchbus_contracts import ErrorCode, Fault, decode, encode
from searchbus_contracts.queries import check_query
from searchbus_contracts.web import WebSearchReply, WebSearchRequest
from searchbus_upstream import Cached, Fetched, HttpRequest, SharedCache

from .egress import Egress, blocked
from .fleet import ScraperFleet
from .instant import InstantAnswer, decode_instant
from .outcome import EngineError, Outcome, out_of_time
from .search import MAX_QUERY_CHARS, USER_AGENT, RefusedError, ScrapedSearch, SearchRows, send
from .settings import DdgSettings

SERVICE = "ddg"
REMEMBERED_S = 600.0
"""How long a refused query is not sent again."""
_ONCE_S = 30.0
"""How long a query that was refused late counts as refused: those who waited send it at once."""
_ROWS_PER_PAGE = 10
_MAX_HOPS = 8
_MAX_PASSES = 4
"""How often a request is passed on to find an earlier turn; each worker on its way keeps a slot."""
_MAX_CALLER_CHARS = 1024
_INSTANT_TIMEOUT_S = 10.0
_INSTANT_MAX_BYTES = 2 * 1024 * 1024
_FORWARDED = {ErrorCode.UPSTREAM_BLOCKED, ErrorCode.UPSTREAM_LIMITED}
"""Failures of this worker's address: another worker may succeed."""
_NOT_TAKEN = {ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED}
"""Failures of a forwarded request after which it may wait for its turn here."""
_MIN_LEFT_S = 0.5
"""With less time left a request is not forwarded."""
_MARGIN_S = 0.1
"""Kept of the caller's time, for the reply. DuckDuckGo's time ends as long before that: those who
wait for an equal request learn its failure, and not that the one who sent it has left."""


@dataclass(eq=False)
class DuckDuckGo:
    """Serves the tools and endpoints of one worker.

    Args:
        scraped: sends requests through `egress`.
        fleet: the other workers; refused requests are forwarded to them.
    """

    bus: Bus
    egress: Egress
    scraped: ScrapedSearch
    fleet: ScraperFleet
    cache: SharedCache
    settings: DdgSettings

    def __post_init__(self) -> None:
        self._refused = RefusedQueries(self.cache)

    @endpoint
    async def search(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        """Search the web.

        Raises:
            Fault: invalid_query, upstream_blocked, upstream_limited, upstream_failed, overloaded,
                deadline_exceeded.
        """
        query = check_query(request.query, max_chars=MAX_QUERY_CHARS)
        # Any number of rows up to a page costs one page: these requests share a cached value.
        limit = math.ceil(request.limit / _ROWS_PER_PAGE) * _ROWS_PER_PAGE
        whole_pages = msgspec.structs.replace(request, query=query, limit=limit, caller="")
        key = (query, limit, request.region, request.time, request.safe)

        async def fetch() -> Fetched:
            reply = await self.fetch(call, whole_pages)
            rows = SearchRows(list(reply.results), reply.note)
            # An incomplete list is for those who wait now, not for later requests.
            return Fetched(encode(rows), store=reply.note is None)

        cached = await self.cache.get(
            f"search/{key!r}",
            fetch,
            fresh_s=self.settings.ddg_cache_ttl_s,
            stale_s=self.settings.ddg_stale_ttl_s,
            timeout_s=call.remaining_s - _MARGIN_S,
        )
        found = decode(cached.value, SearchRows)
        return WebSearchReply(
            results=tuple(found.rows[: request.limit]),
            provider="duckduckgo",
            fetched_at_ms=cached.made_ms,
            note=_stale_note(cached) or (found.note if len(found.rows) < request.limit else None),
            stale=cached.stale,
        )

    @endpoint
    async def fetch(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        """Search without the cache, for another worker that has its lease; forward the request
        where this address is refused.

        A request that was sent and refused is sent once more at most, by another worker.

        Raises:
            Fault: as `search`.
        """
        if not request.refused:
            await self._refused.require_none(request)
            once = await self._refused.once(request)
            request = msgspec.structs.replace(request, refused=once)
        if (reply := await self._passed_on(call, request)) is not None:
            return reply
        try:
            found = await self.scraped.run(
                request, _caller(call, request), call.remaining_s - 2 * _MARGIN_S
            )
        except Fault as fault:
            if fault.code == ErrorCode.OVERLOADED and request.hops:
                # The bus would ask one more worker for each that passed it on.
                raise Fault(fault.code, fault.failure.message, retryable=False) from None
            if fault.code not in _FORWARDED:
                raise
            refused = isinstance(fault, RefusedError)
            if refused and request.refused:
                raise await self._refused.add(request) from None
            # Where nobody knows who is healthy, the others are asked: up to _MAX_HOPS workers.
            if request.hops >= _MAX_HOPS or await self.fleet.leave_to_others() is False:
                if isinstance(fault, RefusedError) and fault.outcome is Outcome.QUERY_REFUSED:
                    raise await self._refused.add(request) from None
                raise self._refused_everywhere(fault) from None
            try:
                return await self._forward(call, request, refused=refused or request.refused)
            except Fault as forwarded:
                if refused and forwarded.code == ErrorCode.DEADLINE_EXCEEDED:
                    await self._refused.add_once(request)
                if forwarded.code != ErrorCode.UNAVAILABLE:
                    raise
                # The other worker was killed, and is not missed yet.
                raise self._refused_everywhere(fault) from None
        return WebSearchReply(
            results=tuple(found.rows),
            provider="duckduckgo",
            fetched_at_ms=time.time_ns() // 1_000_000,
            note=found.note,
        )

    async def _passed_on(self, call: Call, request: WebSearchRequest) -> WebSearchReply | None:
        """The reply of another worker, where the turn of the request may come sooner there.

        A worker keeps a request whose turn is now, or not later than at the best of the others that
        it has been to. So a worker that has become slow does not delay its share of the searches.
        """
        wait_ms = math.ceil(1000 * self.egress.wait_s(_caller(call, request)))
        others_ms = [ms for key, ms in request.waits_ms.items() if key != self.fleet.key]
        if wait_ms <= min(others_ms, default=0) or request.hops >= _MAX_PASSES:
            return None
        if call.remaining_s < _MIN_LEFT_S or not await self.fleet.leave_to_others():
            return None
        waits_ms = {**request.waits_ms, self.fleet.key: wait_ms}
        onward = msgspec.structs.replace(request, waits_ms=waits_ms)
        try:
            return await self._forward(call, onward, refused=request.refused)
        except Fault as fault:
            if fault.code not in _NOT_TAKEN:
                raise
            return None

    async def _forward(
        self, call: Call, request: WebSearchRequest, *, refused: bool
    ) -> WebSearchReply:
        if call.remaining_s < _MIN_LEFT_S:
            raise out_of_time()
        # Not on the caller's behalf: one that another service passed on cannot be passed on again.
        # The name keeps the turns on the other address fair.
        return await self.bus.request(
            self.bus.subjects.endpoint(SERVICE, "fetch"),
            msgspec.structs.replace(
                request,
                hops=request.hops + 1,
                refused=refused,
                caller=_caller(call, request)[:_MAX_CALLER_CHARS],
            ),
            WebSearchReply,
            service=SERVICE,
            timeout_s=call.remaining_s,
        )

    def _refused_everywhere(self, fault: Fault) -> Fault:
        """The failure with the wait until the first address of the fleet is probed."""
        return blocked(self.fleet.remaining_s, fault.code)

    async def instant(self, call: Call, query: str) -> tuple[InstantAnswer, str | None]:
        """Return an instant answer, and a note where it is stale.

        Raises:
            Fault: invalid_query, upstream_limited, upstream_failed, deadline_exceeded.
        """
        text = check_query(query, max_chars=MAX_QUERY_CHARS)

        async def fetch() -> Fetched:
            try:
                left_s = call.remaining_s - 2 * _MARGIN_S
                return Fetched(encode(await self._fetch_instant(text, left_s)))
            except EngineError as error:
                raise _instant_fault(error) from None

        cached = await self.cache.get(
            f"instant/{text!r}",
            fetch,
            fresh_s=self.settings.ddg_instant_cache_ttl_s,
            stale_s=self.settings.ddg_stale_ttl_s,
            timeout_s=call.remaining_s - _MARGIN_S,
        )
        return msgspec.json.decode(cached.value, type=InstantAnswer), _stale_note(cached)

    async def _fetch_instant(self, query: str, left_s: float) -> InstantAnswer:
        params = {
            "q": query,
            "format": "json",
            "no_html": "1",
            "no_redirect": "1",
            "skip_disambig": "0",
            "t": "searchbus",
        }
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        reply = await send(
            self.egress.client,
            HttpRequest("GET", self.settings.ddg_instant_url, headers=headers, params=params),
            left_s=left_s,
            most_s=_INSTANT_TIMEOUT_S,
            max_bytes=_INSTANT_MAX_BYTES,
        )
        return decode_instant(reply)


def _caller(call: Call, request: WebSearchRequest) -> str:
    """Whose turn a request takes; a forwarded one has no actor and names it."""
    return request.caller or call.actor.subject


def _instant_fault(error: EngineError) -> Fault:
    if error.outcome is Outcome.RATE_LIMITED:
        return Fault(
            ErrorCode.UPSTREAM_LIMITED,
            "DuckDuckGo limits instant answers from here. Try again in 60 seconds.",
            retry_after_ms=60_000,
        )
    if error.outcome is Outcome.TIMEOUT:
        return Fault(ErrorCode.UPSTREAM_FAILED, "DuckDuckGo did not answer in time. Try again.")
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"DuckDuckGo's instant answers could not be fetched: {error.detail}. Try again.",
    )


def _stale_note(cached: Cached) -> str | None:
    if not cached.stale:
        return None
    then = datetime.fromtimestamp(cached.made_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"DuckDuckGo cannot be reached now; this is its answer of {then}."


class RefusedQueries:
    """Queries that DuckDuckGo refused repeatedly: no worker of the fleet sends them for a while.

    A query that gets a blank page or a challenge wherever it is sent would otherwise cost another
    address each time that a caller repeats it.
    """

    def __init__(self, cache: SharedCache) -> None:
        self._cache = cache

    async def require_none(self, request: WebSearchRequest) -> None:
        """Raise upstream_blocked where the query was refused in the last ten minutes."""
        known = await self._cache.stored(_query_key(request), fresh_s=REMEMBERED_S)
        if known is not None:
            raise _query_refused(REMEMBERED_S - (time.time() - known.made_ms / 1000))

    async def once(self, request: WebSearchRequest) -> bool:
        """Whether the query was refused just now, and its caller had no time to send it again."""
        return await self._cache.stored(_query_key(request, "once"), fresh_s=_ONCE_S) is not None

    async def add_once(self, request: WebSearchRequest) -> None:
        """Remember it for those who wait for the same: they send the query once more at most."""
        await self._cache.store(_query_key(request, "once"), b"refused")

    async def add(self, request: WebSearchRequest) -> Fault:
        """Remember a query; returns the failure for the caller."""
        await self._cache.store(_query_key(request), b"refused")
        return _query_refused(REMEMBERED_S)


def _query_key(request: WebSearchRequest, times: str = "") -> str:
    return f"refused{times}/{(request.query, request.region, request.time, request.safe)!r}"


def _query_refused(remaining_s: float) -> Fault:
    wait_s = max(1, math.ceil(remaining_s))
    return Fault(
        ErrorCode.UPSTREAM_BLOCKED,
        "DuckDuckGo refuses this query. This does not mean that there are no results. Change the "
        f"query, use another search tool, or try again in {wait_s} seconds.",
        retry_after_ms=wait_s * 1000,
    )
