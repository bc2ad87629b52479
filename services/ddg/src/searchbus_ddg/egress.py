"""One egress address: its HTTP client, its pace, whether DuckDuckGo refuses it, and its lease.

An address belongs to the worker that holds its lease.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from searchbus_bus import KeyValue
from searchbus_bus.live import LiveParts
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import (
    Breaker,
    HttpClient,
    HttpReply,
    HttpRequest,
    Pace,
    UpstreamClient,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    upstream_span,
)

from .outcome import REFUSALS, EngineError, Outcome

log = logging.getLogger("searchbus.ddg")
T = TypeVar("T")

_REPLY_S = 2.0
"""Kept of the caller's time for DuckDuckGo's reply: a turn that comes later is of no use."""
_BROWSERS_OWN = {"user-agent", "accept", "accept-encoding", "upgrade-insecure-requests"}
"""Headers that the imitated browser sets itself."""
VOUCHED_S = 60.0
"""For this long after a probe that followed a blank page, blank pages are held against queries."""


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """How long an address sends no requests after a refusal, in seconds.

    `suspicion_s` is that after a blank page, until the probe.
    """

    challenge_s: float = 3600.0
    rate_limited_s: float = 180.0
    suspicion_s: float = 5.0

    def after(self, error: EngineError) -> float:
        """The cooldown for one refusal: at least what DuckDuckGo asked for."""
        limited = error.outcome is Outcome.RATE_LIMITED
        least_s = self.rate_limited_s if limited else self.challenge_s
        return max(least_s, error.retry_after_s or 0.0)


@dataclass(eq=False)
class Egress:
    """Sends requests at a pace, and none while the address is cooling down.

    A blank page may be due to the query. It cools the address down until a probe with a known
    query: if that gets a blank page too, the address is refused; if it succeeds, blank pages cool
    nothing down for a while, so that no query can keep the address out of use.

    Args:
        name: in logs and metrics.
        title: of the engine, in messages.
        max_in_flight: requests at the same time, whatever the pace.
        probed: whether somebody calls `probe` after a cooldown, as for an address; else it is for
            one engine, and the next request is the probe.
        clock: seconds of the epoch.
    """

    name: str
    client: UpstreamClient
    pace: Pace
    _: KW_ONLY
    title: str = "DuckDuckGo"
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    max_in_flight: int = 4
    probed: bool = True
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        kind = "egress" if self.probed else "engine"
        self.breaker = Breaker(self.name, kind=kind, clock=self.clock)
        self.on_refused: Callable[[], None] = lambda: None
        self._vouched_until_s = 0.0
        self._slots = asyncio.Semaphore(self.max_in_flight)
        _egresses.watch(self)

    async def use(
        self, caller: str, timeout_s: float, request: Callable[[float], Awaitable[T]]
    ) -> T:
        """Run `request(seconds left)` in its turn.

        Raises:
            Fault: upstream_blocked while the address is cooling down; overloaded where the turn
                would come too late for a reply.
            EngineError: of the request; `QUERY_REFUSED` for a blank page of an address that a
                probe has just found healthy.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        probing = not self.probed and self.breaker.try_probe()
        try:
            self._require_closed(probing)
            await self.pace.slot(caller, max(0.0, timeout_s - _REPLY_S))
            async with self._slots:
                self._require_closed(probing)
                try:
                    result = await request(max(0.001, end_s - loop.time()))
                except EngineError as error:
                    raise self._judged(error) from None
                self.breaker.succeeded()
                return result
        finally:
            if probing:
                self.breaker.abandon()

    def wait_s(self, caller: str) -> float:
        """About how long a new request would wait for its turn; 0 where the address is refused."""
        return self.pace.wait_s(caller) if self.breaker.closed else 0.0

    async def probe(self, request: Callable[[float], Awaitable[T]], timeout_s: float) -> bool:
        """Send one request after the cooldown; True where the address is healthy again."""
        if not self.breaker.try_probe():
            return self.breaker.closed
        try:
            await request(timeout_s)
        except EngineError as error:
            if error.outcome in REFUSALS:
                self._refused(error)
            elif self.breaker.suspected:
                log.info("%s: the probe shows no refusal: %s", self.name, error)
                self.breaker.close()
            else:
                log.info("%s is still refused: %s", self.name, error)
                self.breaker.refused(self.cooldowns.rate_limited_s)
        except BaseException:
            self.breaker.refused(1.0)
            raise
        else:
            if self.breaker.suspected:
                self._vouched_until_s = self.clock() + VOUCHED_S
            self.breaker.succeeded()
        return self.breaker.closed

    def _judged(self, error: EngineError) -> EngineError:
        """What a failure means, after its effect on the address."""
        if error.outcome is not Outcome.BLANK:
            if error.outcome in REFUSALS:
                self._refused(error)
            return error
        if self.clock() < self._vouched_until_s:
            return EngineError(Outcome.QUERY_REFUSED, error.detail)
        if self.breaker.closed:
            self.breaker.suspect(self.cooldowns.suspicion_s)
            log.warning(
                "%s: %s; a probe in %.0f s decides", self.name, error.detail,
                self.cooldowns.suspicion_s,
            )  # fmt: skip
            self.on_refused()
        return error

    def _refused(self, error: EngineError) -> None:
        if self.breaker.closed:  # neither a probe nor a late reply slows the address down further
            self.pace.refused()
        cooldown_s = self.breaker.refused(self.cooldowns.after(error))
        log.warning("%s: %s; cooldown of %.0f s", self.name, error.detail, cooldown_s)
        # They can go to other workers. A suspicion may be over before their turns.
        self.pace.fail_waiting(blocked(cooldown_s, title=self.title))
        self.on_refused()

    def _require_closed(self, probing: bool) -> None:
        if not (probing or self.breaker.closed):
            raise blocked(self.breaker.remaining_s, title=self.title)


def blocked(
    remaining_s: float,
    code: ErrorCode | str = ErrorCode.UPSTREAM_BLOCKED,
    *,
    title: str = "DuckDuckGo",
) -> Fault:
    """The failure of a call while the address is cooling down."""
    wait_s = max(1, math.ceil(remaining_s))
    return Fault(
        code,
        f"{title} refuses automated searches from here at the moment. This does not mean that "
        f"there are no results. Try again in {wait_s} seconds, or use another search tool.",
        retryable=True,
        retry_after_ms=wait_s * 1000,
    )


_egresses: LiveParts[Egress] = LiveParts(
    lambda egress: egress.breaker.part(
        "egress", {"waiting": egress.pace.waiting, "interval_s": round(egress.pace.interval_s, 1)}
    )
)


class ImpersonatingClient:
    """An `UpstreamClient` over curl_cffi, with a browser's TLS fingerprint.

    For addresses whose every request gets an empty page: `searchbus-ddg[impersonate]`.

    Args:
        browser: as curl_cffi names it, e.g. "chrome".
        proxy: URL of an HTTP or SOCKS proxy.
        interface: source address of the connections.

    Raises:
        RuntimeError: curl_cffi is not installed.
    """

    def __init__(
        self, browser: str, *, proxy: str | None = None, interface: str | None = None
    ) -> None:
        try:
            from curl_cffi.requests import AsyncSession
        except ImportError as error:
            raise RuntimeError(
                "SEARCHBUS_DDG_IMPERSONATE needs curl_cffi: pip install curl-cffi"
            ) from error
        self._session: Any = AsyncSession(
            impersonate=browser, proxy=proxy, interface=interface, trust_env=False
        )

    async def send(self, request: HttpRequest, *, timeout_s: float, max_bytes: int) -> HttpReply:
        """See `UpstreamClient`; User-Agent and Accept are the browser's own."""
        with upstream_span("duckduckgo", request.method, request.host) as span:
            reply = await self._send(request, timeout_s, max_bytes)
            span.replied(reply.status)
            return reply

    async def _send(self, request: HttpRequest, timeout_s: float, max_bytes: int) -> HttpReply:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _BROWSERS_OWN}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.stream(
                    request.method,
                    request.url,
                    headers=headers,
                    data=request.content if request.content is not None else request.form,
                    params=request.params,
                    allow_redirects=False,
                    timeout=timeout_s,
                ) as response,
            ):
                async for chunk in response.aiter_content():
                    body += chunk
                    if len(body) > max_bytes:
                        break
                names = {key.lower(): value for key, value in response.headers.items()}
                status = response.status_code
        except TimeoutError:
            raise UpstreamTimeoutError(f"no answer within {timeout_s:.1f} s") from None
        except Exception as error:  # curl_cffi has one class for every code of curl
            raise UpstreamUnreachableError(type(error).__name__) from None
        if len(body) > max_bytes:
            raise UpstreamUnreachableError(f"the answer is over {max_bytes} bytes", "too_large")
        return HttpReply(status, bytes(body), names)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


def open_client(egress: str, *, impersonate: str | None = None) -> UpstreamClient:
    """The HTTP client of an egress: `direct`, `bind:<own address>`, or a proxy's URL; as a browser
    that curl_cffi names, or by httpx."""
    kind, _, value = egress.partition(":")
    local = value if kind == "bind" else None
    proxy = None if egress == "direct" or local else egress
    if impersonate:
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


LEASE_TTL_S = 10.0


async def claim(
    leases: KeyValue,
    egresses: Sequence[str],
    holder: str,
    *,
    index: int,
    place: str = "",
    released: Collection[str] = (),
) -> str | None:
    """Take the lease of a free egress; `None` while all are taken.

    While the key-value store is unreachable the worker's number chooses: worker 0 gets the first.

    Args:
        holder: identifies this worker; its bytes are the value of the lease.
        index: the worker's number, where the search for a free egress starts.
        place: see `egress_id`.
        released: keys that were just deleted; the store may still list them.
    """
    start = index % len(egresses)
    try:
        taken = set(await leases.keys()).difference(released)
        for egress in [*egresses[start:], *egresses[:start]]:
            key = egress_id(egress, place)
            if key not in taken and await leases.create(key, holder.encode()) is not None:
                return egress
    except Fault as fault:
        log.warning("%s The worker's number chooses its egress.", fault.failure.message)
        return egresses[index] if index < len(egresses) else None
    return None
