"""`searchbus trace`: the spans of one request as a waterfall."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from searchbus_runtime import SpanNode, SpanRecord, build_tree, data_folder, read_spans, read_state
from searchbus_runtime.traces import (
    by_trace,
    is_being_written,
    is_question,
    is_whole,
    subject_of,
)

from .output import Terminal, echo, fail, out

BAR_CHARS, MIN_BAR_CHARS = 40, 8
DURATION_CHARS = 14
FLUSH_WAIT_S = 1.5
"""Processes write their spans a moment after the request has ended."""
LOOK_EVERY_S = 0.4
"""Each process writes twice in this time."""
MOST_WAIT_S = 10.0
"""For processes that are late; a span that was lost never comes."""


def trace(
    trace_id: Annotated[
        str | None, typer.Argument(help="A trace's id, or its first characters.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest tool call or search.")] = False,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The spans as JSON.")] = False,
) -> None:
    """Show one trace, from the client's call to the store, or list the newest traces.

    Example: searchbus trace --last
    """
    folder = data_folder(data)
    path = folder / "traces.jsonl"
    state = read_state(folder)
    elsewhere = state.otlp_endpoint if state is not None else ""
    sent = elsewhere and (
        f"The running stack sends its traces to {elsewhere} (setting OTLP_ENDPOINT). Look there, "
        "or start it without that setting."
    )
    if sent and trace_id is None:
        raise fail(f"{sent} The file {path} has only older ones: search it by id.")
    spans = _newest(path) if last else list(read_spans(path))
    if not spans:
        hint = sent or "Call a tool first, or pass --data."
        raise fail(f"There are no traces at {path}. {hint}")
    if not last and trace_id is None:
        _list(spans, as_json)
        return
    wanted = trace_id or _latest(spans)
    found = [span for span in spans if span.trace_id.startswith(wanted)]
    if not found:
        raise fail(f"There is no trace {wanted}. {sent or '`searchbus trace` lists the newest.'}")
    wanted = found[0].trace_id
    found = [span for span in found if span.trace_id == wanted]
    if as_json:
        echo(json.dumps([asdict(span) for span in found]))
        return
    out.print(Text.assemble("trace ", (wanted, "bold")))
    table, width = _waterfall(found, out.width)
    # Wider than the terminal if needed: a cut-off duration is worse than a wrapped line.
    Terminal(width=width).print(table)


def _waterfall(spans: list[SpanRecord], width: int) -> tuple[Table, int]:
    """One line per span (service, name, duration, a bar for its time), and the table's width."""
    roots = build_tree(spans)
    rows = [
        row
        for number, root in enumerate(roots, start=1)
        for row in _rows(root, "", last=number == len(roots))
    ]
    origin_ns = min(span.start_ns for span in spans)
    total_ns = max(1, max(span.end_ns for span in spans) - origin_ns)
    needed = max(len(label.plain) for label, _ in rows) + DURATION_CHARS
    free = width - needed
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for label, span in rows:
        bar = _bar(span, origin_ns, total_ns, min(BAR_CHARS, free)) if free >= MIN_BAR_CHARS else ""
        table.add_row(label, Text(f"{span.duration_ms:.2f} ms", "bold"), bar)
    return table, max(width, needed)


def _rows(node: SpanNode, before: str, *, last: bool) -> Iterator[tuple[Text, SpanRecord]]:
    span = node.span
    label = Text.assemble(
        (before + ("└── " if last else "├── "), "dim"), (span.service, "cyan"), " ", span.name
    )
    if span.error:
        label.append(f" {span.error}", style="red")
    yield label, span
    for number, child in enumerate(node.children, start=1):
        under = before + ("    " if last else "│   ")
        yield from _rows(child, under, last=number == len(node.children))


def _bar(span: SpanRecord, origin_ns: int, total_ns: int, chars: int) -> Text:
    """The span's time within the whole trace; at least one mark."""
    start = min(chars - 1, (span.start_ns - origin_ns) * chars // total_ns)
    end = max(start + 1, -(-(span.end_ns - origin_ns) * chars // total_ns))
    style = "red" if span.error else "green"
    return Text.assemble((" " * start, ""), ("━" * (end - start), style))


def _latest(spans: list[SpanRecord]) -> str:
    """The newest trace of a tool call or a search, or of anything where there is none."""
    return max(list(filter(is_question, spans)) or spans, key=attrgetter("start_ns")).trace_id


def _newest(path: Path) -> list[SpanRecord]:
    """The newest trace, once it is whole, or as it is after `MOST_WAIT_S`.

    The processes write one after the other, so that one slow write holds the spans of all.
    """
    give_up_s = time.monotonic() + MOST_WAIT_S
    wanted = ""
    found: list[SpanRecord] = []
    time.sleep(FLUSH_WAIT_S)
    while True:
        writing, spans, before = is_being_written(path), list(read_spans(path)), found
        wanted = wanted or (_latest(spans) if spans else "")
        found = [span for span in spans if span.trace_id == wanted]
        whole = not writing and found == before and is_whole(found)
        if whole or time.monotonic() >= give_up_s:
            return found
        if writing:
            wanted = ""  # what is being written may be newer
        time.sleep(LOOK_EVERY_S)


def _list(spans: list[SpanRecord], as_json: bool) -> None:
    subjects = map(subject_of, by_trace(spans).values())
    newest = sorted(subjects, key=lambda span: -span.start_ns)[:20]
    if as_json:
        echo(json.dumps([asdict(span) for span in newest]))
        return
    for span in newest:
        when = time.strftime("%H:%M:%S", time.localtime(span.start_ns / 1e9))
        out.print(
            f"{span.trace_id} {when} {span.duration_ms:9.2f} ms  {span.service} {span.name}",
            highlight=False,
            soft_wrap=True,
        )
