"""The client over curl_cffi, which is played here: it is an optional dependency."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from searchbus_ddg.egress import open_client
from searchbus_ddg.impersonate import ImpersonatingClient
from searchbus_upstream import Request, UpstreamTimeout, UpstreamUnreachable


class FakeSession:
    """Plays curl_cffi.requests.AsyncSession."""

    made: ClassVar[list[dict[str, object]]] = []
    sent: ClassVar[list[tuple[str, str, dict[str, object]]]] = []

    def __init__(self, **options) -> None:
        self.made.append(options)

    @asynccontextmanager
    async def stream(self, method, url, **options):
        self.sent.append((method, url, options))
        if "fail" in url:
            raise RuntimeError("curl: (35)")
        if "hang" in url:
            await asyncio.sleep(3600)

        async def chunks():
            yield b"hello "
            yield b"world"

        yield SimpleNamespace(status_code=200, headers={"X-A": "1"}, aiter_content=chunks)

    async def close(self) -> None:
        pass


@pytest.fixture
def client(monkeypatch):
    requests = ModuleType("curl_cffi.requests")
    requests.AsyncSession = FakeSession
    monkeypatch.setitem(sys.modules, "curl_cffi", ModuleType("curl_cffi"))
    monkeypatch.setitem(sys.modules, "curl_cffi.requests", requests)
    FakeSession.made, FakeSession.sent = [], []
    return open_client("http://proxy:3128", impersonate="chrome")


async def test_request_keeps_the_browsers_own_headers(client):
    """User-Agent and Accept are not overridden; redirects and the environment are ignored."""
    headers = {"User-Agent": "x", "Accept": "y", "Referer": "z"}
    request = Request("POST", "https://a.example.com/", headers=headers, form={"q": "cats"})
    reply = await client.send(request, timeout_s=30, max_bytes=100)
    assert (reply.status, reply.body, reply.headers) == (200, b"hello world", {"x-a": "1"})
    ((method, url, options),) = FakeSession.sent
    assert (method, url) == ("POST", "https://a.example.com/")
    assert options["headers"] == {"Referer": "z"}
    assert options["data"] == {"q": "cats"}
    assert options["allow_redirects"] is False
    assert FakeSession.made == [
        {"impersonate": "chrome", "proxy": "http://proxy:3128", "interface": None,
         "trust_env": False}
    ]  # fmt: skip
    await client.close()


async def test_failures_are_those_of_every_client(client):
    """Timeouts, errors of curl, bodies over the limit."""
    with pytest.raises(UpstreamTimeout):
        await client.send(Request("GET", "https://hang"), timeout_s=0.01, max_bytes=100)
    with pytest.raises(UpstreamUnreachable, match="RuntimeError"):
        await client.send(Request("GET", "https://fail"), timeout_s=30, max_bytes=100)
    with pytest.raises(UpstreamUnreachable) as caught:
        await client.send(Request("GET", "https://a"), timeout_s=30, max_bytes=8)
    assert caught.value.kind == "too_large"


def test_missing_dependency_is_named(monkeypatch):
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "curl_cffi.requests", None)
    with pytest.raises(RuntimeError, match="pip install 'searchbus-ddg"):
        ImpersonatingClient("chrome")
