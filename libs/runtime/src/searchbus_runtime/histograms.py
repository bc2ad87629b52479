"""Histograms that cost little to record, exported by the SDK's readers.

The SDK copies and hashes the attributes of every measurement. This meter provider keeps the SDK's
instruments, except that its histograms add up by themselves; `HistogramReader` puts their sums into
what a reader of the SDK exports, so that names and labels stay those of its exporters.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from opentelemetry import metrics
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

__all__ = ["HistogramReader", "Histograms", "LightHistogram", "LightMeterProvider"]

MAX_SERIES = 2000
"""Of one histogram, as in the SDK; further ones are counted together."""
_OVERFLOW = (("otel.metric.overflow", True),)
_DEFAULT_BOUNDS = (
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
)  # fmt: skip


class _Series:
    """The sums of one combination of labels."""

    __slots__ = ("counts", "maximum", "minimum", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0
        self.minimum = math.inf
        self.maximum = -math.inf


class LightHistogram(Histogram):
    """A histogram with explicit bounds, cumulative since its start."""

    def __init__(
        self, name: str, unit: str, description: str, bounds: Sequence[float] | None
    ) -> None:
        self.name = name
        self.unit = unit
        self.description = description
        self.bounds = tuple(_DEFAULT_BOUNDS if bounds is None else bounds)
        self._started_ns = time.time_ns()
        self._series: dict[tuple[tuple[str, Any], ...], _Series] = {}
        self._lock = threading.Lock()

    def record(
        self,
        amount: float,
        attributes: Any = None,
        context: Context | None = None,
    ) -> None:
        """Count one value; the labels have the same order at every call of one place."""
        if not 0 <= amount < math.inf:
            return
        key = tuple(attributes.items()) if attributes else ()
        with self._lock:
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= MAX_SERIES:
                    key = _OVERFLOW
                series = self._series.setdefault(key, _Series(len(self.bounds) + 1))
            series.counts[bisect_left(self.bounds, amount)] += 1
            series.total += amount
            if amount < series.minimum:
                series.minimum = amount
            if amount > series.maximum:
                series.maximum = amount

    def collect(self) -> Metric | None:
        """What it has counted so far; None for nothing."""
        now_ns = time.time_ns()
        with self._lock:
            points = [
                HistogramDataPoint(
                    attributes=dict(key),
                    start_time_unix_nano=self._started_ns,
                    time_unix_nano=now_ns,
                    count=sum(series.counts),
                    sum=series.total,
                    bucket_counts=tuple(series.counts),
                    explicit_bounds=self.bounds,
                    min=series.minimum,
                    max=series.maximum,
                )
                for key, series in self._series.items()
            ]
        if not points:
            return None
        data = HistogramData(points, AggregationTemporality.CUMULATIVE)
        return Metric(self.name, self.description, self.unit, data)


class Histograms:
    """All histograms of a process, by the scope of their meter."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._found: dict[InstrumentationScope, dict[str, LightHistogram]] = {}

    def add(self, scope: InstrumentationScope, histogram: LightHistogram) -> LightHistogram:
        """Export a histogram from now on; of two with one name the first counts for both."""
        return self._found.setdefault(scope, {}).setdefault(histogram.name, histogram)

    def add_to(self, data: MetricsData | None) -> MetricsData:
        """What a reader of the SDK exports, with the histograms."""
        scopes = []
        for scope, histograms in list(self._found.items()):
            found = [m for h in list(histograms.values()) if (m := h.collect()) is not None]
            if found:
                scopes.append(ScopeMetrics(scope, found, ""))
        others = [] if data is None else list(data.resource_metrics)
        return MetricsData([*others, ResourceMetrics(self._resource, scopes, "")])


class HistogramReader(MetricReader):
    """Mixed in before a reader of the SDK: `class Reader(HistogramReader, PrometheusMetricReader)`.

    Set `histograms` before the first collection.
    """

    histograms: Histograms | None = None

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any
    ) -> None:
        if self.histograms is not None:
            metrics_data = self.histograms.add_to(metrics_data)
        super()._receive_metrics(  # type: ignore[safe-super]
            metrics_data, timeout_millis, **options
        )


class LightMeterProvider(metrics.MeterProvider):
    """The SDK's provider, with light histograms."""

    def __init__(self, provider: MeterProvider, histograms: Histograms) -> None:
        self._provider = provider
        self._histograms = histograms

    def get_meter(
        self,
        name: str,
        version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,
    ) -> Meter:
        """A meter of one library."""
        meter = self._provider.get_meter(name, version, schema_url, attributes)
        scope = InstrumentationScope(name, version, schema_url)

        def create_histogram(
            name: str,
            unit: str = "",
            description: str = "",
            *,
            explicit_bucket_boundaries_advisory: Sequence[float] | None = None,
        ) -> Histogram:
            bounds = explicit_bucket_boundaries_advisory
            return self._histograms.add(scope, LightHistogram(name, unit, description, bounds))

        meter.create_histogram = create_histogram  # type: ignore[method-assign]
        return meter
