"""The names of the metrics of signing in."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from searchbus_attach.auth import measuring


def test_requests_and_sign_ins_are_counted_by_outcome(monkeypatch):
    """And without the caller."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    for name in ("_tokens", "_logins"):
        monkeypatch.setattr(measuring, name, meter.create_counter(name[1:]))
    measuring.count_token("safe", "client_credentials", "ok")
    measuring.count_login("safe", "failed")
    (resource,) = reader.get_metrics_data().resource_metrics
    found = {
        metric.name: [dict(point.attributes) for point in metric.data.data_points]
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found == {
        "tokens": [{"server": "safe", "type": "client_credentials", "outcome": "ok"}],
        "logins": [{"server": "safe", "outcome": "failed"}],
    }
