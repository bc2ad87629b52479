"""The names of the metrics of attached servers, which the dashboard and the documentation use."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from searchbus_attach import metrics


def test_each_count_is_labelled_with_the_server(monkeypatch):
    """And with nothing of a call's content."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    monkeypatch.setattr(metrics, "_calls", meter.create_histogram("calls"))
    for name in ("_restarts", "_refused", "_changes", "_mismatches", "_file_faults"):
        monkeypatch.setattr(metrics, name, meter.create_counter(name[1:]))
    metrics.record_call(0.1, "files", "ok")
    metrics.count_restart("files")
    metrics.count_refused("files", 3)
    metrics.count_change("files", "hold")
    metrics.count_mismatch("files")
    metrics.count_file_fault()
    (resource,) = reader.get_metrics_data().resource_metrics
    found = {
        metric.name: [dict(point.attributes) for point in metric.data.data_points]
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found == {
        "calls": [{"server": "files", "code": "ok"}],
        "restarts": [{"server": "files"}],
        "refused": [{"server": "files"}],
        "changes": [{"server": "files", "policy": "hold"}],
        "mismatches": [{"server": "files"}],
        "file_faults": [{}],
    }
