"""`searchbus web`: searches the web with every provider of the running stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from .mcp_client import endpoint
from .output import echo_json, fail, out

_SHOWN_CHARS = 240


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=20)] = 10,
    time_range: Annotated[
        str | None, typer.Option(help="Not older than: d, w, m or y (day, week, month, year).")
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="Only of this domain; may be repeated.")
    ] = None,
    exclude_domain: Annotated[
        list[str] | None, typer.Option(help="Not of this domain; may be repeated.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Address of an edge.")] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    explain: Annotated[
        bool, typer.Option(help="Show each provider's rank and score, and what was left out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Search the web with the providers of the running stack.

    Example: searchbus web "model context protocol" --explain
    """
    given = {
        "timeRange": time_range, "includeDomains": domain, "excludeDomains": exclude_domain,
        "explain": explain or None,
    }  # fmt: skip
    arguments = {name: value for name, value in given.items() if value}
    call = {
        "name": "web_search_advanced",
        "arguments": {"query": query, "maxResults": limit, **arguments},
    }
    result = endpoint(url, data, "web").request("tools/call", call)
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    if result.get("isError"):
        raise fail(text)
    answer = result.get("structuredContent") or json.loads(text)
    if as_json:
        echo_json(answer)
        return
    _print(answer)


def _print(answer: dict[str, Any]) -> None:
    whole = not out.is_terminal  # in a pipe each stays one line
    for row in answer["results"]:
        out.print(Text.assemble((row["title"], "bold"), f" {row['url']}"), soft_wrap=whole)
        if row["snippet"]:
            out.print(f"  {row['snippet'][:_SHOWN_CHARS]}", highlight=False, soft_wrap=whole)
        if why := row.get("explanation"):
            out.print(f"  {_explained(why)}", highlight=False, soft_wrap=True)
    if not answer["results"]:
        out.print("nothing found")
    for line in (*answer.get("notes", ()), *_rest_explained(answer)):
        out.print(line, highlight=False, soft_wrap=True)


def _explained(why: dict[str, Any]) -> str:
    """Why a result stands where it does, in one line.

    0.37 = tavily 0.20 (rank 1) + ddg 0.17 (rank 2); also at https://copy.example/
    """
    counted = [vote for vote in why["votes"] if vote.get("counted", True)]
    others = [vote for vote in why["votes"] if not vote.get("counted", True)]
    line = f"{why['score']:.2f} = {' + '.join(map(_vote, counted))}"
    if others:
        line += f"; with the same index: {', '.join(map(_vote, others))}"
    if copies := why.get("copies"):
        line += f"; also at {', '.join(copies)}"
    if why.get("behind_others"):
        line += "; behind other domains"
    return line


def _vote(vote: dict[str, Any]) -> str:
    return f"{vote['provider']} {vote['score']:.2f} (rank {vote['rank']})"


def _rest_explained(answer: dict[str, Any]) -> Iterator[str]:
    """What each provider gave where that is told, and what was left out; a line for each."""
    for part in answer.get("coverage", ()):
        if part["state"] in ("failed", "blocked"):
            # The notes of an answer say it as well, in a line that begins in the same way.
            if not any(
                note.startswith(f"{part['source']} failed") for note in answer.get("notes", ())
            ):
                yield f"{part['source']} failed: {part.get('message', 'no reason given.')}"
            continue
        line = f"{part['source']}: {part['state']}, {part.get('results', 0)} results"
        yield f"{line}, {part['message']}" if part.get("message") else line
    for entry in answer.get("left_out", ()):
        line = f"left out ({entry['reason']}): {entry['title']} {entry['url']}"
        if why := entry.get("explanation"):
            line += f", {_explained(why)}"
        elif provider := entry.get("provider"):
            line += f", of {provider}"
        yield line
