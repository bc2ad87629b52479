"""Manners towards upstreams: cache and single flight, pace, breaker, bounded HTTP."""

from .addresses import is_public_host, is_public_url
from .breaker import Breaker
from .cache import Cached, SharedCache
from .guard import GuardedBackend
from .http import HttpTransport, Reply, Transport, UpstreamTimeout, UpstreamUnreachable
from .pace import Pace
from .retries import RetryBudget, with_retries
from .retry_after import retry_after_s
from .shared_pace import SharedPace
from .telemetry import count_limit, upstream_span
from .urls import canonical_key

__all__ = [
    "Breaker",
    "Cached",
    "GuardedBackend",
    "HttpTransport",
    "Pace",
    "Reply",
    "RetryBudget",
    "SharedCache",
    "SharedPace",
    "Transport",
    "UpstreamTimeout",
    "UpstreamUnreachable",
    "canonical_key",
    "count_limit",
    "is_public_host",
    "is_public_url",
    "retry_after_s",
    "upstream_span",
    "with_retries",
]
