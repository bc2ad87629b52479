"""Reads the local trace file, for `searchbus trace`; needs no OpenTelemetry."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec


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
        """Its duration in milliseconds."""
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(slots=True)
class SpanNode:
    """A span and the spans inside it, in order of their start."""

    span: SpanRecord
    children: list[SpanNode] = field(default_factory=list)


# Also refuses halves of pairs of characters, which no reply can hold.
_span = msgspec.json.Decoder(SpanRecord)


def read_spans(path: Path, most_bytes: int = sys.maxsize) -> Iterator[SpanRecord]:
    """The spans in the last `most_bytes` of the older file and the file, in order of writing;
    skips torn lines."""
    parts = []
    for part in (path, path.with_name(path.name + ".1")):
        try:
            with part.open("rb") as file:
                size = file.seek(0, 2)
                start = max(0, size - most_bytes)
                file.seek(start)
                text = file.read(size - start)
        except OSError:
            continue
        parts.append(text.partition(b"\n")[2] if start else text)
        most_bytes -= len(text)
        if most_bytes <= 0:
            break
    for text in reversed(parts):
        for line in text.split(b"\n"):
            try:
                yield _span.decode(line)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue


def is_being_written(path: Path) -> bool:
    """Whether a process writes spans at this moment; the others wait until it has (spans.py)."""
    try:
        with path.with_suffix(".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nobody has written yet, or this user may not look
        pass
    return False


def by_trace(spans: Iterable[SpanRecord]) -> dict[str, list[SpanRecord]]:
    """Trace id → its spans."""
    found: dict[str, list[SpanRecord]] = {}
    for span in spans:
        found.setdefault(span.trace_id, []).append(span)
    return found


def is_question(span: SpanRecord) -> bool:
    """Whether a span is a tool call or a search."""
    return span.name.startswith("tools/call") or span.name.endswith(".search")


def subject_of(trace: list[SpanRecord]) -> SpanRecord:
    """The span that says what a trace is about: the call or search, not the list before it."""
    return min(filter(is_question, trace), default=None, key=_start_ns) or min(trace, key=_start_ns)


def is_whole(trace: list[SpanRecord]) -> bool:
    """Whether no span lacks its parent. Only a client's own may be elsewhere, that of a message."""
    roots = (root.span for root in build_tree(trace))
    return all(root.parent_id is None or root.kind == "server" for root in roots)


def _start_ns(span: SpanRecord) -> int:
    return span.start_ns


def build_tree(spans: Iterable[SpanRecord]) -> list[SpanNode]:
    """The roots of one trace. A span whose parent is unknown, e.g. in the client, is a root."""
    nodes = {span.span_id: SpanNode(span) for span in spans}
    roots: list[SpanNode] = []
    for node in sorted(nodes.values(), key=lambda n: (n.span.start_ns, n.span.span_id)):
        parent = nodes.get(node.span.parent_id or "")
        (parent.children if parent else roots).append(node)
    return roots
