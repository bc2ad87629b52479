"""Chromium reaches public addresses only, by whatever means a page tries."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest

from searchbus_browser import rendering
from searchbus_browser.proxy import PageProxy
from searchbus_browser.rendering import Renderer
from searchbus_upstream import GuardedBackend

from .conftest import PUBLIC, SANDBOX, Pages

pytestmark = pytest.mark.slow

ADDRESSES = (Path(__file__).parents[2] / "web/tests/fixtures/ssrf_urls.txt").read_text().split()
WAYS = """
const tried = work => { try { work() } catch (e) { } };
const element = (name, attributes) => {
  const made = Object.assign(document.createElement(name), attributes);
  document.head.append(made);
};
for (const url of URLS) {
  const socket = url.replace(/^http/, 'ws');
  tried(() => fetch(url, {mode: 'no-cors'}).catch(() => 0));
  tried(() => { const x = new XMLHttpRequest(); x.open('GET', url); x.send(); });
  tried(() => element('script', {src: url}));
  tried(() => element('script', {src: '/to?' + encodeURIComponent(url)}));
  tried(() => element('link', {rel: 'stylesheet', href: url}));
  tried(() => element('link', {rel: 'preload', as: 'script', href: url}));
  tried(() => element('link', {rel: 'modulepreload', href: url}));
  tried(() => element('link', {rel: 'prefetch', href: url}));
  tried(() => element('link', {rel: 'preconnect', href: url}));
  tried(() => element('link', {rel: 'dns-prefetch', href: url}));
  tried(() => element('iframe', {src: url}));
  tried(() => element('img', {src: url}));
  tried(() => new EventSource(url));
  tried(() => new WebSocket(socket));
  tried(() => navigator.sendBeacon(url, 'x'));
  tried(() => window.open(url));
  tried(() => import(url).catch(() => 0));
  const work = `fetch('${url}', {mode: 'no-cors'}).catch(() => 0); try { new WebSocket('${socket}') }
    catch (e) { } try { importScripts('${url}') } catch (e) { }`;
  tried(() => new Worker(URL.createObjectURL(new Blob([work]))));
}
"""


def page(urls: list[str], more: str = "") -> str:
    return f"<script>const URLS = {json.dumps(urls)};{WAYS}{more}</script><p>there"


@pytest.fixture
def unlimited(monkeypatch):
    """Every attempt is made."""
    monkeypatch.setattr(rendering, "MAX_REQUESTS", 100_000)
    monkeypatch.setattr(rendering, "MAX_CONNECTIONS", 100_000)


@pytest.mark.parametrize("part", range(5))
async def test_no_way_leads_to_an_address_that_is_not_public(render, web, unlimited, part):
    """Written as addresses, and as names of the attacker's that resolve to them."""
    urls = [*ADDRESSES[part::5], "http://rebound.test/", "https://rebound.test/"]
    web.names = {"rebound.test": "10.0.0.7"}
    web.redirects = True
    reply = await render(page(urls))
    assert "<p>there" in reply.html
    assert set(web.connected) == {(PUBLIC, 80)}
    assert any(line.startswith("GET /to?") for line in web.requests)


async def test_nothing_leaves_but_through_the_proxy(render, web, unlimited):
    """Servers on loopback, one for each family and transport, are asked nothing."""
    heard: list[object] = []

    def accept(reader, writer):
        heard.append(writer.get_extra_info("peername"))
        writer.close()

    class Datagrams(asyncio.DatagramProtocol):
        def datagram_received(self, data, addr):
            heard.append(addr)

    servers = [await asyncio.start_server(accept, "127.0.0.1", 0)]
    if socket.has_dualstack_ipv6():
        servers.append(await asyncio.start_server(accept, "::1", 0))
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        Datagrams, ("127.0.0.1", 0)
    )
    stun = transport.get_extra_info("sockname")[1]
    hosts = ["127.0.0.1", "localhost", "[::1]", "a.localhost"]
    urls = [f"http://{host}:{port}/" for host in hosts for port in ports]
    ice = [f"stun:127.0.0.1:{stun}"]
    ice += [f"turn:127.0.0.1:{port}?transport={how}"
            for port, how in ((stun, "udp"), (ports[0], "tcp"))]  # fmt: skip
    reply = await render(
        page(urls, f"""
        const peer = new RTCPeerConnection({{iceServers: [
          {{urls: {json.dumps(ice)}, username: 'u', credential: 'c'}}]}});
        peer.createDataChannel('x');
        peer.onicegatheringstatechange = () => document.body.append(peer.iceGatheringState);
        peer.createOffer().then(offer => peer.setLocalDescription(offer));""")
    )  # fmt: skip
    assert "<p>there" in reply.html
    assert heard == []
    assert set(web.connected) <= {(PUBLIC, 80)}
    # It can fail: the same servers do hear what connects to them.
    for port, host in zip(ports, ("127.0.0.1", "::1"), strict=False):
        _, writer = await asyncio.open_connection(host, port)
        await writer.wait_closed() if writer.is_closing() else writer.close()
    transport.sendto(b"x", ("127.0.0.1", stun))
    while len(heard) < len(ports) + 1:
        await asyncio.sleep(0.01)
    transport.close()
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("page_host", "reaches"), [("site.example.org", False), ("wiki.corp.test", True)]
)
async def test_hosts_of_the_allowlist_are_reached_by_their_own_pages_only(
    chromium, web, page_host, reaches
):
    """A page of the public web could change things in an intranet."""
    web.names = {"wiki.corp.test": "10.0.0.7"}
    guard = GuardedBackend(routes={"*.corp.test": "10.0.0.7:80"}, resolver=web.resolve, backend=web)
    renderer = Renderer(
        chromium, guard, pages=1, settle_s=60.0, memory_bytes=768 * 2**20, sandbox=SANDBOX
    )
    script = "fetch('http://wiki.corp.test/delete', {method: 'POST', mode: 'no-cors', body: 'x'})"
    await Pages(renderer)(f"<p>there<script>{script}</script>", url=f"http://{page_host}/")
    assert (("10.0.0.7", 80) in web.connected) is reaches
    assert ("POST /delete HTTP/1.1" in web.requests) is reaches


async def test_public_hosts_are_reached_on_the_ports_of_pages_only(render, web, unlimited):
    urls = [f"http://site.example.org:{port}/x" for port in (80, 8080, 22, 25, 6379, 9200, 4222)]
    await render(page(urls))
    assert {port for _, port in web.connected} == {80, 8080}


@pytest.mark.parametrize(
    "request_",
    [b"\5\1\0\5\2\0\1\x5d\xb8\xd7\x0e\0\x50", b"\5\1\0\5\3\0\1\x5d\xb8\xd7\x0e\0\x50",
     b"\5\1\0\5\1\0\7\x5d\xb8\xd7\x0e\0\x50", b"\5\1\0\5\1\0\3\0\0\x50", b"\5\1\0\4\1\0\1aaaa\0\x50",
     b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n"],
)  # fmt: skip
async def test_the_proxy_does_nothing_but_connect(web, request_):
    """No BIND, no UDP, no other version or protocol."""
    guard = GuardedBackend(resolver=web.resolve, backend=web)
    async with PageProxy(guard, max_bytes=1000, max_connections=10) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request_)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
    assert not answer.startswith(b"\5\0\5\0")
    assert web.connected == []


async def test_the_proxy_ends_its_connections_with_the_page_and_after_its_limits(web):
    guard = GuardedBackend(resolver=web.resolve, backend=web)
    connect = b"\5\1\0\5\1\0\3\x10site.example.org\0\x50"
    proxy = PageProxy(guard, max_bytes=100_000, max_connections=2)
    async with proxy:
        one, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(connect)
        assert (await one.readexactly(12))[:4] == b"\5\0\5\0"
        web.answers["/x"] = ("200 OK", "x" * 200_000)
        writer.write(b"GET /x HTTP/1.1\r\n\r\n")
        assert len(await one.read()) < 100_000
        assert proxy.spent
        two, writer_2 = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer_2.write(connect)
        assert (await two.readexactly(12))[:4] == b"\5\0\5\2"
        idle, writer_3 = await asyncio.open_connection("127.0.0.1", proxy.port)
    assert await idle.read() == b""
    for each in (writer, writer_2, writer_3):
        each.close()
