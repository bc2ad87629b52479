"""Counters: what the SDK exports of them is what its own counter would."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from searchbus_runtime import counters
from searchbus_runtime.counters import LightCounter


def exported(count) -> dict:
    """Name, unit, kind and sums by attributes, of what `count` makes with a meter."""
    reader = InMemoryMetricReader()
    count(MeterProvider([reader]).get_meter("t"))
    (resource,) = reader.get_metrics_data().resource_metrics
    (metric,) = resource.scope_metrics[0].metrics
    points = {tuple(sorted(p.attributes.items())): p.value for p in metric.data.data_points}
    return {
        "name": metric.name, "unit": metric.unit, "description": metric.description,
        "monotonic": metric.data.is_monotonic, "points": points,
    }  # fmt: skip


def add(counter) -> None:
    counter.add(0, {"kind": "never"})
    for _ in range(3):
        counter.add(1, {"kind": "a", "code": "ok"})
    counter.add(2.5, {"kind": "b", "code": "ok"})
    counter.add(-1, {"kind": "b", "code": "ok"})
    counter.add(1)


def test_sums_are_exported_as_the_sdks_own() -> None:
    """Also a zero, and nothing negative."""
    names = ("things", "1", "Things.")
    own = exported(lambda meter: add(LightCounter(meter, *names)))
    assert own == exported(lambda meter: add(meter.create_counter(*names)))
    assert own["points"][("code", "ok"), ("kind", "a")] == 3


def test_too_many_series_are_counted_together(monkeypatch) -> None:
    """Attributes of others cannot fill the memory."""
    monkeypatch.setattr(counters, "MAX_SERIES", 2)

    def count(meter) -> None:
        counter = LightCounter(meter, "things")
        for number in range(5):
            counter.add(1, {"number": number})

    points = exported(count)["points"]
    assert points == {
        (("number", 0),): 1, (("number", 1),): 1, (("otel.metric.overflow", True),): 3
    }  # fmt: skip
