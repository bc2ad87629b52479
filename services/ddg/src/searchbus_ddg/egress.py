"""One egress address: its HTTP client, its pace, and whether DuckDuckGo refuses it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import Breaker, HttpClient, Pace, UpstreamClient

from .outcome import REFUSALS, DuckDuckGoError, Outcome

__all__ = ["Cooldowns", "Egress", "blocked", "egress_id", "open_client"]

log = logging.getLogger("searchbus.ddg")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """How long an address sends no requests after a refusal, in seconds."""

    challenge_s: float = 3600.0
    rate_limited_s: float = 180.0

    def after(self, error: DuckDuckGoError) -> float:
        """The cooldown for one refusal: at least what DuckDuckGo asked for."""
        limited = error.outcome is Outcome.RATE_LIMITED
        least_s = self.rate_limited_s if limited else self.challenge_s
        return max(least_s, error.retry_after_s or 0.0)


class Egress:
    """Sends requests at a pace, and none while the address is cooling down.

    Args:
        name: in logs and metrics.
        max_in_flight: requests at the same time, whatever the pace.
        clock: seconds of the epoch.
    """

    def __init__(
        self,
        name: str,
        client: UpstreamClient,
        pace: Pace,
        *,
        cooldowns: Cooldowns | None = None,
        max_in_flight: int = 4,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.client = client
        self.pace = pace
        self.breaker = Breaker(name, clock=clock)
        self.on_refused: Callable[[], None] = lambda: None
        self._cooldowns = cooldowns or Cooldowns()
        self._slots = asyncio.Semaphore(max_in_flight)

    async def use(
        self, caller: str, timeout_s: float, request: Callable[[float], Awaitable[T]]
    ) -> T:
        """Run `request(seconds left)` in its turn.

        Raises:
            Fault: upstream_blocked while the address is cooling down; overloaded where the turn
                would come after the timeout.
            DuckDuckGoError: of the request.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        self._require_closed()
        await self.pace.slot(caller, timeout_s)
        async with self._slots:
            self._require_closed()
            return await self._send(request, max(0.001, end_s - loop.time()))

    async def probe(self, request: Callable[[float], Awaitable[T]], timeout_s: float) -> bool:
        """Send one request after the cooldown; True where the address is healthy again."""
        if not self.breaker.try_probe():
            return self.breaker.closed
        try:
            await self._send(request, timeout_s)
        except (DuckDuckGoError, Fault) as error:
            log.info("%s is still refused: %s", self.name, error)
            if not self.breaker.closed and self.breaker.remaining_s == 0:
                self.breaker.refused(self._cooldowns.rate_limited_s)
        except BaseException:
            self.breaker.refused(1.0)
            raise
        return self.breaker.closed

    async def _send(self, request: Callable[[float], Awaitable[T]], timeout_s: float) -> T:
        try:
            result = await request(timeout_s)
        except DuckDuckGoError as error:
            if error.outcome in REFUSALS:
                cooldown_s = self.breaker.refused(self._cooldowns.after(error))
                self.pace.refused()
                log.warning("%s: %s; cooldown of %.0f s", self.name, error.detail, cooldown_s)
                self.on_refused()
            raise
        self.breaker.succeeded()
        self.pace.succeeded()
        return result

    def _require_closed(self) -> None:
        if not self.breaker.closed:
            raise blocked(self.breaker.remaining_s)


def blocked(remaining_s: float) -> Fault:
    """The failure of a call while the address is cooling down."""
    wait_s = max(1, round(remaining_s))
    return Fault(
        ErrorCode.UPSTREAM_BLOCKED,
        f"DuckDuckGo refuses automated searches from here at the moment. This does not mean that "
        f"there are no results. Try again in {wait_s} seconds, or use another search tool.",
        retryable=True,
        retry_after_ms=wait_s * 1000,
    )


def open_client(egress: str, *, impersonate: str | None = None) -> UpstreamClient:
    """The HTTP client of an egress: `direct`, `bind:<own address>`, or a proxy's URL.

    Args:
        impersonate: a browser as curl_cffi names it; `None` uses httpx.
    """
    kind, _, value = egress.partition(":")
    local = value if kind == "bind" else None
    proxy = None if egress == "direct" or local else egress
    if impersonate:
        from .impersonate import ImpersonatingClient

        return ImpersonatingClient(impersonate, proxy=proxy, interface=local)
    return HttpClient("duckduckgo", proxy=proxy, local_address=local)


def egress_id(egress: str, place: str = "") -> str:
    """The address's key in leases: proxies are the same for all machines, others belong to one.

    A hash, so that a proxy's password cannot be read from it.

    Args:
        place: the machine whose address it is; by default this one.
    """
    local = egress.partition(":")[0] in ("direct", "bind")
    owner = (place or socket.gethostname()) if local else ""
    return hashlib.sha256(f"{owner}/{egress}".encode()).hexdigest()[:24]
