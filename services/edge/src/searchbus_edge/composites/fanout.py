"""Several sources at once, each with its share of the deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from searchbus_bus import Gathered
from searchbus_bus.fanout import gather
from searchbus_contracts import ErrorCode, Failure, Fault

__all__ = ["Request", "request_all", "worst_failure"]

SHARE = 0.85
"""Of the caller's time for the sources; the rest is for building the result."""
Request = Callable[[float], Awaitable[Any]]
"""Takes its timeout in seconds."""


async def request_all(requests: Mapping[str, Request], *, timeout_s: float) -> Gathered:
    """Run all requests concurrently; cancelling this cancels them all.

    A Fault of one request, or a reply that cannot be read, ends that request only.
    """

    def guarded(request: Request) -> Callable[[], Awaitable[Any]]:
        async def run() -> Any:
            try:
                return await request(timeout_s * SHARE)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise Fault(ErrorCode.INTERNAL, "Its reply could not be read.") from None

        return run

    return await gather({name: guarded(request) for name, request in requests.items()})


def _least_final(failure: Failure) -> tuple[bool, bool, int, str]:
    left_out = failure.code == ErrorCode.FORBIDDEN
    return left_out, not failure.retryable, failure.retry_after_ms or 0, failure.code


def worst_failure(failures: Mapping[str, Failure]) -> Fault:
    """One failure for all, where no source found anything: a retryable one if there is any."""
    chosen = min(failures.values(), key=_least_final)
    every = " ".join(f"{name}: {f.message}" for name, f in failures.items())
    code = chosen.code if chosen.code != ErrorCode.INTERNAL else ErrorCode.UPSTREAM_FAILED
    return Fault(
        code, f"Nothing was found, because sources failed. {every}", retryable=chosen.retryable,
        retry_after_ms=chosen.retry_after_ms,
    )  # fmt: skip
