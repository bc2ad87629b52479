"""Calls to a paid API: keys in rotation, one rate over all replicas, a breaker for each key."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from searchbus_bus import KeyValue
from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import (
    Breaker,
    Reply,
    RetryBudget,
    SharedPace,
    Transport,
    UpstreamTimeout,
    UpstreamUnreachable,
    retry_after_s,
    with_retries,
)

__all__ = ["Account", "Judge"]

log = logging.getLogger("searchbus.web")

MAX_BYTES = 16 * 2**20
REST_S = 3600.0
"""After a refused key or a used-up plan."""
_ANSWER_S = 1.0
"""What an answer usually takes."""
Judge = Callable[[Reply], Fault | None]
"""What a reply's status and body mean; None: it is an answer."""


class _Key:
    def __init__(self, name: str, secret: str, pace: SharedPace) -> None:
        self.name = name
        self.secret = secret
        self.pace = pace
        self.breaker = Breaker(name, max_s=REST_S)


class Account:
    """An API with one or several keys.

    Args:
        provider: for messages and figures.
        rate_per_minute: the provider's limit for one key; 95 % of it is used. 0: none known.
        attempt_timeout_s: for one attempt.
    """

    def __init__(
        self,
        provider: str,
        transport: Transport,
        keys: Sequence[str],
        *,
        judge: Judge,
        kv: KeyValue | None = None,
        rate_per_minute: float = 0.0,
        attempt_timeout_s: float = 20.0,
    ) -> None:
        self.provider = provider
        self._transport = transport
        self._judge = judge
        self._attempt_timeout_s = attempt_timeout_s
        self._budget = RetryBudget()
        self._next = 0
        rate_per_s = 0.95 * rate_per_minute / 60
        self._keys = [
            _Key(f"{provider}-{_digest(key)}", key, SharedPace(kv, f"pace-{_digest(key)}",
                 rate_per_s=rate_per_s, burst=2, name=f"{provider}-{_digest(key)}"))
            for key in keys
        ]  # fmt: skip

    @property
    def usable(self) -> bool:
        """Whether a key may be used now."""
        return any(key.breaker.usable for key in self._keys)

    async def call(
        self,
        request: Callable[[str], Mapping[str, Any]],
        reply_type: Any,
        *,
        timeout_s: float,
    ) -> Any:
        """Send `request(key)` (arguments of Transport.send) and decode the answer.

        Raises:
            Fault: upstream_limited, upstream_failed, quota_exhausted, rate_limited,
                invalid_argument, by the provider's own words where it has some.
        """

        async def attempt(left_s: float) -> Any:
            key = self._choose()
            # A slot that comes when there is no time for the answer would be a call wasted.
            await key.pace.slot(max(0.0, left_s - _ANSWER_S))
            # Others may have been refused while this one waited its turn.
            if not key.breaker.usable:
                key = self._choose()
            # A key that has rested is tried by one request.
            probing = key.breaker.try_probe()
            try:
                reply = await self._transport.send(
                    **request(key.secret),
                    timeout_s=min(left_s, self._attempt_timeout_s),
                    max_bytes=MAX_BYTES,
                )
            except UpstreamTimeout:
                raise self._failed("did not answer in time") from None
            except UpstreamUnreachable as error:
                raise self._failed(f"cannot be reached ({error})") from None
            else:
                return await self._read(key, reply, reply_type)
            finally:
                if probing:
                    key.breaker.abandon()

        return await with_retries(attempt, timeout_s=timeout_s, budget=self._budget)

    async def _read(self, key: _Key, reply: Reply, reply_type: Any) -> Any:
        fault = self._judge(reply)
        if fault is None:
            try:
                answer = msgspec.json.decode(reply.body, type=reply_type)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                raise self._failed("sent an answer that cannot be read", retryable=False) from None
            key.breaker.succeeded()
            return answer
        if reply.status in (401, 403, 432, 433):
            key.breaker.refused(REST_S)
            log.error("%s: HTTP %d; the key rests for an hour", key.name, reply.status)
            if any(other.breaker.usable for other in self._keys):
                # Another key may do: this is no failure of the request.
                raise Fault(fault.code, fault.failure.message, retryable=True)
        elif reply.status == 429:
            await key.pace.pause(retry_after_s(reply.headers) or 1.0)
        raise fault

    def _choose(self) -> _Key:
        """The next key that may be used."""
        for _ in self._keys:
            key = self._keys[self._next % len(self._keys)]
            self._next += 1
            if key.breaker.usable:
                return key
        wait_s = min((key.breaker.remaining_s for key in self._keys), default=REST_S)
        raise Fault(
            ErrorCode.QUOTA_EXHAUSTED,
            f"{self.provider} refuses every configured key, or its plan is used up. "
            f"It is asked again in {wait_s:.0f} s; whoever runs this service has to look at it.",
            retryable=False,
            retry_after_ms=int(wait_s * 1000),
        )

    def _failed(self, what: str, *, retryable: bool = True) -> Fault:
        text = f"{self.provider} {what}. Try again shortly."
        return Fault(ErrorCode.UPSTREAM_FAILED, text, retryable=retryable)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:8]
