"""A Chromium where there is one, and a site on loopback that stands for the public web."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import httpcore
import pytest

from searchbus_browser.rendering import Renderer
from searchbus_browser.settings import BrowserSettings
from searchbus_contracts import Actor
from searchbus_contracts.web import RenderReply, RenderRequest
from searchbus_upstream import GuardedBackend

PUBLIC = "93.184.215.14"
URL = "http://site.example.org/page"
SANDBOX = os.getuid() != 0 and not os.environ.get("CI")
Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="session")
def chromium() -> Path:
    """The program; the test is skipped without one."""
    found = BrowserSettings(_env_file=None).chromium
    if found is None:
        pytest.skip("the browser chromium is not installed: apt-get install chromium")
    return found


@dataclass
class Web(httpcore.AsyncNetworkBackend):
    """Every public address, played by one server; remembers who was asked for what.

    Names end in what they resolve to: `site.example.org` is public, others are in `names`.
    """

    port: int = 0
    names: dict[str, str] = field(default_factory=dict)
    connected: list[tuple[str, int]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    answers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Path → head lines after the status line's code, body."""
    redirects: bool = False
    """Whether `/to?URL` redirects there."""

    async def resolve(self, host: str, port: int) -> list[ipaddress.IPv4Address]:
        if host.endswith(".example.org"):
            return [ipaddress.ip_address(PUBLIC)]
        if host in self.names:
            return [ipaddress.ip_address(self.names[host])]
        raise OSError(host)

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.connected.append((host, port))
        return await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self.port, timeout)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line = head.decode("latin-1").splitlines()[0]
                self.requests.append(line)
                path = line.split(" ")[1].partition("?")[0]
                lines, body = self.answers.get(path, ("404 Not Found", ""))
                if path == "/to" and self.redirects:
                    target = unquote(line.split(" ")[1].partition("?")[2])
                    lines = f"302 Found\r\nLocation: {target}"
                raw = body.encode()
                writer.write(
                    f"HTTP/1.1 {lines}\r\nAccess-Control-Allow-Origin: *\r\n"
                    f"Content-Length: {len(raw)}\r\n\r\n".encode()
                    + raw
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writer.close()

    def script(self, path: str, body: str) -> None:
        """Serve a script."""
        self.answers[path] = ("200 OK\r\nContent-Type: text/javascript", body)


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    found = Web()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@dataclass
class Pages:
    """Renders HTML as the page at URL, for one caller."""

    renderer: Renderer
    caller: str = "ann"

    async def __call__(self, body: str, *, url: str = URL, timeout_s: float = 300) -> RenderReply:
        return await self.renderer.render(
            SimpleNamespace(remaining_s=timeout_s, actor=Actor(subject=self.caller)),
            RenderRequest(
                url=url, body=body.encode(), content_type="text/html; charset=utf-8",
                user_agent="searchbus/test",
            ),
        )  # fmt: skip


def renderer(chromium: Path | None, web: Web, **options) -> Renderer:
    """A renderer whose guard is asked as in production, and whose internet is `web`."""
    return Renderer(
        chromium,
        GuardedBackend(resolver=web.resolve, backend=web),
        **{"pages": 2, "settle_s": 60.0, "memory_bytes": 768 * 2**20,
           "sandbox": SANDBOX} | options,
    )  # fmt: skip


@pytest.fixture
def render(chromium, web) -> Pages:
    return Pages(renderer(chromium, web))
