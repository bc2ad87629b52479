"""Manners towards upstreams: cache and single flight, pace, breaker, bounded HTTP."""

from .addresses import is_public_host, is_public_url
from .breaker import Breaker
from .cache import Cached, SharedCache
from .http import HttpTransport, Reply, Transport, UpstreamTimeout, UpstreamUnreachable
from .pace import Pace

__all__ = [
    "Breaker",
    "Cached",
    "HttpTransport",
    "Pace",
    "Reply",
    "SharedCache",
    "Transport",
    "UpstreamTimeout",
    "UpstreamUnreachable",
    "is_public_host",
    "is_public_url",
]
