"""Traces of the stack's own file: the newest, filtered, and one with all its spans.

The file is bounded (setting TRACE_FILE_BYTES), and only its end is read. Where spans go to a
collector there is none, and the page leads there (setting CONSOLE_TRACE_LINK).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from msgspec import Struct

from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_runtime.traces import (
    SpanNode,
    SpanRecord,
    build_tree,
    by_trace,
    is_question,
    read_spans,
    subject_of,
)

from ...http.answer import PlainAnswer
from .access import API, Access

_MAX_READ_BYTES = 8 * 2**20
_MAX_TRACES = 100
_MAX_SPANS = 1_000
_MAX_CHARS = 500


class Trace(Struct, frozen=True, kw_only=True):
    """A trace by the span that it is about; the services that took part, the error of any span."""

    id: str
    name: str
    start_ms: float
    duration_ms: float
    spans: int
    services: list[str]
    error: str


def add_tracing(app: FastAPI, access: Access, file: Path | None) -> None:
    """Add the requests of this module; no `file` where spans go to a collector."""

    async def spans() -> list[SpanRecord]:
        if file is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "This stack sends its traces to a collector (SEARCHBUS_OTLP_ENDPOINT). Look there.",
            )
        path = file
        return await asyncio.to_thread(lambda: list(read_spans(path, _MAX_READ_BYTES)))

    @app.get(f"{API}/traces", dependencies=[Depends(access.seer)])
    async def traces(
        text: Annotated[str, Query(max_length=200)] = "",
        least_ms: Annotated[float, Query(ge=0)] = 0.0,
        failed: bool = False,
        every: bool = False,
    ) -> PlainAnswer:
        found = [
            _trace(one)
            for one in by_trace(await spans()).values()
            if every or any(map(is_question, one))
        ]
        words = text.lower().split()
        found = [
            trace
            for trace in found
            if trace.duration_ms >= least_ms
            and (trace.error or not failed)
            and all(word in f"{trace.id} {trace.name} {trace.services}".lower() for word in words)
        ]
        found.sort(key=lambda trace: -trace.start_ms)
        return PlainAnswer(encode({"total": len(found), "traces": found[:_MAX_TRACES]}))

    @app.get(f"{API}/trace", dependencies=[Depends(access.seer)])
    async def trace(id: Annotated[str, Query(max_length=64)]) -> PlainAnswer:
        found = [span for span in await spans() if span.trace_id == id]
        if not found:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "There is no such trace any more. Spans are written a moment after a call: try "
                "again.",
                retryable=True,
            )
        start_ns = min(span.start_ns for span in found)
        shown = [_span(span, depth, start_ns) for span, depth in _flat(build_tree(found), 0)]
        head = _trace(found)
        return PlainAnswer(encode({"trace": head, "spans": shown[:_MAX_SPANS]}))


def _trace(spans: list[SpanRecord]) -> Trace:
    subject = subject_of(spans)
    start_ns = min(span.start_ns for span in spans)
    return Trace(
        id=subject.trace_id,
        name=subject.name[:_MAX_CHARS],
        start_ms=start_ns / 1e6,
        duration_ms=(max(span.end_ns for span in spans) - start_ns) / 1e6,
        spans=len(spans),
        services=sorted({span.service for span in spans}),
        error=next((span.error for span in spans if span.error), ""),
    )


def _flat(nodes: list[SpanNode], depth: int) -> Iterator[tuple[SpanRecord, int]]:
    """The spans in order, each with its depth; a stack, since a trace may be deep."""
    waiting = [(node, depth) for node in reversed(nodes)]
    while waiting:
        node, level = waiting.pop()
        yield node.span, level
        waiting += [(child, level + 1) for child in reversed(node.children)]


def _span(span: SpanRecord, depth: int, origin_ns: int) -> dict[str, Any]:
    """A span of a trace, `depth` below its root, with its start after that of the trace."""
    return {
        "depth": depth,
        "service": span.service,
        "name": span.name[:_MAX_CHARS],
        "start_ms": (span.start_ns - origin_ns) / 1e6,
        "duration_ms": span.duration_ms,
        "error": span.error or "",
        "attributes": {key: str(value)[:_MAX_CHARS] for key, value in span.attributes.items()},
    }
