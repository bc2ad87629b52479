"""Light histograms and counters export what the SDK's export for the same measurements."""

from __future__ import annotations

import math
import threading

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from searchbus_runtime import telemetry
from searchbus_runtime.telemetry import Histograms, LightHistogram, LightMeterProvider

RESOURCE = Resource({"service.name": "here"})
SCOPE = InstrumentationScope("searchbus.test")


def measure(provider) -> None:
    """The same calls for any provider."""
    meter = provider.get_meter("searchbus.test")
    bounds = (0.001, 0.5, 1, 60)
    seconds = meter.create_histogram(
        "searchbus.work.duration", unit="s", description='Work "done".',
        explicit_bucket_boundaries_advisory=bounds,
    )  # fmt: skip
    for value in (0.2, 0.0, 0.001, 1, 7.5, 1000):
        seconds.record(value, {"side": "client", "error.type": 'a"b'})
    seconds.record(2, {"side": "server"})
    for value in (-1, math.inf, math.nan):
        seconds.record(value)
    provider.get_meter("searchbus.other", "2").create_histogram("searchbus.sizes").record(300)
    for kind in ("x", "y", "x"):
        meter.create_counter("searchbus.counted", description="Counted.").add(3, {"kind": kind})
    meter.create_counter("searchbus.counted.plain", unit="s").add(0.5)
    meter.create_counter("searchbus.not.counted").add(-1)
    meter.create_up_down_counter("searchbus.up_down").add(3)
    meter.create_gauge("searchbus.gauge").set(3)
    meter.create_observable_counter("searchbus.observed")
    meter.create_observable_up_down_counter("searchbus.observed_up_down")
    meter.create_observable_gauge("searchbus.observed_gauge")


def test_prometheus_text_is_the_sdks():
    """Names, labels, buckets, sums."""
    texts = []
    for light in (True, False):
        registry = CollectorRegistry()
        reader = PrometheusMetricReader(registry=registry)
        if light:
            found = Histograms(RESOURCE)
            registry.register(found)
            measure(LightMeterProvider(found, metric_readers=[reader], resource=RESOURCE))
        else:
            measure(MeterProvider([reader], resource=RESOURCE))
        lines = generate_latest(registry).decode().splitlines()
        texts.append(sorted(line for line in lines if "_created" not in line))
    assert texts[0] == texts[1]


def points(data) -> dict:
    """Every data point of a histogram, by its scope, name, unit and attributes."""
    return {
        (scope.scope.name, metric.name, metric.unit, *point.attributes.items()): (
            point.count, point.sum, tuple(point.bucket_counts), tuple(point.explicit_bounds),
            point.min, point.max,
        )
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if hasattr(point, "bucket_counts")
    }  # fmt: skip


def test_data_points_are_the_sdks():
    """As OTLP exports them."""
    reader, sdks = InMemoryMetricReader(), InMemoryMetricReader()
    found = Histograms(RESOURCE)
    measure(LightMeterProvider(found, metric_readers=[reader], resource=RESOURCE))
    measure(MeterProvider([sdks], resource=RESOURCE))
    exported = points(found.add_to(reader.get_metrics_data()))
    assert exported == points(sdks.get_metrics_data())
    assert len(exported) == 3


def test_one_name_is_one_histogram():
    """Two modules that share it add to the same sums."""
    meter = LightMeterProvider(Histograms(RESOURCE)).get_meter("x")
    options = {"unit": "s", "explicit_bucket_boundaries_advisory": (1,)}
    assert meter.create_histogram("a", **options) is meter.create_histogram("a", **options)
    assert meter.create_histogram("a", **options) is not meter.create_histogram("b", **options)


def test_series_are_limited(monkeypatch):
    """Further ones are counted together."""
    monkeypatch.setattr(telemetry, "MAX_SERIES", 2)
    histogram = LightHistogram(SCOPE, "a", "", (1,))
    for number in range(5):
        histogram.record(1, {"n": number})
    found = histogram.points()
    assert [p.count for p in found] == [1, 1, 3]
    assert found[-1].attributes == {"otel.metric.overflow": True}


def counted(reader: InMemoryMetricReader) -> list[tuple[float, dict]]:
    """The sums of the only counter, with their attributes."""
    data = reader.get_metrics_data()
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert metric.data.is_monotonic
    return [(point.value, dict(point.attributes)) for point in metric.data.data_points]


def test_series_of_a_counter_are_limited(monkeypatch):
    """Further ones are counted together; a later reading has all that was counted before."""
    monkeypatch.setattr(telemetry, "MAX_SERIES", 2)
    reader = InMemoryMetricReader()
    counter = LightMeterProvider(Histograms(RESOURCE), metric_readers=[reader]).get_meter("x")
    for _ in range(2):
        for number in range(4):
            counter.create_counter("c").add(1, {"n": number})
        found = counted(reader)
    assert found == [(2, {"n": 0}), (2, {"n": 1}), (4, {"otel.metric.overflow": True})]


def test_threads_lose_no_addition():
    """Lines of the audit log are counted in a thread of their own."""
    reader = InMemoryMetricReader()
    provider = LightMeterProvider(Histograms(RESOURCE), metric_readers=[reader])
    counter = provider.get_meter("x").create_counter("c")
    threads = [
        threading.Thread(target=lambda: [counter.add(1) for _ in range(5000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted(reader) == [(20_000, {})]


def test_threads_lose_no_count():
    """Embedding runs in threads."""
    histogram = LightHistogram(SCOPE, "a", "", (1,))

    def work():
        for _ in range(5000):
            histogram.record(0.5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (point,) = histogram.points()
    assert point.count == 20_000
    assert point.sum == pytest.approx(10_000)


def test_nothing_recorded_is_nothing_exported():
    """As in the SDK."""
    found = Histograms(RESOURCE)
    found.add(LightHistogram(SCOPE, "a", "", (1,)))
    assert list(found.collect()) == []


def test_a_bucket_has_the_span_of_a_value_as_its_exemplar():
    """In OpenMetrics, and over OTLP; of a span that is sampled."""
    registry, found = CollectorRegistry(), Histograms(RESOURCE)
    registry.register(found)
    seconds = found.add(LightHistogram(SCOPE, "searchbus.work.duration", "Work.", (0.5, 1)))
    for trace_id, flags in ((7, TraceFlags.SAMPLED), (8, TraceFlags.DEFAULT)):
        context = SpanContext(trace_id, 9, is_remote=False, trace_flags=TraceFlags(flags))
        with use_span(NonRecordingSpan(context)):
            seconds.record(0.7 if flags else 2.0)
    seconds.record(0.1)
    families = text_string_to_metric_families(openmetrics(registry).decode())
    buckets = {s.labels["le"]: s for f in families for s in f.samples if s.name.endswith("_bucket")}
    assert buckets["1"].exemplar.labels == {"trace_id": f"{7:032x}", "span_id": f"{9:016x}"}
    assert buckets["1"].exemplar.value == 0.7
    assert (buckets["0.5"].exemplar, buckets["+Inf"].exemplar) == (None, None)
    (point,) = seconds.points()
    assert [(e.trace_id, e.span_id) for e in point.exemplars] == [(7, 9)]
