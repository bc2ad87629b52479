"""`searchbus tools bench`: evaluates the search for tools on a catalogue of files."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from searchbus_cli.output import err, fail, print_table
from searchbus_contracts import Fault
from searchbus_runtime import load_settings
from searchbus_toolindex.embedding import load_tool_embedder
from searchbus_toolindex.settings import ToolindexSettings
from searchbus_vectors import ModelNotFoundError

from . import CatalogueError, Report, evaluate, read_catalogue


def bench(
    file: Annotated[
        Path, typer.Argument(help="A folder with tools.jsonl and queries.jsonl, or a tools file.")
    ],
    queries: Annotated[
        Path | None,
        typer.Option(help="The queries file; default: queries.jsonl beside the tools."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The measurements as JSON.")] = False,
) -> None:
    """Evaluate the search on a catalogue of your own; no stack is needed.

    Lines of tools.jsonl: {"id", "name", "description", "inputSchema", "server"}; of queries.jsonl:
    {"id", "text", "relevant": [tool ids]}.

    Example: searchbus tools bench ./my-catalogue
    """
    try:
        tools, cases = read_catalogue(file, queries)
    except CatalogueError as error:
        raise fail(str(error), 2) from None
    with Progress(console=err, transient=True) as progress:
        bars = {stage: progress.add_task(stage, total=None) for stage in ("embedding", "searching")}

        def report_progress(stage: str, done: int, total: int) -> None:
            progress.update(bars[stage], completed=done, total=total)

        async def measure() -> Report:
            settings = load_settings(ToolindexSettings, "toolindex")
            embedder = await load_tool_embedder(
                settings.embedder,
                folder=settings.model_dir,
                allow_download=settings.model_download,
                second=settings.second_model,
            )
            try:
                return await evaluate(tools, cases, embedder, on_progress=report_progress)
            finally:
                await embedder.close()

        try:
            report = asyncio.run(measure())
        except (ModelNotFoundError, Fault) as error:
            raise fail(str(error)) from None
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    table = Table(box=None, show_header=False)
    counts = {"tools": report.tools, "queries": report.queries}
    for name, value in (counts | report.measures).items():
        table.add_row(name, f"{value:g}")
    print_table(table)
