"""Traces and metrics of a process: to a collector (OTLP) if one is set, else to a local file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from searchbus_contracts import VERSION

from .settings import ServiceSettings
from .tracefile import TraceFileExporter

__all__ = ["configure_telemetry"]

QUEUED_SPANS = 16_384
"""About ten seconds of a busy process. With the SDK's 2,048, bursts lost spans."""
EXPORT_DELAY_MS = 1_000
FLUSH_DELAY_MS = 200
"""So that `searchbus trace --last` finds a call that has just ended."""


def configure_telemetry(service: str, settings: ServiceSettings) -> Callable[[], None]:
    """Install the providers; returns a function that flushes and stops them."""
    endpoint = settings.otlp_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    resource = Resource.create(
        {
            "service.name": service,
            "service.namespace": "searchbus",
            "service.version": VERSION,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
    )
    tracing = TracerProvider(
        resource=resource,
        sampler=ParentBased(TraceIdRatioBased(settings.trace_sample_ratio)),
    )
    readers: list[MetricReader] = [PrometheusMetricReader()]
    if endpoint:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        base = endpoint.rstrip("/")
        tracing.add_span_processor(
            BatchSpanProcessor(
                OTLPSpanExporter(f"{base}/v1/traces"),
                max_queue_size=QUEUED_SPANS,
                schedule_delay_millis=EXPORT_DELAY_MS,
            )
        )
        if settings.otlp_metrics:
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(f"{base}/v1/metrics")))
    elif settings.trace_file is not None:
        exporter = TraceFileExporter(settings.trace_file, max_bytes=settings.trace_file_bytes)
        tracing.add_span_processor(
            BatchSpanProcessor(
                exporter, max_queue_size=QUEUED_SPANS, schedule_delay_millis=FLUSH_DELAY_MS
            )
        )
    trace.set_tracer_provider(tracing)
    measuring = MeterProvider(resource=resource, metric_readers=readers)
    metrics.set_meter_provider(measuring)

    def shutdown() -> None:
        tracing.shutdown()
        measuring.shutdown(timeout_millis=2000)

    return shutdown
