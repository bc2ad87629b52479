"""One way out: its transport, its pace, and whether it is being refused."""

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
from searchbus_upstream import Breaker, HttpTransport, Pace, Transport

from .outcomes import REFUSALS, Kind, Refused

__all__ = ["Egress", "Rest", "egress_id", "open_transport"]

log = logging.getLogger("searchbus.ddg")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rest:
    """How long an address rests after a refusal, in seconds."""

    challenge_s: float = 3600.0
    rate_limited_s: float = 180.0

    def after(self, refused: Refused) -> float:
        """The rest for one refusal."""
        least = self.rate_limited_s if refused.kind is Kind.RATE_LIMITED else self.challenge_s
        return max(least, refused.retry_after_s or 0.0)


class Egress:
    """Sends requests one after the other, not too often, and not at all while refused.

    Args:
        max_in_flight: requests at once, whatever the pace.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        pace: Pace,
        *,
        rest: Rest | None = None,
        max_in_flight: int = 4,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.transport = transport
        self.pace = pace
        self.breaker = Breaker(name, clock=clock)
        self.on_refused: Callable[[], None] = lambda: None
        self._rest = rest or Rest()
        self._slots = asyncio.Semaphore(max_in_flight)

    async def use(
        self, caller: str, timeout_s: float, request: Callable[[float], Awaitable[T]]
    ) -> T:
        """Run `request(seconds left)` when it is its turn.

        Raises:
            Fault: upstream_blocked while the address rests; overloaded where the turn would come
                too late.
            Refused: what the upstream answered.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        self._require_closed()
        await self.pace.slot(caller, timeout_s)
        async with self._slots:
            self._require_closed()
            return await self._send(request, max(0.001, end_s - loop.time()))

    async def probe(self, request: Callable[[float], Awaitable[T]], timeout_s: float) -> bool:
        """Try one request after the rest; True when the address is welcome again."""
        if not self.breaker.try_probe():
            return self.breaker.closed
        try:
            await self._send(request, timeout_s)
        except (Refused, Fault) as error:
            log.info("%s is still refused: %s", self.name, error)
            if not self.breaker.closed and self.breaker.remaining_s == 0:
                self.breaker.refused(self._rest.rate_limited_s)
        except BaseException:
            self.breaker.refused(1.0)
            raise
        return self.breaker.closed

    async def _send(self, request: Callable[[float], Awaitable[T]], timeout_s: float) -> T:
        try:
            found = await request(timeout_s)
        except Refused as refused:
            if refused.kind in REFUSALS:
                rest_s = self.breaker.refused(self._rest.after(refused))
                self.pace.refused()
                log.warning("%s: %s; it rests for %.0f s", self.name, refused.detail, rest_s)
                self.on_refused()
            raise
        self.breaker.succeeded()
        self.pace.succeeded()
        return found

    def _require_closed(self) -> None:
        if not self.breaker.closed:
            raise blocked(self.breaker.remaining_s)


def blocked(remaining_s: float) -> Fault:
    """What a caller hears while the address rests."""
    wait_s = max(1, round(remaining_s))
    return Fault(
        ErrorCode.UPSTREAM_BLOCKED,
        f"DuckDuckGo refuses automated searches from here at the moment. This does not mean that "
        f"there are no results. Try again in {wait_s} seconds, or use another search tool.",
        retryable=True,
        retry_after_ms=wait_s * 1000,
    )


def open_transport(egress: str, *, impersonate: str | None = None) -> Transport:
    """The transport of `direct`, `bind:<own address>`, or a proxy's URL."""
    kind, _, value = egress.partition(":")
    local = value if kind == "bind" else None
    proxy = None if egress == "direct" or local else egress
    if impersonate:
        from .impersonate import ImpersonatingTransport

        return ImpersonatingTransport(impersonate, proxy=proxy, interface=local)
    return HttpTransport("duckduckgo", proxy=proxy, local_address=local)


def egress_id(egress: str, place: str = "") -> str:
    """Names the address in leases: a proxy is one for all machines, the rest belong to one place.

    A proxy's password must not be read from it.

    Args:
        place: the machine whose address it is; this one by default.
    """
    local = egress.partition(":")[0] in ("direct", "bind")
    owner = (place or socket.gethostname()) if local else ""
    return hashlib.sha256(f"{owner}/{egress}".encode()).hexdigest()[:24]
