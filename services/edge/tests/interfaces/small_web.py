"""A small web service, which the interfaces of other search APIs call."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import ErrorCode, Fault

ROLE = "ROLE_MCP-WEB-SEARCH"


class Query(Struct, rename="camel"):
    query: str
    max_results: int = 5
    time_range: str = ""


class Urls(Struct):
    urls: list[str]
    max_tokens: int = 0


class Row(Struct):
    title: str
    url: str
    snippet: str


class Rows(Struct):
    results: list[Row]


class Item(Struct, omit_defaults=True):
    url: str
    content: str
    status: str
    truncated: bool = False
    cursor: str | None = None


class Items(Struct):
    items: list[Item]


class SmallWeb(Toolset, name="web"):
    """The tools that the interfaces call; a query names the failure that it gets."""

    @tool(title="Search", required_roles=(ROLE,), untrusted=True)
    async def web_search_advanced(self, call: Call, arguments: Query) -> Rows:
        """Searches."""
        return self._search(arguments)

    @tool(title="News", required_roles=(ROLE,), untrusted=True)
    async def web_search_news(self, call: Call, arguments: Query) -> Rows:
        """Searches the news; for some it takes for ever."""
        if arguments.query == "slow":
            await self._wait()
        return self._search(arguments)

    @tool(title="Read", required_roles=(ROLE,), untrusted=True)
    async def web_extract_content(self, call: Call, arguments: Urls) -> Items:
        """Reads pages; those of nowhere are missing, that of long has more text."""
        return Items([self._read(url) for url in arguments.urls])

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    def _search(self, arguments: Query) -> Rows:
        if arguments.query == "canary":
            raise RuntimeError("secret-canary")
        if arguments.query in set(ErrorCode):
            raise Fault(arguments.query, "No.", retry_after_ms=1500)
        count = range(1, arguments.max_results + 1)
        title = arguments.query
        return Rows([Row(title, f"https://p{n}.example/", f"Text {n}.") for n in count])

    def _read(self, url: str) -> Item:
        if "nowhere" in url:
            return Item(url, "", "http_404")
        content = "<untrusted_text_ab>\nText of the page.\n</untrusted_text_ab>"
        if "long" in url:
            return Item(url, content, "ok", True, f"{url}#searchbus-start=5")
        return Item(url, content, "ok")
