"""The toolset `ddg`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import TextContent, ToolReply
from searchbus_contracts.codec import doc
from searchbus_contracts.tools import READ_ONLY_OUTSIDE
from searchbus_contracts.web import WebSearchReply, WebSearchRequest

from .duckduckgo import DuckDuckGo
from .markdown import instant_text, search_text


class WebSearch(Struct):
    """Arguments of web_search."""

    query: Annotated[str, doc("検索キーワード")]
    max_results: Annotated[int, doc("返却する検索結果の最大数（デフォルト: 10）", ge=1, le=30)] = 10


class InstantQuery(Struct):
    """Arguments of instant_answer."""

    query: Annotated[str, doc("検索キーワード")]


class DdgTools(Toolset, name="ddg"):
    """web_search and instant_answer.

    Both show the Markdown of their specification, so they build their `ToolReply` themselves.
    """

    def __init__(self, duckduckgo: DuckDuckGo) -> None:
        self._duckduckgo = duckduckgo

    @tool(
        title="Search the web (DuckDuckGo)",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=30_000,
        examples=(
            "find websites about a topic",
            "look something up on the internet",
            "what do people recommend, and what do they think of it",
            "how to do something, step by step",
            "compare offers, prices and products",
        ),
        keywords=(
            "web",
            "websearch",
            "internet",
            "online",
            "google",
            "bing",
            "DuckDuckGo",
            "sites",
        ),
    )
    async def web_search(self, call: Call, arguments: WebSearch) -> ToolReply:
        """Search the web using DuckDuckGo and return a list of results with titles, URLs, and
        snippets.
        """
        request = WebSearchRequest(query=arguments.query, limit=arguments.max_results)
        reply = await self._duckduckgo.search(call, request)
        text = search_text(arguments.query, reply.results, [reply.note] if reply.note else [])
        return ToolReply(
            content=(TextContent(text=text),),
            structured=_structured(reply),
        )

    @tool(
        title="Instant answer (DuckDuckGo)",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=15_000,
        examples=(
            "define a word",
            "explain briefly what a scientific term means",
            "who was this scientist or artist",
            "short facts about a country, mountain or city",
            "capital and population of a country",
        ),
        keywords=("definition", "encyclopedia", "Wikipedia", "facts", "meaning", "explain"),
    )
    async def instant_answer(self, call: Call, arguments: InstantQuery) -> str:
        """Get an instant answer from DuckDuckGo, including abstracts, definitions, and related
        topics.
        """
        answer, note = await self._duckduckgo.instant(call, arguments.query)
        return instant_text(arguments.query, answer, [note] if note else [])


def _structured(reply: WebSearchReply) -> dict[str, Any]:
    """The structured reply of web_search, beside its Markdown."""
    rows = [
        {"title": row.title, "url": row.url, "snippet": row.snippet}
        | ({"published_at": row.published_at} if row.published_at else {})
        for row in reply.results
    ]
    note = {"note": reply.note} if reply.note else {}
    return {"results": rows, "stale": reply.stale, **note, "untrusted": True}
