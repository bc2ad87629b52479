"""The local trace file: finished spans as JSON lines, bounded, shared by all processes.

Every process appends whole lines with one write; the file is renamed to `<name>.1` when it is full,
so at most twice the limit is kept. `searchbus trace` reads both.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

__all__ = ["SpanNode", "SpanRecord", "TraceFileExporter", "build_tree", "read_spans"]


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One finished span; times in nanoseconds of the epoch."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    service: str
    start_ns: int
    end_ns: int
    error: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def duration_ms(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(slots=True)
class SpanNode:
    """A span and what happened inside it, in order of start."""

    span: SpanRecord
    children: list[SpanNode] = field(default_factory=list)


class TraceFileExporter(SpanExporter):
    """Appends spans to a file of at most `max_bytes`, keeping one older file."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one batch."""
        lines = "".join(
            json.dumps(_to_json(span), separators=(",", ":"), default=str) + "\n" for span in spans
        )
        try:
            # The lock makes "is it full, then rename" one step among several processes.
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if self._path.exists() and self._path.stat().st_size > self._max_bytes:
                    self._path.replace(self._path.with_name(self._path.name + ".1"))
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(descriptor, lines.encode())
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


def read_spans(path: Path) -> Iterator[SpanRecord]:
    """Every span of the file and its predecessor, oldest first; torn lines are left out."""
    for part in (path.with_name(path.name + ".1"), path):
        if not part.exists():
            continue
        with part.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    yield SpanRecord(**json.loads(line))
                except (ValueError, TypeError):
                    continue


def build_tree(spans: Iterable[SpanRecord]) -> list[SpanNode]:
    """The roots of one trace. A span whose parent is unknown (a client's own) is a root."""
    nodes = {span.span_id: SpanNode(span) for span in spans}
    roots: list[SpanNode] = []
    for node in sorted(nodes.values(), key=lambda n: (n.span.start_ns, n.span.span_id)):
        parent = nodes.get(node.span.parent_id or "")
        (parent.children if parent else roots).append(node)
    return roots
