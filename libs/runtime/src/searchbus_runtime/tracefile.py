"""Writes finished spans as JSON lines to a local file that all processes share.

Every process appends whole lines with one write. A full file is renamed to `<name>.1`, so that at
most twice the limit is kept. `traces` reads both files.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry import metrics
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from .line_queue import LineQueue
from .spans import UNSET, LightSpan
from .traces import SpanRecord

log = logging.getLogger("searchbus.process")
FLUSH_S = 0.2
"""So that `searchbus trace --last` finds a call that has just ended."""
_encoder = msgspec.json.Encoder(enc_hook=str)
_kinds = {kind.value: kind.name.lower() for kind in SpanKind}
# The name and the attribute that the SDK's processor has for a collector.
_processed = metrics.get_meter("searchbus.runtime").create_counter(
    "otel.sdk.processor.span.processed",
    description="Spans that were written, and with an error_type those that were lost.",
)

_Line: Any = msgspec.defstruct("_Line", [field.name for field in fields(SpanRecord)])
"""One span in the file: what `traces` reads, as a type that is made and encoded quicker."""


class TraceFile(SpanProcessor):
    """Appends spans to a file of at most `max_bytes`, keeping one older file.

    Args:
        service: of this process.
        max_queued: spans that wait to be written; further ones are lost and counted.
    """

    def __init__(
        self, path: Path, *, service: str, max_bytes: int, max_queued: int = 16_384
    ) -> None:
        self._path = path
        self._service = service
        self._max_bytes = max_bytes
        self._failing = False
        self._lines = LineQueue(self._write, name="traces", every_s=FLUSH_S, max_queued=max_queued)
        path.parent.mkdir(parents=True, exist_ok=True)

    def on_end(self, span: LightSpan) -> None:  # type: ignore[override]
        """Queue the line of a span; raises nothing."""
        try:
            line = _encoder.encode(self._line(span))
        except (ValueError, TypeError) as error:  # e.g. half a surrogate pair in an attribute
            _processed.add(1, {"error.type": type(error).__name__})
            return
        if not self._lines.add(line):
            _processed.add(1, {"error.type": "queue_full"})

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Write what is queued."""
        self._lines.flush()
        return True

    def shutdown(self) -> None:
        """Write what is queued and stop."""
        self._lines.close()

    def _write(self, lines: list[bytes]) -> None:
        """Append lines; while that fails, they are lost and counted."""
        try:
            self._append(b"\n".join(lines) + b"\n")
        except OSError as error:
            _processed.add(len(lines), {"error.type": type(error).__name__})
            if not self._failing:
                log.error("spans cannot be written to %s: %s", self._path, error)
            self._failing = True
        else:
            _processed.add(len(lines))
            self._failing = False

    def _append(self, data: bytes) -> None:
        # The lock makes "is it full, then rename" one step among several processes.
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._path.exists() and self._path.stat().st_size > self._max_bytes:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                if os.write(descriptor, data) < len(data):
                    os.ftruncate(descriptor, size)  # a torn line would spoil the next one, too
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)

    def _line(self, span: LightSpan) -> Any:
        ids = span.traceparent
        return _Line(
            ids[3:35],
            ids[36:52],
            span.parent.span_id.to_bytes(8, "big").hex() if span.parent else None,
            span.name,
            _kinds[span.kind._value_],  # `value`, and the hash of a member, are Python functions
            self._service,
            span.start_time,
            span.end_time,
            None if span.status is UNSET else _error(span.status),
            span.attributes,
        )


def _error(status: Status) -> str | None:
    failed = status.status_code is StatusCode.ERROR
    return (status.description or "error") if failed else None
