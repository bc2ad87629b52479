"""Writes finished spans as JSON lines to a local file that all processes share.

Every process appends whole lines with one write. A full file is renamed to `<name>.1`, so that at
most twice the limit is kept. `traces` reads both files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode

from .traces import SpanRecord

__all__ = ["TraceFileExporter"]

_encoder = msgspec.json.Encoder(enc_hook=str)


_Line: Any = msgspec.defstruct("_Line", [field.name for field in fields(SpanRecord)])
"""One span in the file: what `traces` reads, as a type that is made and encoded quicker."""


class TraceFileExporter(SpanExporter):
    """Appends spans to a file of at most `max_bytes`, keeping one older file."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one batch."""
        lines = _encoder.encode_lines(list(map(_line, spans)))
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


def _line(span: ReadableSpan) -> Any:
    context, parent, attributes = span.context, span.parent, span.attributes
    assert context is not None
    return _Line(
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
        f"{parent.span_id:016x}" if parent else None,
        span.name,
        span.kind.name.lower(),
        str(span.resource.attributes.get("service.name", "")),
        span.start_time,
        span.end_time,
        _error(span.status),
        # The SDK's attributes are a mapping that msgspec does not know.
        attributes if type(attributes) is dict else dict(attributes or {}),
    )


def _error(status: Status) -> str | None:
    failed = status.status_code is StatusCode.ERROR
    return (status.description or "error") if failed else None
