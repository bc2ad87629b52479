"""Writes finished spans as JSON lines to a local file that all processes share.

Every process appends whole lines with one write. A full file is renamed to `<name>.1`, so that at
most twice the limit is kept. `traces` reads both files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

__all__ = ["TraceFileExporter"]

_encoder = msgspec.json.Encoder(enc_hook=str)


class TraceFileExporter(SpanExporter):
    """Appends spans to a file of at most `max_bytes`, keeping one older file."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one batch."""
        lines = _encoder.encode_lines([_to_json(span) for span in spans])
        try:
            # The lock makes "is it full, then rename" one step among several processes.
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if self._path.exists() and self._path.stat().st_size > self._max_bytes:
                    self._path.replace(self._path.with_name(self._path.name + ".1"))
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(descriptor, lines)
                finally:
                    os.close(descriptor)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def _to_json(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    return {
        "trace_id": format_trace_id(context.trace_id),
        "span_id": format_span_id(context.span_id),
        "parent_id": format_span_id(span.parent.span_id) if span.parent else None,
        "name": span.name,
        "kind": span.kind.name.lower(),
        "service": str(span.resource.attributes.get("service.name", "")),
        "start_ns": span.start_time,
        "end_ns": span.end_time,
        "error": None if span.status.is_ok else (span.status.description or "error"),
        "attributes": dict(span.attributes or {}),
    }
