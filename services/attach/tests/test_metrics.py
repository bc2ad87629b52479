"""The names of the metrics of attached servers, which the dashboard and the documentation use."""

from __future__ import annotations

from contextlib import suppress

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from searchbus_attach import metrics
from searchbus_contracts import Fault


def test_each_count_is_labelled_with_the_server(monkeypatch):
    """And with nothing of a call's content."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    monkeypatch.setattr(metrics, "_calls", meter.create_histogram("calls"))
    for name in (
        "_restarts", "_refused", "_changes", "_mismatches", "_file_faults", "_handovers",
        "_sessions", "_dropped", "_tokens", "_logins",
    ):  # fmt: skip
        monkeypatch.setattr(metrics, name, meter.create_counter(name[1:]))
    with metrics.measured_call("files"):
        pass
    with metrics.measured_call("files", failures_only=True):
        pass
    with suppress(Fault), metrics.measured_call("files", failures_only=True):
        raise Fault("not_found", "m")
    metrics.count_restart("files")
    metrics.count_refused("files", 3)
    metrics.count_change("files", "hold")
    metrics.count_mismatch("files")
    metrics.count_dropped("files", "log")
    metrics.count_file_fault()
    metrics.count_handover("files", "ok")
    metrics.count_session("files", "lost")
    metrics.count_token("files", "client_credentials", "ok")
    metrics.count_login("files", "failed")
    (resource,) = reader.get_metrics_data().resource_metrics
    found = {
        metric.name: [dict(point.attributes) for point in metric.data.data_points]
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found == {
        "calls": [{"server": "files", "code": "ok"}, {"server": "files", "code": "not_found"}],
        "restarts": [{"server": "files"}],
        "refused": [{"server": "files"}],
        "changes": [{"server": "files", "policy": "hold"}],
        "mismatches": [{"server": "files"}],
        "file_faults": [{}],
        "dropped": [{"server": "files", "kind": "log"}],
        "handovers": [{"server": "files", "code": "ok"}],
        "sessions": [{"server": "files", "event": "lost"}],
        "tokens": [{"server": "files", "type": "client_credentials", "outcome": "ok"}],
        "logins": [{"server": "files", "outcome": "failed"}],
    }
