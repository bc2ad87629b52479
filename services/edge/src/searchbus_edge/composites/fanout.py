"""Several sources at once, each with its share of the deadline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from searchbus_bus import Gathered
from searchbus_bus.client.fanout import gather
from searchbus_contracts import ErrorCode, Fault

__all__ = ["Request", "request_all"]

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
                raise Fault(
                    ErrorCode.INTERNAL, "Its reply could not be read. Go on without it."
                ) from None

        return run

    return await gather({name: guarded(request) for name, request in requests.items()})
