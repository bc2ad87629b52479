"""How long a search waits for a provider, and whether it asks the provider at all.

Once the others have filled the page, a search waits for a provider no longer than a multiple of the
time that it usually takes. One that is silent several times in a row is not asked for a while; then
a single request probes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from opentelemetry import metrics

from searchbus_bus.client.fanout import RecentTimes
from searchbus_bus.live import LiveParts
from searchbus_bus.tasks import has_arrived, waited_for
from searchbus_contracts import ErrorCode, Fault, LivePart
from searchbus_upstream import Breaker

log = logging.getLogger("searchbus.web")
T = TypeVar("T")

_USUAL_TIMES = 3.0
_LEAST_S, _MOST_S = 1.0, 6.0
"""Limits of what a full page waits for; the second one also while the usual time is not known."""
_TIMEOUTS_TO_OPEN = 3
_COOLDOWN_S, _MAX_COOLDOWN_S = 30.0, 600.0
_count = metrics.get_meter("searchbus.web").create_counter(
    "searchbus.web.provider_timeouts",
    description="Searches that went on without a provider, because it did not answer in time.",
)


class ProviderTimeouts:
    """The response times of one provider, as this process measured them.

    Args:
        name: of the provider, in messages and metrics.
        clock: seconds of the epoch.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._times = RecentTimes()
        self._breaker = Breaker(
            f"web-{name}", kind="provider", max_cooldown_s=_MAX_COOLDOWN_S, clock=clock
        )
        self._in_a_row = 0
        self._silent_at_s = 0.0
        _providers.watch(self)

    @property
    def part(self) -> LivePart:
        """What it says of itself to a console."""
        return self._breaker.part("breaker", {"timeouts_in_a_row": self._in_a_row})

    async def ask(self, request: Callable[[], Awaitable[T]], timeout_s: float) -> T:
        """Send a request to the provider, unless it has been silent lately.

        Raises:
            Fault: of the request; deadline_exceeded where there is no reply in time, so that equal
                searches with more time go on; upstream_failed at once where it is not asked.
        """
        loop = asyncio.get_running_loop()
        probing = self._breaker.try_probe()
        if not (probing or self._breaker.closed):
            raise self._not_asked()
        started_s = loop.time()
        task = asyncio.ensure_future(request())
        waited_s = 0.0
        try:
            waited_s = await waited_for(task, timeout_s)
            reply = await asyncio.wait_for(task, 0)
        except (TimeoutError, Fault) as error:
            # Less says nothing about the provider: the caller had little time, it refused, or this
            # process stood still.
            if waited_s >= _MOST_S:
                self.silent(loop.time() - started_s)
            late = self._late(ErrorCode.DEADLINE_EXCEEDED)
            raise (error if isinstance(error, Fault) else late) from None
        else:
            self._in_a_row = 0
            self._times.add(loop.time() - started_s)
            self._breaker.succeeded()
            return reply
        finally:
            task.cancel()
            if probing:
                self._breaker.abandon()

    async def within(self, work: Awaitable[T], full: asyncio.Event) -> T:
        """The result of a search of the provider; once the page is full, only in its usual time.

        Args:
            full: set when other providers have filled the page.

        Raises:
            Fault: of the search; upstream_failed where the search goes on without it, which then
                ends, or where the caller's time ended and was enough for a provider.
        """
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        task = asyncio.ensure_future(work)
        filled = asyncio.ensure_future(full.wait())
        try:
            await waited_for(task, self._usual_s())
            await asyncio.wait({task, filled}, return_when=asyncio.FIRST_COMPLETED)
            if await has_arrived(task):
                return task.result()
            raise self.silent(loop.time() - started_s)
        except Fault as fault:
            short = loop.time() - started_s < _MOST_S
            if short or fault.code != ErrorCode.DEADLINE_EXCEEDED:
                raise
            raise self._late() from None
        finally:
            task.cancel()
            filled.cancel()

    def silent(self, seconds: float) -> Fault:
        """Record that there was no reply in this time; returns the failure of the search."""
        _count.add(1, {"provider": self._name})
        self._times.add(min(seconds, _MOST_S))
        now_s = asyncio.get_running_loop().time()
        # Searches that waited at the same time met one silence.
        if now_s - seconds >= self._silent_at_s:
            self._in_a_row += 1
            self._silent_at_s = now_s
        open_until_s = self._breaker.open_until_s
        if self._in_a_row >= _TIMEOUTS_TO_OPEN:
            cooldown_s = self._breaker.refused(_COOLDOWN_S)
            if self._breaker.open_until_s != open_until_s:
                log.warning("%s is silent and not asked for %.0f s", self._name, cooldown_s)
        return self._late()

    def _late(self, code: ErrorCode = ErrorCode.UPSTREAM_FAILED) -> Fault:
        return Fault(code, f"{self._name} did not answer in time. Try again shortly.")

    def _usual_s(self) -> float:
        usual_s = self._times.value_s
        return _MOST_S if usual_s is None else min(_MOST_S, max(_LEAST_S, _USUAL_TIMES * usual_s))

    def _not_asked(self) -> Fault:
        wait_s = max(1, round(self._breaker.remaining_s))
        return Fault(
            ErrorCode.UPSTREAM_FAILED,
            f"{self._name} did not answer in time repeatedly and is not asked now. "
            f"Try again in {wait_s} s, or use another search tool.",
            retry_after_ms=wait_s * 1000,
        )


_providers: LiveParts[ProviderTimeouts] = LiveParts(lambda provider: provider.part)
