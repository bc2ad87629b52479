"""A made-up site on loopback, and a retrieval service that keeps documents in a dict."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from searchbus_bus import Call, Worker, endpoint
from searchbus_contracts import Fault
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_contracts.ingest import (
    DeleteReply,
    DeleteRequest,
    IngestReply,
    IngestRequest,
    IngestResult,
    NewDocument,
    revision_of,
)
from searchbus_contracts.retrieval import DocumentSummary, ListReply, ListRequest
from searchbus_testing import serve
from searchbus_web.sites.scope import SiteScope
from searchbus_web.tools import ROLE

SITE = "http://www.example.org"
WRITER = (ROLE, OPERATOR_ROLE)
Page = str | bytes | Callable[[Request], Response]


def html(title: str, *links: str, text: str = "", head: str = "") -> str:
    """A page with its own text, and links."""
    body = text or f"{title} has a text of its own, which no other page of the site has. " * 4
    anchors = " ".join(f'<a href="{link}">to {link}</a>' for link in links)
    return (
        f"<!doctype html><html><head><title>{title}</title>{head}</head><body><article><h1>{title}"
        f"</h1><p>{body}</p></article><nav>{anchors}</nav></body></html>"
    )


@dataclass
class FakeSite:
    """Pages by their path with the query; a page may be a function, for its headers.

    Args:
        gates: path → what a request for it waits for.
    """

    pages: dict[str, Page] = field(default_factory=dict)
    robots: Page = ""
    otherwise: Callable[[Request], Response] = lambda _: Response(status_code=404)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(routes=[Route("/{path:path}", self.answer)])

    async def answer(self, request: Request) -> Response:
        query = request.url.query
        path = request.url.path + (f"?{query}" if query else "")
        self.calls[path] += 1
        if path in self.gates:
            await self.gates[path].wait()
        page = self.robots if path == "/robots.txt" else self.pages.get(path)
        if page is None:
            response = self.otherwise(request)
        elif callable(page):
            response = page(request)
        else:
            kind = "text/plain" if path == "/robots.txt" else "text/html"
            response = Response(page, media_type="text/xml" if path.endswith("xml") else kind)
        self.statuses[response.status_code] += 1
        return response


async def most_in_a_turn(work: Coroutine[Any, Any, Any], patch: pytest.MonkeyPatch) -> int:
    """The most addresses that are compared with globs in one turn of the loop while work is done."""
    compared = before = most = 0
    admits = SiteScope.admits

    def counting(scope: SiteScope, url: str) -> bool:
        nonlocal compared
        compared += 1
        return admits(scope, url)

    patch.setattr(SiteScope, "admits", counting)
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        most, before = max(most, compared - before), compared
    await task
    return most


def with_etag(body: str, etag: str) -> Callable[[Request], Response]:
    """A page that answers 304 where its ETag is known."""

    def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304)
        return Response(body, media_type="text/html", headers={"etag": etag})

    return page


class FakeRetrieval:
    """Keeps documents of collections in memory."""

    def __init__(self) -> None:
        self.collections: dict[str, dict[str, NewDocument]] = {}
        self.stores: list[str] = []
        self.failures: list[Fault] = []
        self.refused: set[str] = set()
        self.refusals = 0

    def pages(self, collection: str = "docs") -> dict[str, str]:
        """Path → title of the documents."""
        found = self.collections.get(collection, {}).values()
        return {d.url.partition("example.org")[2]: d.title for d in found if d.url}

    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        if request.collection not in self.collections:
            raise Fault("not_found", "There is no such collection.")
        kept = self.collections[request.collection].values()
        return ListReply(documents=tuple(
            DocumentSummary(collection=request.collection, document_id=d.document_id, title=d.title,
                            chunk_count=1, revision="", url=d.url, metadata=d.metadata)
            for d in kept if d.metadata.get("site") == request.where["site"]
        ))  # fmt: skip

    @endpoint(required_roles=(OPERATOR_ROLE,))
    async def ingest(self, call: Call, request: IngestRequest) -> IngestReply:
        if self.failures:
            raise self.failures.pop()
        kept = self.collections.setdefault(request.collection, {})
        results = []
        for document in request.documents:
            if document.url in self.refused:
                self.refusals += 1
                refused = IngestResult(
                    document_id=document.document_id, outcome="refused", reason="It is refused."
                )
                results.append(refused)
                continue
            old = kept.get(document.document_id)
            same = old is not None and revision_of(old) == revision_of(document)
            outcome: Any = "unchanged" if same else "replaced" if old else "stored"
            kept[document.document_id] = document
            self.stores.append(document.url or "")
            results.append(IngestResult(document_id=document.document_id, outcome=outcome))
        return IngestReply(results=tuple(results))

    @endpoint(required_roles=(OPERATOR_ROLE,))
    async def delete(self, call: Call, request: DeleteRequest) -> DeleteReply:
        assert request.document_ids, "the whole collection would be deleted"
        kept = self.collections.get(request.collection, {})
        gone = [kept.pop(key, None) for key in request.document_ids]
        return DeleteReply(documents=len(gone))


@dataclass
class SitesUnderTest:
    """A site, the documents, and the web service."""

    web: Any
    site: FakeSite
    documents: FakeRetrieval
    place: str
    process: Any = None

    async def start(self, **options: Any) -> None:
        """Start the service; every host of example.org and example.net leads to the site."""
        routes = {"*.example.org": self.place, "*.example.net": self.place}
        given = {"crawl_delay_s": 0, "web_routes": routes, **options}
        self.process = await self.web.start(**given)

    async def crawl(self, path: str = "/", **arguments: Any) -> Any:
        """Crawl into the collection docs."""
        given: dict[str, Any] = {"collection": "docs", "roles": WRITER, **arguments}
        return await self.web.call("crawl", toolset="sites", url=SITE + path, **given)

    async def map(self, path: str = "/", **arguments: Any) -> Any:
        """Map the site."""
        return await self.web.call("map_site", toolset="sites", url=SITE + path, **arguments)


@pytest.fixture
async def idle_sites(web) -> AsyncIterator[SitesUnderTest]:
    """Pages are parsed in this process; the service is not started yet."""
    async with _around(web) as found:
        yield found


@pytest.fixture
async def sites(idle_sites) -> SitesUnderTest:
    """Pages are parsed in this process; the service is started."""
    await idle_sites.start()
    return idle_sites


@pytest.fixture
async def sites_with_processes(web_with_processes) -> AsyncIterator[SitesUnderTest]:
    """Pages are parsed in child processes."""
    async with _around(web_with_processes) as found:
        yield found


@asynccontextmanager
async def _around(web: Any) -> AsyncIterator[SitesUnderTest]:
    site, documents, worker = FakeSite(), FakeRetrieval(), Worker("retrieval")
    worker.add(documents)
    await web.broker.connect(name="retrieval").serve(worker)
    async with serve(site.app) as url:
        yield SitesUnderTest(web, site, documents, url.removeprefix("http://"))
