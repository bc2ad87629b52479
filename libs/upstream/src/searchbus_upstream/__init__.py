"""Requests to upstreams: shared cache, pacing, circuit breaker, retries, HTTP with limits.

Names are imported at their first use (PEP 562): the processes that parse pages need the cleaning of
text, and no HTTP client.
"""

from typing import TYPE_CHECKING

from searchbus_contracts.lazy import lazy_exports

if TYPE_CHECKING:
    from .addresses import canonical_key, is_public_host, is_public_url, without_trackers
    from .breaker import Breaker
    from .cache import Cached, Fetched, SharedCache
    from .guard import GuardedBackend
    from .http import (
        Cookies,
        HttpClient,
        HttpReply,
        HttpRequest,
        UpstreamClient,
        UpstreamTimeoutError,
        UpstreamUnreachableError,
    )
    from .pace import Pace, SharedPace
    from .retries import OnceError, RetryBudget, retry_after_s, with_retries
    from .telemetry import count_limit, upstream_span
    from .text import read_json

__all__ = [
    "Breaker", "Cached", "Cookies", "Fetched", "GuardedBackend", "HttpClient", "HttpReply",
    "HttpRequest", "OnceError", "Pace", "RetryBudget", "SharedCache", "SharedPace",
    "UpstreamClient", "UpstreamTimeoutError", "UpstreamUnreachableError", "canonical_key",
    "count_limit", "is_public_host", "is_public_url", "read_json", "retry_after_s", "upstream_span",
    "with_retries", "without_trackers",
]  # fmt: skip

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "addresses": (
            "canonical_key", "is_public_host", "is_public_url", "without_trackers",
        ),
        "breaker": ("Breaker",),
        "cache": ("Cached", "Fetched", "SharedCache"),
        "guard": ("GuardedBackend",),
        "http": (
            "Cookies", "HttpClient", "HttpReply", "HttpRequest", "UpstreamClient",
            "UpstreamTimeoutError", "UpstreamUnreachableError",
        ),
        "text": ("read_json",),
        "pace": ("Pace", "SharedPace"),
        "retries": ("OnceError", "RetryBudget", "retry_after_s", "with_retries"),
        "telemetry": ("count_limit", "upstream_span"),
    },
)  # fmt: skip
