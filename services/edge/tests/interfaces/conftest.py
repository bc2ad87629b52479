"""The tools of the toolset web, as the interfaces of other search APIs call them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from searchbus_bus import MemoryBroker, Toolset, Worker
from searchbus_contracts import Fault, ToolReply
from searchbus_contracts.coverage import COVERAGE, RANKING
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.reply import Reply
from searchbus_runtime import Health


def row(n: int, **fields: Any) -> dict[str, Any]:
    """A result of a search."""
    return {
        "title": f"Page {n}", "url": f"https://p{n}.example/", "snippet": f"Text {n}.", **fields
    }  # fmt: skip


class FakeTools:
    """Answers searches with `rows`, and pages with `texts`; records the calls.

    Args:
        texts: URL → text; other pages are missing.
        failures: tool → what it raises.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.notes: list[str] = []
        self.meta: dict[str, Any] = {}
        self.texts: dict[str, str] = {}
        self.failures: dict[str, Fault] = {}
        self.calls: list[tuple[str, dict[str, Any], float | None]] = []

    async def __call__(
        self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None
    ) -> Reply:
        self.calls.append((tool, arguments, timeout_s))
        if tool in self.failures:
            raise self.failures[tool]
        if tool == "web_extract_content":
            items = [self._page(url) for url in arguments["urls"]]
            return Reply.of(ToolReply(structured={"items": items}))
        rows = self.rows.get(tool, [])[: arguments["maxResults"]]
        structured = {"query": arguments["query"], "results": rows, "notes": self.notes}
        return Reply.of(ToolReply(structured=structured, meta=self.meta or None))

    def rank(self, *ranked: tuple[float, dict[str, int]]) -> None:
        """Say how the results are ranked."""
        self.meta[RANKING] = [{"score": s, "positions": positions} for s, positions in ranked]

    def cover(self, *coverage: dict[str, Any]) -> None:
        """Say what each provider gave."""
        self.meta[COVERAGE] = list(coverage)

    def _page(self, url: str) -> dict[str, Any]:
        if url not in self.texts:
            return {"url": url, "content": "", "status": "http_404", "message": "Gone."}
        text = self.texts[url]
        content = f"<untrusted_text_ab>\n{text}\n</untrusted_text_ab>"
        return {"url": url, "content": content, "status": "ok", "start": 0, "end": len(text),
                "chars": len(text)}  # fmt: skip


@pytest.fixture
def tools() -> FakeTools:
    """Searches with 30 results each."""
    tools = FakeTools()
    tools.rows = {
        name: [row(n) for n in range(1, 31)] for name in ("web_search_advanced", "web_search_news")
    }
    return tools


@pytest.fixture
async def serve():
    """Starts an edge beside the service `things` with these toolsets; gives a client of `edge`."""
    async with AsyncExitStack() as stack:

        async def start(toolsets: Sequence[Toolset], **settings: Any) -> httpx.AsyncClient:
            broker = MemoryBroker()
            if toolsets:
                worker = Worker("things")
                worker.add(*toolsets)
                await broker.connect(name="things").serve(worker)
            opened = open_edge(broker.connect(name="edge"), EdgeSettings(**settings))
            edge = await stack.enter_async_context(opened)
            transport = httpx.ASGITransport(build_app(edge, Health()))
            client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")
            client.edge = edge  # type: ignore[attr-defined]
            return await stack.enter_async_context(client)

        yield start
