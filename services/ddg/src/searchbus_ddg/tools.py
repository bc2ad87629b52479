"""The tools of toolset `ddg`: web_search and instant_answer."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from searchbus_bus import Call, Worker
from searchbus_contracts import TextContent, ToolAnnotations, ToolReply, describe_tool
from searchbus_contracts.web import WebSearchRequest

from .duckduckgo import DuckDuckGo
from .instant_text import instant_text
from .markdown import search_text

__all__ = ["INSTANT_ANSWER", "WEB_SEARCH", "add_tools"]

_ANNOTATIONS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)


class WebSearch(Struct):
    """Arguments of web_search."""

    query: Annotated[str, Meta(description="検索キーワード")]
    max_results: Annotated[
        int, Meta(ge=1, le=30, description="返却する検索結果の最大数（デフォルト: 10）")
    ] = 10


class Instant(Struct):
    """Arguments of instant_answer."""

    query: Annotated[str, Meta(description="検索キーワード")]


WEB_SEARCH = describe_tool(
    "web_search",
    toolset="ddg",
    title="Search the web (DuckDuckGo)",
    description="Search the web using DuckDuckGo and return a list of results with titles, URLs, "
    "and snippets.",
    arguments=WebSearch,
    annotations=_ANNOTATIONS,
    timeout_ms=30_000,
    examples=("find recent articles about solar power", "look something up on the internet"),
    keywords=("web", "internet", "google", "bing", "DuckDuckGo", "websites", "news"),
)
INSTANT_ANSWER = describe_tool(
    "instant_answer",
    toolset="ddg",
    title="Instant answer (DuckDuckGo)",
    description="Get an instant answer from DuckDuckGo, including abstracts, definitions, and "
    "related topics.",
    arguments=Instant,
    annotations=_ANNOTATIONS,
    timeout_ms=15_000,
    examples=("what is Rust", "define photosynthesis"),
    keywords=("definition", "encyclopedia", "Wikipedia", "facts", "meaning"),
)


def add_tools(worker: Worker, duckduckgo: DuckDuckGo) -> None:
    """Offer the tools, and the typed endpoints `ddg.search` and `ddg.fetch`, on a worker."""

    async def web_search(call: Call, arguments: WebSearch) -> ToolReply:
        request = WebSearchRequest(query=arguments.query, limit=arguments.max_results)
        reply = await duckduckgo.search(call, request)
        notes = [reply.note] if reply.note else []
        text = search_text(arguments.query, reply.results, notes)
        structured: dict[str, Any] = {
            "results": [_shown(result) for result in reply.results], "stale": reply.stale,
        }  # fmt: skip
        return ToolReply(
            content=(TextContent(text=text),),
            structured=structured if reply.note is None else {**structured, "note": reply.note},
        )

    async def instant_answer(call: Call, arguments: Instant) -> ToolReply:
        answer, note = await duckduckgo.instant(call, arguments.query)
        text = instant_text(arguments.query, answer, [note] if note else [])
        return ToolReply(content=(TextContent(text=text),))

    worker.tool(WEB_SEARCH, WebSearch, web_search)
    worker.tool(INSTANT_ANSWER, Instant, instant_answer)
    worker.endpoint("search", WebSearchRequest, duckduckgo.search)
    worker.endpoint("fetch", WebSearchRequest, duckduckgo.fetch)


def _shown(result: Any) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(result)
    return {"title": "", "url": "", "snippet": "", **shown}
