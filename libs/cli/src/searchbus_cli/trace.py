"""`searchbus trace`: what happened in one request, as a tree with durations."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.tree import Tree

from searchbus_runtime import SpanNode, SpanRecord, build_tree, data_folder, read_spans

from .output import fail, out

__all__ = ["trace"]

FLUSH_WAIT_S = 1.5
"""Processes write their spans a moment after the request ended."""


def trace(
    trace_id: Annotated[
        str | None, typer.Argument(help="A trace's id, or the beginning of one.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest tool call or search.")] = False,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The spans as JSON.")] = False,
) -> None:
    """Show one trace, client call to store, or list the newest ones.

    Example: searchbus trace --last
    """
    path = data_folder(data) / "traces.jsonl"
    if last or trace_id:
        time.sleep(FLUSH_WAIT_S if last else 0.0)
    spans = list(read_spans(path))
    if not spans:
        raise fail(f"There are no traces at {path}. Call a tool first, or pass --data.")
    if not last and trace_id is None:
        _list(spans, as_json)
        return
    wanted = trace_id or _latest(spans)
    found = [span for span in spans if span.trace_id.startswith(wanted)]
    if not found:
        raise fail(f"There is no trace {wanted}. `searchbus trace` lists the newest.")
    wanted = found[0].trace_id
    found = [span for span in found if span.trace_id == wanted]
    if as_json:
        typer.echo(json.dumps([asdict(span) for span in found]))
        return
    tree = Tree(f"trace [bold]{wanted}[/]")
    origin_ns = min(span.start_ns for span in found)
    for root in build_tree(found):
        _grow(tree, root, origin_ns)
    out.print(tree)


def _grow(tree: Tree, node: SpanNode, origin_ns: int) -> None:
    span = node.span
    error = f" [red]{escape(span.error)}[/]" if span.error else ""
    after_ms = (span.start_ns - origin_ns) / 1e6
    branch = tree.add(
        f"[cyan]{escape(span.service)}[/] {escape(span.name)} "
        f"[bold]{span.duration_ms:.2f} ms[/] [dim]+{after_ms:.2f}[/]{error}",
        highlight=False,
    )
    for child in node.children:
        _grow(branch, child, origin_ns)


def _latest(spans: list[SpanRecord]) -> str:
    """The newest trace that asked something: a tool call or a typed search."""
    asked = [s for s in spans if s.name.startswith("tools/call") or s.name.endswith(".search")]
    return max(asked or spans, key=lambda span: span.start_ns).trace_id


def _list(spans: list[SpanRecord], as_json: bool) -> None:
    roots: dict[str, SpanRecord] = {}
    for span in spans:
        known = roots.get(span.trace_id)
        if known is None or span.start_ns < known.start_ns:
            roots[span.trace_id] = span
    newest = sorted(roots.values(), key=lambda span: -span.start_ns)[:20]
    if as_json:
        typer.echo(json.dumps([asdict(span) for span in newest]))
        return
    for span in newest:
        when = time.strftime("%H:%M:%S", time.localtime(span.start_ns / 1e9))
        out.print(
            f"{span.trace_id} {when} {span.duration_ms:9.2f} ms  {span.service} {span.name}",
            highlight=False,
        )
