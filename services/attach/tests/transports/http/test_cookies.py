"""Cookies of a server are few and small."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx2

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.transports.direct import DirectRequests
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.transports.remote import (
    MAX_COOKIE_CHARS,
    MAX_COOKIES,
    remote_transport,
)

from .scripted import scripted

HEAD = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n"


@asynccontextmanager
async def session(monkeypatch):
    """The HTTP client of a session with a URL, and the server."""
    made = []

    class Kept(httpx2.AsyncClient):
        def __init__(self, **options):
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr("searchbus_attach.transports.remote.BearerClient", Kept)
    async with scripted() as server:
        far = parse_server("far", {"url": server.url})
        async with remote_transport(far, HttpNotes(), DirectRequests()):
            yield SimpleNamespace(http=made[0], server=server)


def setting(*cookies: bytes) -> bytes:
    return HEAD + b"".join(b"Set-Cookie: %b\r\n" % cookie for cookie in cookies) + b"\r\n"


async def test_a_cookie_comes_back_and_can_change(monkeypatch):
    """Also where there are as many as may be."""
    async with session(monkeypatch) as client:
        many = [b"c%d=1" % number for number in range(MAX_COOKIES)]
        client.server.answers = [setting(*many), setting(b"c0=2"), HEAD + b"\r\n"]
        for _ in range(3):
            await client.http.post(client.server.url)
        assert b"c0=1" in client.server.requests[1]
        assert b"c0=2" in client.server.requests[2]


async def test_no_more_are_kept(monkeypatch):
    """However many answers set them, and however large they are."""
    async with session(monkeypatch) as client:
        large = b"l=%b" % (b"x" * MAX_COOKIE_CHARS)
        client.server.answers = [
            setting(large, *(b"c%d-%d=1" % (answer, number) for number in range(50)))
            for answer in range(3)
        ]
        for _ in range(3):
            await client.http.post(client.server.url)
        assert len(client.http.cookies.jar) == MAX_COOKIES
        assert b"l=xx" not in client.server.requests[-1]
