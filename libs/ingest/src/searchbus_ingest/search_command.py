"""`searchbus search`: searches the documents of the running stack, over the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from searchbus_cli.output import echo, fail, out
from searchbus_contracts import Actor
from searchbus_contracts.queries import MAX_TOKENS, MIN_TOKENS
from searchbus_contracts.retrieval import MAX_TOP_K, Explanation, Leg, SearchReply, SearchRequest
from searchbus_runtime import data_folder, open_bus

_SHOWN_CHARS = 240


def search(
    query: Annotated[str, typer.Argument(help="What to look for, in natural language.")],
    collection: Annotated[
        list[str] | None, typer.Option(help="Collection to search; may be repeated (default: all).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_TOP_K)] = 5,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    explain: Annotated[
        bool, typer.Option(help="Say why each hit stands where it does, and what was left out.")
    ] = False,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=MIN_TOKENS, max=MAX_TOKENS, help="Budget of tokens for the answer as JSON."
        ),
    ] = None,
    cursor: Annotated[
        str | None, typer.Option(help="The next_cursor of an answer with --max-tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The hits as JSON.")] = False,
) -> None:
    """Search the documents of the running stack.

    Example: searchbus search "how does a caller cancel a request" --collection docs --explain
    """
    folder = data_folder(data)
    request = SearchRequest(
        query=query, collections=tuple(collection or ()), limit=limit, explain=explain,
        max_tokens=max_tokens, cursor=cursor,
    )  # fmt: skip
    reply = asyncio.run(_search(folder, request))
    if as_json:
        echo(msgspec.json.encode(reply).decode())
        return
    for hit in reply.hits:
        section = f" › {hit.section}" if hit.section else ""
        # In a pipe each stays one line.
        whole = not out.is_terminal
        score = (f" {hit.collection} {hit.cosine:.2f}", "dim")
        out.print(Text.assemble((hit.title, "bold"), section, score), soft_wrap=whole)
        text = " ".join(hit.text.split())
        out.print(f"  {text[:_SHOWN_CHARS]}", highlight=False, soft_wrap=whole)
        if hit.explanation is not None:
            why = explained(hit.score, hit.explanation)
            out.print(f"  {why}", highlight=False, soft_wrap=True)
    failed = ", ".join(f"{name} ({code})" for name, code in reply.failed.items())
    if failed and not reply.hits:
        raise fail(
            f"Nothing was found, because collections could not be searched: {failed}. Look at them "
            "with: searchbus doctor"
        )
    if not reply.hits:
        empty = not reply.searched
        more = ": there is no collection yet; fill one: searchbus ingest --help" if empty else ""
        out.print(f"nothing found{more}", highlight=False)
    if reply.next_cursor is not None:
        out.print(f"more with --cursor {reply.next_cursor}", highlight=False)
    if failed:
        out.print(f"could not be searched: {failed}", highlight=False, soft_wrap=True)
    for line in rest_explained(reply):
        out.print(line, highlight=False, soft_wrap=True)


async def _search(folder: Path, request: SearchRequest) -> SearchReply:
    async with open_bus(folder, "searchbus-search") as bus:
        return await bus.request(
            bus.subjects.endpoint("retrieval", "search"),
            request,
            SearchReply,
            service="retrieval",
            timeout_s=30,
            actor=Actor(subject="searchbus-cli", roles=("*",)),
        )


def explained(score: float, explanation: Explanation) -> str:
    """Why a hit stands where it does, in one line.

    #1 1.40 = meaning .55 (rank 1, cosine .81) + words .25 (rank 4, BM25 11.2) + date .60
    """
    parts = [_leg("meaning", "cosine", explanation.meaning)]
    if explanation.words is not None:
        parts.append(_leg("words", "BM25", explanation.words))
    parts += (f"{name} {boost:.2f}" for name, boost in explanation.boosts.items())
    return f"#{explanation.rank} {score:.2f} = {' + '.join(parts)}"


def _leg(name: str, measure: str, leg: Leg) -> str:
    rank = "no candidate" if leg.rank is None else f"rank {leg.rank}"
    return f"{name} {leg.share:.2f} ({rank}, {measure} {leg.score:.2f})"


def rest_explained(reply: SearchReply) -> Iterator[str]:
    """How each collection read the question, and what was left out; a line for each."""
    for name, reading in reply.readings.items():
        wanted = [f"{what} +{boost:.2f}" for what, boost in reading.preferences.items()]
        if reading.order is not None:
            wanted.append(f"the {reading.order} by date")
        meant = ", ".join(wanted) or "no date, type or order"
        yield f"{name}: {reading.ranked} passages ranked for {reading.words!r}; {meant}"
    for entry in reply.left_out:
        missed = "" if entry.floor is None else f" of at least {entry.floor:.2f}"
        line = f"left out ({entry.reason}): {entry.title}, score {entry.score:.2f}"
        if entry.reason == "far":
            yield f"{line}, relevance {entry.relevance or 0.0:.2f}{missed}"
        else:
            yield f"{line}, cosine {entry.cosine:.2f}{missed}"
