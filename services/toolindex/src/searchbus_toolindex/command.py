"""`searchbus tools search` and `searchbus tools bench`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from searchbus_bus import connect
from searchbus_contracts import Actor, Fault
from searchbus_contracts.toolindex import FindReply, FindRequest, Kind
from searchbus_runtime import BusAddress, data_folder, find_bus
from searchbus_vectors import ModelNotFound, load_embedder

from .evaluation import BadCatalogue, Report, evaluate, read_catalogue
from .settings import ToolindexSettings
from .vectors import VectorFile

__all__ = ["bench", "search"]

out = Console()
err = Console(stderr=True)


def search(
    query: Annotated[str, typer.Argument(help="What you look for, in your own words.")],
    kind: Annotated[str, typer.Option(help="tool, prompt or resource.")] = "tool",
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many matches.")] = 10,
    toolset: Annotated[list[str] | None, typer.Option(help="Only of this toolset.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The matches as JSON.")] = False,
) -> None:
    """Find tools of the running stack: ranked, with scores and why.

    Example: searchbus tools search "what did the Fed say about inflation"
    """
    if kind not in ("tool", "prompt", "resource"):
        raise _fail(f"--kind {kind}: there are tool, prompt and resource.", 2)
    folder = data_folder(data)
    address = find_bus(folder)
    if address is None:
        raise _fail(f"No stack is running on {folder}. Start one: searchbus up")
    request = FindRequest(query=query, kind=kind, limit=limit, toolsets=tuple(toolset or ()))  # type: ignore[arg-type]
    try:
        reply = asyncio.run(_ask(address, request))
    except Fault as fault:
        raise _fail(f"{fault.code}: {fault.failure.message}") from None
    if as_json:
        matches = [
            {"toolset": f.toolset, "name": f.name, "score": f.score, "cosine": f.cosine,
             "matched": f.matched}
            for f in reply.found
        ]  # fmt: skip
        typer.echo(json.dumps({"total": reply.total, "matches": matches}, ensure_ascii=False))
        return
    _print(reply, request.kind)


async def _ask(address: BusAddress, request: FindRequest) -> FindReply:
    bus = await connect(address.url, name="cli", **address.options)
    try:
        return await bus.request(
            bus.subjects.endpoint("toolindex", "search"),
            request,
            FindReply,
            service="toolindex",
            timeout_s=15.0,
            # On this machine's own bus the user may see everything.
            actor=Actor(subject="cli", roles=("*",)),
        )
    finally:
        await bus.close()


def _print(reply: FindReply, kind: Kind) -> None:
    if not reply.found:
        out.print(f"No {kind} fits that.")
        return
    table = Table(box=None)
    for heading in ("", kind, "toolset", "score", "cosine", "matched words"):
        table.add_column(heading, justify="right" if heading in ("", "score", "cosine") else "left")
    for number, found in enumerate(reply.found, 1):
        words = ", ".join(found.matched) or "by meaning"
        table.add_row(
            str(number),
            found.name,
            found.toolset,
            f"{found.score:.3f}",
            f"{found.cosine:.3f}",
            words,
        )
    out.print(table)
    out.print(f"{len(reply.found)} of {reply.total}", style="dim")


def bench(
    file: Annotated[
        Path, typer.Argument(help="A folder with tools.jsonl and queries.jsonl, or a tools file.")
    ],
    queries: Annotated[
        Path | None, typer.Option(help="The queries, where they do not lie beside the tools.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Evaluate the search on a catalogue of your own; no stack is needed.

    Lines of tools.jsonl: {"id", "name", "description", "inputSchema", "server"}; of queries.jsonl:
    {"id", "text", "relevant": [tool ids]}.

    Example: searchbus tools bench ./my-catalogue
    """
    try:
        tools, asked = read_catalogue(file, queries)
    except BadCatalogue as error:
        raise _fail(str(error), 2) from None
    with Progress(console=err, transient=True) as progress:
        bars = {stage: progress.add_task(stage, total=None) for stage in ("embedding", "asking")}

        def tell(stage: str, done: int, total: int) -> None:
            progress.update(bars[stage], completed=done, total=total)

        async def measure() -> Report:
            settings = ToolindexSettings()
            embedder = await load_embedder(
                settings.embedder,
                folder=settings.model_dir,
                allow_download=settings.model_download,
            )
            try:
                return await evaluate(
                    tools, asked, embedder, vectors=VectorFile(None), model=embedder.model,
                    on_progress=tell,
                )  # fmt: skip
            finally:
                await embedder.close()

        try:
            report = asyncio.run(measure())
        except (ModelNotFound, Fault) as error:
            raise _fail(str(error)) from None
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    table = Table(box=None, show_header=False)
    for name, value in {
        "tools": report.tools,
        "queries": report.queries,
        **report.measures,
    }.items():
        table.add_row(name, f"{value:g}")
    out.print(table)


def _fail(message: str, code: int = 1) -> typer.Exit:
    err.print(f"[red]error:[/] {message}", highlight=False, soft_wrap=True)
    return typer.Exit(code)
