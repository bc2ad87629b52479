"""The names of the metrics of attached servers, which the dashboard and the documentation use."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from searchbus_attach import metrics
from searchbus_contracts import Fault


def test_each_count_is_labelled_with_the_server(monkeypatch):
    """And with nothing of a call's content."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    monkeypatch.setattr(metrics, "_calls", meter.create_histogram("calls"))
    for name in metrics._counters:
        monkeypatch.setitem(metrics._counters, name, meter.create_counter(name))
    with metrics.MeasuredCall("files"):
        pass
    with metrics.MeasuredCall("files", failures_only=True):
        pass
    with suppress(Fault), metrics.MeasuredCall("files", failures_only=True):
        raise Fault("not_found", "m")
    metrics.count("restarts", server="files")
    metrics.count("refused", 3, server="files")
    metrics.count("file_faults")
    (resource,) = reader.get_metrics_data().resource_metrics
    found = {
        metric.name: [dict(point.attributes) for point in metric.data.data_points]
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found == {
        "calls": [{"server": "files", "code": "ok"}, {"server": "files", "code": "not_found"}],
        "searchbus.attach.restarts": [{"server": "files"}],
        "searchbus.attach.refused": [{"server": "files"}],
        "searchbus.attach.file_faults": [{}],
    }


def test_the_names_are_those_of_the_documentation():
    """The dashboard shows them; a name that changes is an empty panel."""
    documented = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text()
    for name in metrics._counters:
        assert f"`{name.replace('.', '_')}_total`" in documented
