"""A search in pages over chosen engines, and the state of every engine.

    found = await search.find(query, limit=10, boosts={}, engines=(), cursor="", actor=actor, …)
    found.cursor    # for the next results; None at the end

A page of the engines is fused once; what the caller has not seen of it follows in the next calls,
from the cache, before the engines are asked for their next page. The cursor holds the number of
that page and a short hash of each result seen, so that no result comes twice, and no server has to
remember a search. It gives no rights, and belongs to one query with its filters.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from searchbus_bus import Bus
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.coverage import SourceCoverage
from searchbus_contracts.engines import (
    ENGINES,
    EngineState,
    EngineStatesReply,
    EngineStatesRequest,
)
from searchbus_upstream import canonical_key

from ..domains import within
from ..metasearch import FusedResults, Metasearch
from ..progress import OnDone
from ..providers.base import Provider, Query
from ..providers.ddg import SERVICE

ROWS = 10
"""Results of one engine on one page."""
MAX_SEEN = 300
"""Results of one search over all calls."""
MAX_CURSOR_CHARS = 4096
_MOST = 200
_HASH_BYTES = 5
_STATES_TIMEOUT_S = 3.0
_UNKNOWN = "Unknown cursor. Repeat the arguments of the search that gave it, or omit it."


class _Cursor(msgspec.Struct, array_like=True):
    query: bytes
    page: int
    seen: bytes


@dataclass(frozen=True, slots=True)
class PageOfResults:
    """Results that the caller has not seen, best first, and the cursor for the next ones, if
    any."""

    found: FusedResults
    cursor: str | None
    left_out: tuple[SourceCoverage, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """The providers that are asked; which were not, and why; what the others cannot do."""

    asked: list[Provider] = field(default_factory=list)
    left_out: list[SourceCoverage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class EngineSearch:
    """Searches with the providers that are configured and the engines without a key.

    Args:
        providers: most important first; all that may be named.
        standard: the names of those that are used where the caller names none.
    """

    def __init__(
        self, metasearch: Metasearch, providers: Sequence[Provider], standard: Sequence[str]
    ) -> None:
        self._metasearch = metasearch
        self._providers = {provider.name: provider for provider in providers}
        self._standard = tuple(standard)

    def count(self, engines: Sequence[str]) -> int:
        """How many engines a search asks at most."""
        return len(engines or self._standard)

    async def find(
        self,
        query: Query,
        *,
        limit: int,
        boosts: Mapping[str, float],
        engines: Sequence[str],
        cursor: str,
        actor: Actor,
        timeout_s: float,
        on_done: OnDone | None = None,
    ) -> PageOfResults:
        """The next results of a search.

        Args:
            boosts: by how much the votes of a domain count; the first that fits a URL.
            engines: the names of those to ask; empty: the standard ones.
            cursor: of the call before; empty for the first results.

        Raises:
            Fault: invalid_argument; those of `Metasearch.search`.
        """
        given = (query, sorted(boosts.items()), tuple(engines))
        place = _read(cursor, _digest(repr(given))) if cursor else _Cursor(b"", 1, b"")
        seen = {place.seen[i : i + _HASH_BYTES] for i in range(0, len(place.seen), _HASH_BYTES)}
        page = place.page
        while True:
            choice = self._chosen(query, engines, page)
            if not choice.asked and page > 1:
                return PageOfResults(FusedResults(()), None)
            found = await self._metasearch.search(
                replace(query, page=page),
                actor=actor,
                timeout_s=timeout_s,
                among=choice.asked,
                keep=_MOST,
                boost=lambda url: next((f for d, f in boosts.items() if within(url, d)), 1.0),
                on_done=on_done,
            )
            fresh = [result for result in found.results if _hash(result.url) not in seen]
            # One more page at most: what a caller waits for has an end.
            if fresh or not found.more or page > place.page:
                break
            page += 1
        shown = fresh[:limit]
        hashes = b"".join(_hash(result.url) for result in shown)
        behind = _Cursor(_digest(repr(given)), page + (len(fresh) <= limit), place.seen + hashes)
        goes_on = len(fresh) > limit or found.more
        notes = choice.notes
        if goes_on and len(behind.seen) >= MAX_SEEN * _HASH_BYTES:
            goes_on = False
            notes = [*notes, f"The search ends here, after {MAX_SEEN} results."]
        return PageOfResults(
            replace(found, results=tuple(shown)),
            _written(behind) if goes_on else None,
            tuple(choice.left_out),
            tuple(notes),
        )

    def _chosen(self, query: Query, names: Sequence[str], page: int) -> _Choice:
        """The providers of a page.

        One that cannot hold to the time range or to strict safe search is not asked. One that
        ignores another filter is asked, and a note says so.
        """
        choice = _Choice()
        for name in names or self._standard:
            provider = self._providers.get(name)
            if provider is None:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    f"engines names {name[:40]!r}. Give some of: {', '.join(self._providers)}.",
                )
            reason = _reason_against(provider, query)
            if reason and (names or provider.has_news == (query.topic == "news")):
                choice.left_out.append(
                    SourceCoverage(source=name, state="left_out", message=f"{reason} Not asked.")
                )
            elif not reason and page <= provider.max_pages:
                choice.asked.append(provider)
                wanted = {
                    "region": query.region, "language": query.language, "safe": query.safe,
                    "domains": query.include_domains,
                }  # fmt: skip
                ignored = [key for key, v in wanted.items() if v and key not in provider.filters]
                if ignored:
                    choice.notes.append(f"{name} ignores: {', '.join(ignored)}.")
        if not choice.asked and page == 1:
            why = " ".join(f"{part.source}: {part.message}" for part in choice.left_out)
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"No engine can search like this. {why} Change topic, timeRange, safeSearch or "
                "engines.",
            )
        return choice


def _reason_against(provider: Provider, query: Query) -> str:
    """Why a provider cannot take part; empty where it can."""
    facts = ENGINES.get(provider.name)
    if query.topic == "news" and not provider.has_news:
        return "It has no news."
    if query.topic == "general" and facts is not None and facts.topic == "news":
        return "It has news only."
    if query.time and "time" not in provider.filters:
        return "It has no time range."
    if query.safe == "strict" and "safe" not in provider.filters:
        return "It has no safe search."
    return ""


async def states(bus: Bus, actor: Actor, timeout_s: float) -> dict[str, EngineState] | Fault:
    """The state of each engine at one egress address; the failure where no worker replies."""
    try:
        reply = await bus.request(
            bus.subjects.endpoint(SERVICE, "engines"),
            EngineStatesRequest(),
            EngineStatesReply,
            service=SERVICE,
            timeout_s=min(timeout_s, _STATES_TIMEOUT_S),
            actor=actor,
        )
    except Fault as fault:
        return fault
    return {state.engine: state for state in reply.engines}


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _hash(url: str) -> bytes:
    return hashlib.blake2b(canonical_key(url).encode(), digest_size=_HASH_BYTES).digest()


def _written(cursor: _Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(cursor)).decode().rstrip("=")


def _read(text: str, query: bytes) -> _Cursor:
    """The cursor of a query; raises Fault for every other text."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        cursor = msgspec.msgpack.decode(raw, type=_Cursor)
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        raise Fault(ErrorCode.INVALID_ARGUMENT, _UNKNOWN) from None
    if cursor.query != query or not 1 <= cursor.page <= ROWS or len(cursor.seen) % _HASH_BYTES:
        raise Fault(ErrorCode.INVALID_ARGUMENT, _UNKNOWN)
    return cursor
