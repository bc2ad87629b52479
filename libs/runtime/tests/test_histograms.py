"""Light histograms export what the SDK's export for the same measurements."""

from __future__ import annotations

import math
import threading

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, generate_latest

from searchbus_runtime import histograms
from searchbus_runtime.histograms import (
    HistogramReader,
    Histograms,
    LightHistogram,
    LightMeterProvider,
)

RESOURCE = Resource({"service.name": "here"})


class Prometheus(HistogramReader, PrometheusMetricReader):
    pass


class InMemory(HistogramReader, InMemoryMetricReader):
    pass


def measure(provider) -> None:
    """The same calls for any provider."""
    meter = provider.get_meter("searchbus.test")
    bounds = (0.001, 0.5, 1, 60)
    seconds = meter.create_histogram(
        "searchbus.work.duration", unit="s", description='Work "done".',
        explicit_bucket_boundaries_advisory=bounds,
    )  # fmt: skip
    for value in (0.0, 0.001, 0.2, 1, 7.5, 1000):
        seconds.record(value, {"side": "client", "error.type": 'a"b'})
    seconds.record(2, {"side": "server", "error.type": "x"})
    seconds.record(-1)
    seconds.record(math.inf)
    seconds.record(math.nan)
    provider.get_meter("searchbus.other", "2").create_histogram("searchbus.sizes").record(300)
    meter.create_counter("searchbus.counted").add(3, {"kind": "x"})


def test_prometheus_text_is_the_sdks():
    """Names, labels, buckets, sums."""
    texts = []
    for light in (True, False):
        registry = CollectorRegistry()
        if light:
            reader = Prometheus(registry=registry)
            reader.histograms = Histograms(RESOURCE)
            provider = MeterProvider([reader], resource=RESOURCE)
            measure(LightMeterProvider(provider, reader.histograms))
        else:
            measure(MeterProvider([PrometheusMetricReader(registry=registry)], resource=RESOURCE))
        lines = generate_latest(registry).decode().splitlines()
        texts.append(sorted(line for line in lines if "counted_created" not in line))
    assert texts[0] == texts[1]


def test_data_points_are_the_sdks():
    """As OTLP exports them."""
    points = []
    for light in (True, False):
        reader = InMemory() if light else InMemoryMetricReader()
        provider = MeterProvider([reader], resource=RESOURCE)
        if light:
            reader.histograms = Histograms(RESOURCE)
            measure(LightMeterProvider(provider, reader.histograms))
        else:
            measure(provider)
        found = {}
        for resource in reader.get_metrics_data().resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        key = (
                            scope.scope.name,
                            metric.name,
                            metric.unit,
                            *point.attributes.items(),
                        )
                        if metric.name != "searchbus.counted":
                            found[key] = (
                                point.count,
                                point.sum,
                                tuple(point.bucket_counts),
                                tuple(point.explicit_bounds),
                                point.min,
                                point.max,
                            )
        points.append(found)
    assert points[0] == points[1]
    assert len(points[0]) == 3


def test_one_name_is_one_histogram():
    """Two modules that share it add to the same sums."""
    found = Histograms(RESOURCE)
    meter = LightMeterProvider(MeterProvider(), found).get_meter("x")
    assert meter.create_histogram("a") is meter.create_histogram("a")
    assert meter.create_histogram("a") is not meter.create_histogram("b")


def test_series_are_limited(monkeypatch):
    """Further ones are counted together."""
    monkeypatch.setattr(histograms, "MAX_SERIES", 2)
    histogram = LightHistogram("a", "s", "", None)
    for number in range(5):
        histogram.record(1, {"n": number})
    points = histogram.collect().data.data_points
    assert [p.count for p in points] == [1, 1, 3]
    assert points[-1].attributes == {"otel.metric.overflow": True}


def test_threads_lose_no_count():
    """Embedding runs in threads."""
    histogram = LightHistogram("a", "s", "", (1,))

    def work():
        for _ in range(5000):
            histogram.record(0.5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (point,) = histogram.collect().data.data_points
    assert point.count == 20_000
    assert point.sum == pytest.approx(10_000)


def test_nothing_recorded_is_nothing_exported():
    """As in the SDK."""
    assert LightHistogram("a", "s", "", (1,)).collect() is None
