"""Spans and metrics of requests to upstreams, of caches, breakers and limits.

The label `upstream` is the service's own name for the upstream (`duckduckgo`, `Tavily`, `pages`),
so that the number of time series does not grow with the number of hosts. No attribute holds a URL,
a query or a key.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from searchbus_bus import SECONDS
from searchbus_bus.live import Tally

_tracer = trace.get_tracer("searchbus.upstream")
meter = metrics.get_meter("searchbus.upstream")
_duration = meter.create_histogram(
    "searchbus.upstream.request.duration",
    unit="s",
    description="Requests to upstreams, by upstream and outcome: an HTTP status or a failure.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_lookups = meter.create_counter(
    "searchbus.cache.lookups", description="Lookups in a cache: hit, stale, miss or error."
)
_limits = meter.create_counter(
    "searchbus.limiter.decisions", description="Decisions of a limit: admitted or refused."
)

_upstreams, _caches, _limiters = Tally("upstream"), Tally("cache"), Tally("limit")


class RequestSpan:
    """The span of one request; `outcome` is an HTTP status or the kind of failure."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.outcome = "cancelled"

    def replied(self, status: int) -> None:
        """Record a response, whatever its status."""
        self.outcome = str(status)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(StatusCode.ERROR)

    def failed(self, kind: str) -> None:
        """Record that no response was received."""
        self.outcome = kind
        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR, kind)


@contextmanager
def upstream_span(upstream: str, method: str, host: str) -> Iterator[RequestSpan]:
    """Open a client span around one HTTP request (semantic conventions) and record its duration."""
    started_s = time.perf_counter()
    attributes = {
        "http.request.method": method,
        "server.address": host,
        "service.peer.name": upstream,
    }
    with _tracer.start_as_current_span(
        f"{method} {upstream}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        request_span = RequestSpan(span)
        try:
            yield request_span
        except Exception as error:
            if kind := getattr(error, "kind", ""):  # no response was received
                request_span.failed(kind)
            raise
        finally:
            seconds, outcome = time.perf_counter() - started_s, request_span.outcome
            _duration.record(seconds, {"upstream": upstream, "outcome": outcome})
            _upstreams.add(upstream, "ok" if outcome[:1] in "123" else "failed")
            _upstreams.add(upstream, "seconds", seconds)


def count_lookup(cache: str, outcome: str) -> None:
    """Count one lookup in a cache."""
    _lookups.add(1, {"cache": cache, "outcome": outcome})
    _caches.add(cache, outcome)


def count_limit(limiter: str, *, admitted: bool) -> None:
    """Count one decision of a limit."""
    outcome = "admitted" if admitted else "refused"
    _limits.add(1, {"limiter": limiter, "outcome": outcome})
    _limiters.add(limiter, outcome)
