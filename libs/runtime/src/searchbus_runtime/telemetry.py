"""Traces and metrics of a process: to a collector (OTLP) if one is set, else to a local file.

The SDK copies, cleans and hashes the attributes of every measurement: a call takes 15 % more of the
edge's CPU with its histograms, and 10 % more with its counters. `LightMeterProvider` makes the
instruments of the SDK, except that counters, and histograms of seconds with bounds of their own,
add up by themselves. The SDK reads such a counter when it exports. `Histograms` exports the others
as the SDK would: to Prometheus as a collector of its client, to OTLP as part of the exported data.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, Exemplar, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import REGISTRY
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as PrometheusExemplar

from searchbus_contracts import VERSION

from .settings import ServiceSettings
from .spans import LightTracerProvider, TraceFile

QUEUED_SPANS = 16_384
"""About ten seconds of a busy process. With the SDK's 2,048, bursts lost spans."""
EXPORT_DELAY_MS = 1_000


def configure_telemetry(service: str, settings: ServiceSettings) -> Callable[[], None]:
    """Install the providers; returns a function that flushes and stops them."""
    # The SDK counts the spans that its queue drops, and what it holds, only with this.
    os.environ.setdefault("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    endpoint = settings.otlp_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    resource = Resource.create(
        {
            "service.name": service,
            "service.namespace": "searchbus",
            "service.version": VERSION,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
    )
    readers: list[MetricReader] = [PrometheusMetricReader()]
    histograms = Histograms(resource)
    REGISTRY.register(histograms)
    processor: SpanProcessor | None = None
    if endpoint:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        base = endpoint.rstrip("/")
        processor = BatchSpanProcessor(
            OTLPSpanExporter(f"{base}/v1/traces"),
            max_queue_size=QUEUED_SPANS,
            schedule_delay_millis=EXPORT_DELAY_MS,
        )
        if settings.otlp_metrics:

            class Exporter(OTLPMetricExporter):
                """Exports the light histograms too."""

                def export(self, metrics_data: MetricsData, *fields: Any, **options: Any) -> Any:
                    return super().export(histograms.add_to(metrics_data), *fields, **options)

            readers.append(PeriodicExportingMetricReader(Exporter(f"{base}/v1/metrics")))
    elif settings.trace_file is not None:
        processor = TraceFile(
            settings.trace_file,
            service=service,
            max_bytes=settings.trace_file_bytes,
            max_queued=QUEUED_SPANS,
        )
    tracing = LightTracerProvider(resource, ratio=settings.trace_sample_ratio, processor=processor)
    trace.set_tracer_provider(tracing)
    measuring = LightMeterProvider(
        histograms,
        resource=resource,
        metric_readers=readers,
        # The light histograms have exemplars; the SDK's would cost a lock a measurement.
        exemplar_filter=AlwaysOffExemplarFilter(),
    )
    metrics.set_meter_provider(measuring)

    def shutdown() -> None:
        tracing.shutdown()
        measuring.shutdown(timeout_millis=2000)

    return shutdown


MAX_SERIES = 2000
"""Series of one instrument, as in the SDK; further ones are counted together."""
_OVERFLOW = (("otel.metric.overflow", True),)


class LightCounter(Counter):
    """A counter that the SDK reads as an observable one."""

    def __init__(self, meter: Meter, name: str, unit: str, description: str) -> None:
        self._sums: dict[tuple[tuple[str, Any], ...], float] = {}
        self._lock = threading.Lock()
        meter.create_observable_counter(name, [self._observe], unit, description)

    def add(
        self,
        amount: float,
        attributes: Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> None:
        """Add to a sum; equal attributes are given in the same order at every call."""
        if not 0 <= amount < float("inf"):
            return
        key = tuple(attributes.items()) if attributes else ()
        with self._lock:
            if key not in self._sums and len(self._sums) >= MAX_SERIES:
                key = _OVERFLOW
            self._sums[key] = self._sums.get(key, 0) + amount

    def _observe(self, _: CallbackOptions) -> list[Observation]:
        with self._lock:
            return [Observation(amount, dict(key)) for key, amount in self._sums.items()]


_EXEMPLAR_EVERY_S = 1.0
"""A bucket's exemplar is replaced no more often: to look for the span costs a call each time."""
_Series = tuple[list[int], list[float], dict[int, Exemplar]]


class LightHistogram(Histogram):
    """A histogram of seconds since its start, by its buckets' upper bounds; the last has none."""

    def __init__(
        self, scope: InstrumentationScope, name: str, description: str, bounds: Sequence[float]
    ) -> None:
        self.scope = scope
        self.name = name
        self.description = description
        self._bounds = tuple(bounds)
        self._started_ns = time.time_ns()
        # By attributes: the count of each bucket, the sum, minimum and maximum of all values, and
        # the exemplar of each bucket that has one.
        self._series: dict[tuple[tuple[str, Any], ...], _Series] = {}
        self._lock = threading.Lock()

    def record(
        self,
        amount: float,
        attributes: Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> None:
        """Count one value; equal attributes are given in the same order at every call."""
        if not 0 <= amount < float("inf"):
            return
        key = tuple(attributes.items()) if attributes else ()
        with self._lock:
            series = self._series.get(key) or self._new_series(key, amount)
            counts, totals, exemplars = series
            bucket = bisect_left(self._bounds, amount)
            counts[bucket] += 1
            now_s = time.time()
            known = exemplars.get(bucket)
            if known is None or now_s - known.time_unix_nano / 1e9 >= _EXEMPLAR_EVERY_S:
                span = trace.get_current_span().get_span_context()
                if span.trace_flags.sampled:
                    exemplars[bucket] = Exemplar(
                        {}, amount, int(now_s * 1e9), span.span_id, span.trace_id
                    )
            totals[0] += amount
            if amount < totals[1]:
                totals[1] = amount
            elif amount > totals[2]:
                totals[2] = amount

    def _new_series(self, key: tuple[tuple[str, Any], ...], first: float) -> _Series:
        if len(self._series) >= MAX_SERIES:
            key = _OVERFLOW
        empty: _Series = ([0] * (len(self._bounds) + 1), [0.0, first, first], {})
        return self._series.setdefault(key, empty)

    def points(self) -> list[HistogramDataPoint]:
        """What it has counted so far."""
        now_ns = time.time_ns()
        with self._lock:
            return [
                HistogramDataPoint(
                    attributes=dict(key),
                    start_time_unix_nano=self._started_ns,
                    time_unix_nano=now_ns,
                    count=sum(counts),
                    sum=total,
                    bucket_counts=tuple(counts),
                    explicit_bounds=self._bounds,
                    min=minimum,
                    max=maximum,
                    exemplars=list(exemplars.values()),
                )
                for key, (counts, (total, minimum, maximum), exemplars) in self._series.items()
            ]


class Histograms(Collector):
    """All light histograms of a process; register it with a registry of prometheus_client."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._found: dict[tuple[InstrumentationScope, str], LightHistogram] = {}

    def add(self, histogram: LightHistogram) -> LightHistogram:
        """Export a histogram from now on; of two with one name the first counts for both."""
        return self._found.setdefault((histogram.scope, histogram.name), histogram)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """For Prometheus: names and labels are those that the SDK's exporter writes."""
        for histogram in list(self._found.values()):
            points = histogram.points()
            if not points:
                continue
            scope = {
                "otel_scope_name": histogram.scope.name,
                "otel_scope_version": histogram.scope.version or "",
                "otel_scope_schema_url": histogram.scope.schema_url or "",
            }
            rows = [{**scope, **_labels(point.attributes or {})} for point in points]
            names = sorted({name for row in rows for name in row})
            family = HistogramMetricFamily(
                histogram.name.replace(".", "_"), histogram.description, labels=names,
                unit="seconds",
            )  # fmt: skip
            for row, point in zip(rows, points, strict=True):
                bounds = [*map(str, point.explicit_bounds), "+Inf"]
                buckets: list[Any] = list(zip(bounds, accumulate(point.bucket_counts), strict=True))
                for found in point.exemplars:
                    place = bisect_left(point.explicit_bounds, found.value)
                    buckets[place] = (*buckets[place], _exemplar(found))
                family.add_metric([row.get(name, "") for name in names], buckets, point.sum)
            yield family

    def add_to(self, data: MetricsData) -> MetricsData:
        """For OTLP: the SDK's data with the histograms."""
        scopes = []
        for histogram in list(self._found.values()):
            points = histogram.points()
            if points:
                cumulative = HistogramData(points, AggregationTemporality.CUMULATIVE)
                metric = Metric(histogram.name, histogram.description, "s", cumulative)
                scopes.append(ScopeMetrics(histogram.scope, [metric], ""))
        own = [ResourceMetrics(self._resource, scopes, "")] if scopes else []
        return MetricsData([*data.resource_metrics, *own])


def _exemplar(found: Exemplar) -> PrometheusExemplar:
    ids = {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}
    return PrometheusExemplar(ids, found.value, found.time_unix_nano / 1e9)


def _labels(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace(".", "_"): str(value) for name, value in attributes.items()}


class LightMeterProvider(MeterProvider):
    """The SDK's provider with light counters, and light histograms of seconds with own bounds."""

    def __init__(self, histograms: Histograms, **options: Any) -> None:
        super().__init__(**options)
        self._histograms = histograms
        self._counters: dict[tuple[InstrumentationScope, str], LightCounter] = {}

    def get_meter(
        self,
        name: str,
        version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,
    ) -> Meter:
        """A meter of one library."""
        meter: Any = super().get_meter(name, version, schema_url, attributes)
        scope = InstrumentationScope(name, version, schema_url)

        def create_histogram(
            name: str, unit: str = "", description: str = "", **options: Any
        ) -> Any:
            bounds = options.get("explicit_bucket_boundaries_advisory")
            if unit == "s" and bounds is not None:
                return self._histograms.add(LightHistogram(scope, name, description, bounds))
            return type(meter).create_histogram(meter, name, unit, description, **options)

        def create_counter(name: str, unit: str = "", description: str = "") -> Counter:
            if (scope, name) not in self._counters:
                counter = LightCounter(meter, name, unit, description)
                self._counters[scope, name] = counter
            return self._counters[scope, name]

        meter.create_histogram, meter.create_counter = create_histogram, create_counter
        found: Meter = meter
        return found
