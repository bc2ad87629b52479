"""Calls to a provider's API: keys in rotation, a shared rate limit and a breaker for each key."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from searchbus_bus import KeyValue
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import (
    Breaker,
    Reply,
    Request,
    RetryBudget,
    SharedPace,
    UpstreamClient,
    UpstreamTimeout,
    UpstreamUnreachable,
    retry_after_s,
    with_retries,
)

from .faults import refused_inside
from .rows import read_reply

__all__ = ["Account", "AccountProvider", "FaultOf"]

log = logging.getLogger("searchbus.web")
T = TypeVar("T")

MAX_BYTES = 16 * 2**20
COOLDOWN_S = 3600.0
"""Of a key that was refused or whose plan is used up."""
_USED_SHARE = 0.95
"""Of the provider's rate limit, since its clock and ours differ."""
_TYPICAL_REPLY_S = 1.0
"""A slot that leaves less time than this is refused: the call would be paid for and time out."""
FaultOf = Callable[[Reply], Fault | None]
"""The failure that a reply stands for; None for a success."""


class _Key:
    def __init__(self, name: str, secret: str, pace: SharedPace) -> None:
        self.name = name
        self.secret = secret
        self.pace = pace
        self.breaker = Breaker(name, max_cooldown_s=COOLDOWN_S)


class Account:
    """An API with one or several keys.

    Args:
        provider: its name in messages and metrics.
        rate_per_minute: the provider's limit for one key; 95 % of it is used. 0: unknown.
        attempt_timeout_s: for one attempt.
    """

    def __init__(
        self,
        provider: str,
        client: UpstreamClient,
        keys: Sequence[str],
        *,
        fault_of: FaultOf,
        kv: KeyValue | None = None,
        rate_per_minute: float = 0.0,
        attempt_timeout_s: float = 20.0,
    ) -> None:
        self.provider = provider
        self._client = client
        self._fault_of = fault_of
        self._attempt_timeout_s = attempt_timeout_s
        self._budget = RetryBudget()
        self._next = 0
        rate_per_s = _USED_SHARE * rate_per_minute / 60
        self._keys = [self._key(secret, kv, rate_per_s) for secret in keys]

    def _key(self, secret: str, kv: KeyValue | None, rate_per_s: float) -> _Key:
        digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
        name = f"{self.provider}-{digest}"
        pace = SharedPace(kv, f"pace-{digest}", rate_per_s=rate_per_s, burst=2, name=name)
        return _Key(name, secret, pace)

    @property
    def usable(self) -> bool:
        """Whether a key may be used now."""
        return any(key.breaker.usable for key in self._keys)

    async def call(
        self, request: Callable[[str], Request], reply_type: type[T], *, timeout_s: float
    ) -> T:
        """Send `request(key)` and decode the reply.

        Raises:
            Fault: upstream_limited, upstream_failed, quota_exhausted, rate_limited,
                invalid_argument.
        """

        async def attempt(left_s: float) -> T:
            return await self._attempt(request, reply_type, left_s)

        return await with_retries(attempt, timeout_s=timeout_s, budget=self._budget)

    async def _attempt(
        self, request: Callable[[str], Request], reply_type: type[T], left_s: float
    ) -> T:
        key = self._choose()
        await key.pace.slot(max(0.0, left_s - _TYPICAL_REPLY_S))
        if not key.breaker.usable:  # refused meanwhile, by another request's reply
            key = self._choose()
        probing = key.breaker.try_probe()
        try:
            reply = await self._client.send(
                request(key.secret),
                timeout_s=min(left_s, self._attempt_timeout_s),
                max_bytes=MAX_BYTES,
            )
            return await self._read(key, reply, reply_type)
        except UpstreamTimeout:
            raise self._failed("did not answer in time") from None
        except UpstreamUnreachable as error:
            raise self._failed(f"cannot be reached ({error})") from None
        finally:
            if probing:
                key.breaker.abandon()

    async def _read(self, key: _Key, reply: Reply, reply_type: type[T]) -> T:
        fault = self._fault_of(reply)
        if fault is None:
            try:
                decoded = read_reply(reply.body, reply_type)
            except (ValueError, RecursionError):
                fault = refused_inside(self.provider, reply.body) or self._failed(
                    "sent an answer that cannot be read", retryable=False
                )
            else:
                key.breaker.succeeded()
                return decoded
        if reply.status in (401, 403, 432, 433) or fault.code == ErrorCode.QUOTA_EXHAUSTED:
            key.breaker.refused(COOLDOWN_S)
            log.error("%s: HTTP %d; the key is not used for an hour", key.name, reply.status)
            if self.usable:
                # With another key the request may succeed.
                raise Fault(fault.code, fault.failure.message, retryable=True)
        elif reply.status == 429 or fault.code == ErrorCode.UPSTREAM_LIMITED:
            await key.pace.pause(retry_after_s(reply.headers) or 1.0)
        raise fault

    def _choose(self) -> _Key:
        """The next key that may be used."""
        for _ in self._keys:
            key = self._keys[self._next % len(self._keys)]
            self._next += 1
            if key.breaker.usable:
                return key
        wait_s = min((key.breaker.remaining_s for key in self._keys), default=COOLDOWN_S)
        raise Fault(
            ErrorCode.QUOTA_EXHAUSTED,
            f"{self.provider} refuses every configured key, or its plan is used up. The next "
            f"attempt is in {wait_s:.0f} s; the operator of this service has to check the keys.",
            retryable=False,
            retry_after_ms=int(wait_s * 1000),
        )

    def _failed(self, what: str, *, retryable: bool = True) -> Fault:
        advice = "Try again shortly." if retryable else "Use another search tool."
        text = f"{self.provider} {what}. {advice}"
        return Fault(ErrorCode.UPSTREAM_FAILED, text, retryable=retryable)


class AccountProvider:
    """Base class of providers whose API is called with an account.

    Args:
        base_url: of the API, without the path of an endpoint.
    """

    has_news = True

    def __init__(self, account: Account, base_url: str) -> None:
        self._account = account
        self._base_url = base_url.rstrip("/")

    @property
    def usable(self) -> bool:
        """See `Provider`."""
        return self._account.usable
