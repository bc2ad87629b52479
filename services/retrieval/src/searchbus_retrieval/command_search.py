"""`searchbus search`: asks the documents of the running stack, straight over the bus."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from searchbus_bus import connect
from searchbus_contracts import Actor, Fault
from searchbus_contracts.retrieval import MAX_TOP_K, SearchReply, SearchRequest
from searchbus_runtime import BusAddress, data_folder, find_bus

__all__ = ["search"]

out = Console()
errors = Console(stderr=True)
_SHOWN_CHARS = 240


def search(
    query: Annotated[str, typer.Argument(help="What to look for, in natural language.")],
    collection: Annotated[
        list[str] | None, typer.Option(help="Where to look; may be repeated [default: all].")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_TOP_K)] = 5,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The hits as JSON.")] = False,
) -> None:
    """Search the documents of the running stack.

    Example: searchbus search "how is a request cancelled" --collection docs
    """
    folder = data_folder(data)
    address = find_bus(folder)
    if address is None:
        errors.print(f"[red]error:[/] No stack is running on {folder}. Start one: searchbus up")
        raise typer.Exit(1)
    request = SearchRequest(query=query, collections=tuple(collection or ()), limit=limit)
    try:
        reply = asyncio.run(_ask(address, request))
    except Fault as fault:
        errors.print(f"[red]error:[/] {fault}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(msgspec.json.encode(reply).decode())
        return
    for hit in reply.hits:
        section = f" › {hit.section}" if hit.section else ""
        out.print(f"[bold]{hit.title}[/]{section} [dim]{hit.collection} {hit.cosine:.2f}[/]")
        text = " ".join(hit.text.split())
        out.print(f"  {text[:_SHOWN_CHARS]}", highlight=False, markup=False)
    if not reply.hits:
        out.print("nothing found")


async def _ask(address: BusAddress, request: SearchRequest) -> SearchReply:
    bus = await connect(address.url, name="searchbus-search", **address.options)
    try:
        return await bus.request(
            bus.subjects.endpoint("retrieval", "search"),
            request,
            SearchReply,
            service="retrieval",
            timeout_s=30,
            actor=Actor(subject="searchbus-cli", roles=("*",)),
        )
    finally:
        await bus.close()
