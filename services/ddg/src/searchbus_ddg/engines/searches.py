"""Searches with the engines of one worker, each at its own pace from the worker's address."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from searchbus_bus import Call, endpoint
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.engines import (
    ENGINES,
    EngineRequest,
    EngineState,
    EngineStatesReply,
    EngineStatesRequest,
)
from searchbus_contracts.queries import check_query
from searchbus_contracts.web import WebSearchReply
from searchbus_upstream import HttpReply, HttpRequest

from ..egress import Egress
from ..outcome import EngineError, Outcome, out_of_time
from ..parse import MAX_PAGE_BYTES
from ..search import MAX_QUERY_CHARS, fault_of, send
from .base import Engine, EnginePage

log = logging.getLogger("searchbus.ddg")

_REPLY_TIMEOUT_S = 15.0
_MARGIN_S = 0.1
"""Kept of the caller's time, for the reply."""


@dataclass(slots=True)
class _Used:
    """An engine, its egress, and what became of its last request."""

    engine: Engine
    egress: Egress
    outcome: str = ""
    used_s: float = 0.0


class EngineSearches:
    """Searches with the engines without a key.

    Args:
        engines: each with its egress.
        web: the egress of DuckDuckGo's web search, whose state is reported as well.
    """

    def __init__(self, engines: Mapping[str, tuple[Engine, Egress]], web: Egress) -> None:
        self._used = {name: _Used(*pair) for name, pair in engines.items()}
        self._web = web

    @endpoint
    async def engine(self, call: Call, request: EngineRequest) -> WebSearchReply:
        """One page of results of one engine, from this worker's address; no cache.

        Raises:
            Fault: invalid_argument, invalid_query, upstream_blocked, upstream_limited,
                upstream_failed, overloaded, deadline_exceeded.
        """
        used = self._used.get(request.engine)
        if used is None:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"engine is not known. Give one of: {', '.join(self._used)}.",
            )
        query = check_query(request.query, max_chars=MAX_QUERY_CHARS)
        request = msgspec.structs.replace(request, query=query)
        last = ENGINES[request.engine].max_pages
        if request.page > last:
            return self._reply(EnginePage(()), request.engine)
        try:
            page = await _run(used, request, call.actor.subject, call.remaining_s - _MARGIN_S)
        except EngineError as error:
            self._note(used, error.outcome)
            if error.outcome is Outcome.UNKNOWN_MARKUP:
                log.error("%s: %s", request.engine, error.detail)
            raise fault_of(error, used.egress) from None
        self._note(used, Outcome.OK if page.rows else Outcome.EMPTY)
        more = page.more and request.page < last
        return self._reply(EnginePage(page.rows, more), request.engine)

    @endpoint
    async def engines(self, call: Call, request: EngineStatesRequest) -> EngineStatesReply:
        """The states of all engines at this worker's address."""
        return EngineStatesReply(tuple(map(self._state, ENGINES)))

    def _state(self, name: str) -> EngineState:
        used = self._used.get(name)
        breaker = (used.egress if used is not None else self._web).breaker
        outcome = used.outcome if used is not None else ""
        state = "unused" if not outcome and used is not None else "ready"
        if not breaker.closed and not breaker.usable:
            state = "cooling"
        elif outcome not in ("", Outcome.OK, Outcome.EMPTY):
            state = "failed"
        return EngineState(
            engine=name,
            state=state,
            outcome=outcome,
            used_ms=int(used.used_s * 1000) if used is not None else 0,
            retry_after_ms=math.ceil(breaker.remaining_s * 1000) if state == "cooling" else 0,
        )

    def _note(self, used: _Used, outcome: Outcome) -> None:
        used.outcome, used.used_s = outcome, time.time()

    def _reply(self, page: EnginePage, name: str) -> WebSearchReply:
        return WebSearchReply(
            results=page.rows,
            provider=name,
            fetched_at_ms=int(time.time() * 1000),
            more=page.more,
        )


async def _run(used: _Used, request: EngineRequest, caller: str, timeout_s: float) -> EnginePage:
    """Send the engine's requests one after the other, each in its turn."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    steps = used.engine.steps(request)

    async def send_one(wanted: HttpRequest, left_s: float) -> HttpRequest | EnginePage:
        reply = await send(
            used.egress.client,
            wanted,
            left_s=left_s,
            most_s=_REPLY_TIMEOUT_S,
            max_bytes=MAX_PAGE_BYTES,
        )
        return _advance(steps, reply)

    following = _advance(steps, None)
    while isinstance(following, HttpRequest):
        left_s = end_s - loop.time()
        if left_s <= 0:
            raise out_of_time()
        following = await used.egress.use(caller, left_s, partial(send_one, following))
    return following


def _advance(
    steps: Generator[HttpRequest, HttpReply, EnginePage], reply: HttpReply | None
) -> HttpRequest | EnginePage:
    """What an engine wants next, or its page."""
    try:
        return next(steps) if reply is None else steps.send(reply)
    except StopIteration as done:
        page: EnginePage = done.value
        return page
