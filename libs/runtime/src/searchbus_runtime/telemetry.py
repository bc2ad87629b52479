"""Traces and metrics of a process: to a collector (OTLP) if one is set, else to a local file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter
from opentelemetry.sdk.metrics.export import (
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import REGISTRY

from searchbus_contracts import VERSION

from .histograms import Histograms, LightMeterProvider
from .settings import ServiceSettings
from .spans import LightTracerProvider, TraceFile

QUEUED_SPANS = 16_384
"""About ten seconds of a busy process. With the SDK's 2,048, bursts lost spans."""
EXPORT_DELAY_MS = 1_000


def configure_telemetry(service: str, settings: ServiceSettings) -> Callable[[], None]:
    """Install the providers; returns a function that flushes and stops them."""
    # The SDK counts the spans that its queue drops, and what it holds, only with this.
    os.environ.setdefault("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    endpoint = settings.otlp_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    resource = Resource.create(
        {
            "service.name": service,
            "service.namespace": "searchbus",
            "service.version": VERSION,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }
    )
    readers: list[MetricReader] = [PrometheusMetricReader()]
    histograms = Histograms(resource)
    REGISTRY.register(histograms)
    processor: SpanProcessor | None = None
    if endpoint:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        base = endpoint.rstrip("/")
        processor = BatchSpanProcessor(
            OTLPSpanExporter(f"{base}/v1/traces"),
            max_queue_size=QUEUED_SPANS,
            schedule_delay_millis=EXPORT_DELAY_MS,
        )
        if settings.otlp_metrics:

            class Exporter(OTLPMetricExporter):
                """Exports the light histograms too."""

                def export(self, metrics_data: MetricsData, *fields: Any, **options: Any) -> Any:
                    return super().export(histograms.add_to(metrics_data), *fields, **options)

            readers.append(PeriodicExportingMetricReader(Exporter(f"{base}/v1/metrics")))
    elif settings.trace_file is not None:
        processor = TraceFile(
            settings.trace_file,
            service=service,
            max_bytes=settings.trace_file_bytes,
            max_queued=QUEUED_SPANS,
        )
    tracing = LightTracerProvider(resource, ratio=settings.trace_sample_ratio, processor=processor)
    trace.set_tracer_provider(tracing)
    measuring = LightMeterProvider(
        histograms,
        resource=resource,
        metric_readers=readers,
        # The light histograms have exemplars; the SDK's would cost a lock a measurement.
        exemplar_filter=AlwaysOffExemplarFilter(),
    )
    metrics.set_meter_provider(measuring)

    def shutdown() -> None:
        tracing.shutdown()
        measuring.shutdown(timeout_millis=2000)

    return shutdown
