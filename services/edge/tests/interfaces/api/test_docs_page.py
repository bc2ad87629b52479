"""The page: its assets come from here, and its policy allows no others."""

from __future__ import annotations

import re

import httpx
import pytest

from searchbus_edge.interfaces.api.docs_page import send_asset

DIRECTIVE = re.compile(r"([a-z-]+) ([^;]+)")


@pytest.fixture
async def http(running):
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
        yield http


async def test_every_asset_of_the_page_is_served(http):
    """As relative addresses, with their media types."""
    page = await http.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 4
    for link in links:
        assert not link.startswith(("/", "http", "data:"))
        asset = await http.get(page.url.join(link))
        assert asset.status_code == 200
        assert len(asset.content) == int(asset.headers["content-length"]) > 100


async def test_scripts_and_styles_are_of_this_address_only(http):
    """Nothing inline, nothing evaluated, nothing loaded or sent elsewhere."""
    page = await http.get("/docs")
    policy = dict(DIRECTIVE.findall(page.headers["content-security-policy"]))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"<script>|<style|style=|\bon[a-z]+=", page.text)


async def test_page_shows_the_document(http):
    """Its address is relative to the page."""
    page = await http.get("/docs")
    script = (await http.get("/docs/start.js")).text
    (url,) = re.findall(r'url: "([^"]+)"', script)
    assert (await http.get(page.url.join(url))).json()["openapi"].startswith("3.1")


async def test_other_files_of_the_package_are_not_served():
    """Only those that the page names."""
    assert not await send_asset(None, "swagger-ui.js")
    assert not await send_asset(None, "../__init__.py")
