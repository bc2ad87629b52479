"""Notices within seconds that a server no longer answers, and that it is back.

    requests ──► silent for longer than usual ──► one probe for all of them ──► it answers: wait on
                                                                           └──► no answer: away
    away: requests fail at once; a probe every `every_s` until one is answered

A server that is only slow answers its probe, so a long request keeps its time. A loss is known
`known_after_s` after the first request that met it, at the latest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger("searchbus.vectors")
T = TypeVar("T")
_TIMES_USUAL = 4.0
"""A request that takes so many times the usual time is a reason to probe."""
_RETURN_S = 2.0
"""What a probe of a server that is away may take: one that just came back is slow at first."""
_WAITS = 8
"""For a probe. They are counted, not the clock: while the machine stood still, no server answered.
"""
_WEIGHT = 0.1
"""What the last answer counts for in the usual time."""


class NoAnswerError(Exception):
    """The server does not answer; its cause is what the last request or probe met."""


class Liveness:
    """Whether a server answers. `close` ends its tasks.

    Args:
        name: of the server, in the log.
        probe: a cheap request; any exception means that the server does not answer.
        silence_s: how long a request may be silent before the server is probed: the least and the
            most; in between it follows from the usual time of an answer.
        known_after_s: silence and probe together.
        every_s: time between the probes of a server that is away.
    """

    def __init__(
        self,
        name: str,
        probe: Callable[[], Awaitable[object]],
        *,
        silence_s: tuple[float, float] = (0.1, 0.5),
        known_after_s: float = 1.75,
        every_s: float = 0.25,
    ) -> None:
        self.away = False
        self._why: BaseException | None = None
        self._name = name
        self._probe = probe
        self._silence_s = silence_s
        self._known_after_s = known_after_s
        self._every_s = every_s
        self._usual_s = silence_s[1] / _TIMES_USUAL
        self._asking: asyncio.Task[bool] | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def silence_s(self) -> float:
        """How long a request may be silent now before the server is probed."""
        least_s, most_s = self._silence_s
        return min(max(least_s, _TIMES_USUAL * self._usual_s), most_s)

    async def run(self, request: Coroutine[Any, Any, T], *, within_s: float | None = None) -> T:
        """The outcome of a request.

        Args:
            within_s: how long the request may take, whatever the probes say.

        Raises:
            NoAnswerError: at once while the server is away, else as soon as it is known.
            TimeoutError: the request took longer than `within_s`.
        """
        if self.away:
            request.close()
            raise NoAnswerError from self._why
        started_s = time.monotonic()
        task = asyncio.create_task(request)
        try:
            async with asyncio.timeout(within_s):
                while not task.done():
                    await asyncio.wait({task}, timeout=self.silence_s)
                    if not (task.done() or await self._answers() or task.done()):
                        raise NoAnswerError from self._why
            found = await task
        finally:
            task.cancel()
        self._usual_s += _WEIGHT * (time.monotonic() - started_s - self._usual_s)
        return found

    def lost(self, why: BaseException | None = None) -> None:
        """The server refused a connection, or cut one: it is away until a probe is answered."""
        self._why = why
        if not self.away:
            self.away = True
            self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """End the tasks."""
        tasks = [task for task in (self._asking, self._following) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answers(self) -> bool:
        """The outcome of the probe under way, or of a new one."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bool:
        if not self.away and not await self._probed(self._known_after_s - self.silence_s):
            self.lost(self._why)
        return not self.away

    async def _follow(self) -> None:
        # Not in `lost`: what is closed at once, as by each try of a start, says it by its failure.
        log.warning("%s does not answer", self._name)
        since_s = time.monotonic()
        while self.away:
            if await self._probed(_RETURN_S):
                self.away = False
            else:
                await asyncio.sleep(self._every_s)
        log.info("%s answers again after %.1f s", self._name, time.monotonic() - since_s)

    async def _probed(self, within_s: float) -> bool:
        probe = asyncio.ensure_future(self._probe())
        try:
            for _ in range(_WAITS):
                await asyncio.wait({probe}, timeout=within_s / _WAITS)
            await asyncio.wait_for(probe, 0)
        except Exception as error:  # whatever it is, this was no answer
            log.debug("probe of %s: %r", self._name, error)
            self._why = error
            return False
        finally:
            probe.cancel()
        return True
