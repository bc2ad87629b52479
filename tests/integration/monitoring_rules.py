"""Monitors, alerts and scalers compared with the metrics that the code measures."""

from __future__ import annotations

from collections.abc import Iterator

from .documents import fits, name_of
from .engine import SERVICES
from .manifests import Manifests
from .metrics_known import known_metrics, metrics_in


def monitoring_faults(manifests: Manifests) -> Iterator[str]:
    for monitor in manifests.of("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        watched = [
            s for s in manifests.of("Service") if fits(wanted, s["metadata"].get("labels", {}))
        ]
        if {name_of(s) for s in watched} < set(SERVICES):
            yield f"ServiceMonitor {name_of(monitor)} does not watch every service"
        if "app.kubernetes.io/part-of" not in monitor["spec"].get("targetLabels", []):
            yield f"ServiceMonitor {name_of(monitor)} drops the label that alerts select by"
        for endpoint in monitor["spec"]["endpoints"]:
            for service in watched:
                if endpoint["port"] not in {p["name"] for p in service["spec"]["ports"]}:
                    yield f"ServiceMonitor {name_of(monitor)}: {name_of(service)} has no port {endpoint['port']}"
    for scaler in manifests.of("ScaledObject"):
        here = f'namespace="{scaler["metadata"]["namespace"]}"'
        for trigger in scaler["spec"]["triggers"]:
            query = trigger["metadata"]["query"]
            if query.count(here) != query.count("{"):
                yield f"ScaledObject {name_of(scaler)} counts other installations, too"
    expressions = [
        (f"PrometheusRule {rule['alert']}", rule["expr"])
        for rules in manifests.of("PrometheusRule")
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
    ] + [
        (f"ScaledObject {name_of(scaler)}", trigger["metadata"]["query"])
        for scaler in manifests.of("ScaledObject")
        for trigger in scaler["spec"]["triggers"]
    ]
    for title, expression in expressions:
        for metric in metrics_in(expression) - known_metrics():
            yield f"{title} uses {metric}, which no code measures"
