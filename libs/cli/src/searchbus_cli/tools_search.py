"""`searchbus tools search`: finds tools of the running stack through the tool index."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins
from rich.table import Table

from searchbus_bus import Bus, Directory
from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.services import toolset_owners
from searchbus_contracts.toolindex import FindExplanation, FindReply, FindRequest, Kind
from searchbus_runtime import data_folder, open_bus
from searchbus_runtime.services import known_services
from searchbus_runtime.wording import nearest

from .output import echo_json, fail, out, print_table


def search(
    query: Annotated[str, typer.Argument(help="What you look for, in your own words.")],
    kind: Annotated[str, typer.Option(help="tool, prompt or resource.")] = "tool",
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many matches.")] = 10,
    toolset: Annotated[list[str] | None, typer.Option(help="Only of this toolset.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    explain: Annotated[
        bool, typer.Option(help="Show what decided about the best entries, left out or not.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The matches as JSON.")] = False,
) -> None:
    """Find tools of the running stack: ranked, with scores and why.

    Example: searchbus tools search "what did the Fed say about inflation"
    """
    if kind not in ("tool", "prompt", "resource"):
        raise fail(f"--kind {kind}: choose tool, prompt or resource.", 2)
    folder = data_folder(data)
    request = FindRequest(
        query=query,
        kind=kind,  # type: ignore[arg-type]
        limit=limit,
        toolsets=tuple(toolset or ()),
        explain=explain,
    )
    reply = asyncio.run(_find(folder, request))
    if as_json:
        matches = [
            {"toolset": f.toolset, "name": f.name, "score": f.score, "cosine": f.cosine,
             "matched": f.matched}
            for f in reply.found
        ]  # fmt: skip
        answer: dict[str, Any] = {"total": reply.total, "matches": matches}
        if reply.explanation is not None:
            answer["explanation"] = to_builtins(reply.explanation)
        echo_json(answer)
        return
    _print(reply, request.kind)
    if reply.explanation is not None:
        _print_explanation(reply.explanation)


def _print_explanation(explanation: FindExplanation) -> None:
    """A row for each entry and text of the query."""
    out.print(
        f"considered (a match has a score of {explanation.least_score:.2f} and a probability of "
        f"{explanation.least_probability:g} or more):"
    )
    table = Table(box=None)
    for heading in ("entry", "score", "probability", "literal", "text", "cosine", "BM25", "words"):
        table.add_column(heading, justify="left" if heading in ("entry", "text") else "right")
    for entry in explanation.considered:
        name = entry.name if entry.left_out is None else f"({entry.name}: {entry.left_out})"
        own = (name, f"{entry.score:.3f}", f"{entry.probability:.3f}", f"{entry.literal:.0f}")
        for text, match in zip(explanation.texts, entry.matches, strict=True):
            legs = f"{match.cosine:.3f}", f"{match.words:.2f}", f"{match.coverage:.0%}"
            table.add_row(*own, text, *legs)
            own = ("", "", "", "")
    print_table(table)


async def _find(folder: Path, request: FindRequest) -> FindReply:
    async with open_bus(folder, "cli") as bus:
        reply = await bus.request(
            bus.subjects.endpoint("toolindex", "search"),
            request,
            FindReply,
            service="toolindex",
            timeout_s=15.0,
            # The user of this machine's own bus has every role.
            actor=Actor(subject="cli", roles=("*",)),
        )
        if request.toolsets and not reply.found:
            await _check_toolsets(bus, request.toolsets)
        return reply


async def _check_toolsets(bus: Bus, toolsets: Collection[str]) -> None:
    """Raises Fault(not_found) for one that no service offers."""
    directory = Directory(bus, declared=toolset_owners(known_services()))
    await directory.refresh()
    offered = sorted({toolset for catalog in directory.catalogs for toolset in catalog.toolsets})
    for toolset in toolsets:
        if toolset not in offered:
            raise Fault(
                ErrorCode.NOT_FOUND, f"There is no toolset {toolset!r}.{nearest(toolset, offered)}"
            )


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
    print_table(table)
    out.print(f"{len(reply.found)} of {reply.total}", style="dim")
