"""Requests to authorization servers that misbehave."""

from __future__ import annotations

import asyncio
import gzip

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from searchbus_attach.auth import provider as module
from searchbus_attach.auth.provider import AuthHttp, shown
from searchbus_attach.errors import AuthError
from searchbus_testing import serve


async def drips(_):
    async def body():
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    return StreamingResponse(body())


async def large(_):
    return Response(b" " * 5000)


async def inflates(_):
    headers = {"Content-Encoding": "gzip"}
    return Response(gzip.compress(b" " * 100_000), headers=headers)


async def cookies(_):
    return Response(headers={"Set-Cookie": "who=ann"})


async def elsewhere(_):
    return RedirectResponse("http://127.0.0.1:9/")


@pytest.fixture
async def base():
    pages = {
        "/drips": drips,
        "/large": large,
        "/inflates": inflates,
        "/elsewhere": elsewhere,
        "/cookies": cookies,
    }
    routes = [Route(path, page) for path, page in pages.items()]
    async with serve(Starlette(routes=routes)) as found:
        yield found


async def test_a_body_without_end_has_a_deadline(base):
    """Which a timeout of each read is not."""
    http = AuthHttp(timeout_s=0.3)
    with pytest.raises(AuthError, match="in time"):
        await http.send(httpx2.Request("GET", f"{base}/drips"))
    await http.aclose()


async def test_a_body_that_is_too_large_is_not_read(base, monkeypatch):
    """Unless its size is of no interest."""
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 1024)
    http = AuthHttp()
    with pytest.raises(AuthError, match="more than 1 KiB"):
        await http.send(httpx2.Request("GET", f"{base}/large"))
    found = await http.send(httpx2.Request("GET", f"{base}/large"), with_body=False)
    assert (found.status_code, found.content) == (200, b"")
    await http.aclose()


async def test_a_compressed_body_is_not_inflated(base, monkeypatch):
    """Its limit is one of the bytes in memory, and nobody asked for compression."""
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 1024)
    http = AuthHttp()
    found = await http.send(httpx2.Request("GET", f"{base}/inflates"))
    assert len(found.content) <= 1024
    await http.aclose()


async def test_cookies_are_not_kept(base, monkeypatch):
    """A server could set others with each answer, without end."""
    made, client = [], httpx2.AsyncClient
    monkeypatch.setattr(
        module.httpx2, "AsyncClient", lambda **keys: made.append(client(**keys)) or made[-1]
    )
    http = AuthHttp()
    assert (await http.send(httpx2.Request("GET", f"{base}/cookies"))).headers["set-cookie"]
    assert len(made[0].cookies) == 0
    await http.aclose()


async def test_redirects_are_not_followed(base):
    """A secret goes where it is meant to go."""
    http = AuthHttp()
    found = await http.send(httpx2.Request("GET", f"{base}/elsewhere"))
    assert found.status_code == 307
    await http.aclose()


async def test_nobody_there_is_said_without_the_address():
    """Only the host is named."""
    http = AuthHttp()
    with pytest.raises(AuthError, match=r"^http://127.0.0.1:9 cannot be reached$"):
        await http.send(httpx2.Request("GET", "http://u:word@127.0.0.1:9/path?code=word"))
    await http.aclose()
    assert shown("https://u:p@x.example/a?b") == "https://x.example"
