"""The tools of engines, pages and sites are for callers with the role of web search only."""

from __future__ import annotations

from typing import Any

import pytest

from searchbus_bus import Worker
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_testing import until
from searchbus_web.engines.tools import EngineTools
from searchbus_web.pages.tools import PageTools
from searchbus_web.sites.tools import SiteTools
from searchbus_web.tools import ROLE

from .conftest import RESOURCE

TOOLS = {
    "web_find": "engines",
    "engines": "engines",
    "read_page": "pages",
    "page_data": "pages",
    "map_site": "sites",
}
WRITES = {"crawl": "sites"}


class Asked:
    """Stands for every part of the service; being asked for anything is a failure."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was reached without the role")


@pytest.fixture
async def edge(secured):
    worker = Worker("web")
    asked: Any = Asked()
    worker.add(
        EngineTools(asked, asked, keyed=(), on=(), costly=False),
        PageTools(asked, asked),
        SiteTools(asked, asked, asked, asked, allows_host=lambda _: False),
    )
    await secured.broker.connect(name="web").serve(worker)
    token = secured.provider.token(ROLE)

    async def listed() -> bool:
        return TOOLS.keys() <= await names(secured, token, "/mcp")

    await until(listed)
    return secured


async def names(secured, token: str, path: str) -> set[str]:
    response = await secured.post("tools/list", token, path)
    if response.status_code != 200:
        return set()
    return {tool["name"] for tool in response.json()["result"]["tools"]}


async def test_without_the_role_nothing_is_listed_found_or_called(edge):
    """On every path; as with web_search, the refusal names the role that is missing."""
    aud = [f"{RESOURCE}/mcp{path}" for path in ("", "/engines", "/pages", "/sites")]
    plain, full = (edge.provider.token(role, aud=aud) for role in ("OTHER", ROLE))
    for name, toolset in TOOLS.items():
        assert name in await names(edge, full, f"/mcp/{toolset}")
        for path in ("/mcp", f"/mcp/{toolset}"):
            assert name not in await names(edge, plain, path)
            response = await edge.post("tools/call", plain, path, name=name, arguments={})
            assert response.status_code == 403
            assert ROLE in response.headers["www-authenticate"] + response.text


async def test_crawl_is_for_those_who_store_documents(edge):
    """Who may only search the web does not see it, and is told the role that is missing."""
    aud = [f"{RESOURCE}/mcp{path}" for path in ("", "/sites")]
    search, writes = (
        edge.provider.token(*roles, aud=aud) for roles in ((ROLE,), (ROLE, OPERATOR_ROLE))
    )
    for name, toolset in WRITES.items():
        assert name in await names(edge, writes, f"/mcp/{toolset}")
        for path in ("/mcp", f"/mcp/{toolset}"):
            assert name not in await names(edge, search, path)
            response = await edge.post("tools/call", search, path, name=name, arguments={})
            assert response.status_code == 403
            assert OPERATOR_ROLE in response.headers["www-authenticate"] + response.text
