"""HTTP towards an upstream that misbehaves, and which addresses are public."""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib

import pytest

from searchbus_upstream import (
    HttpTransport,
    UpstreamTimeout,
    UpstreamUnreachable,
    is_public_host,
    is_public_url,
    retry_after_s,
)

PLAIN = b"hello " * 100


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    path = request.split()[1].decode()

    def head(length: int | None, *more: str) -> bytes:
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/plain", "Connection: close", *more]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    try:
        if path == "/plain":
            writer.write(head(len(PLAIN)) + PLAIN)
        elif path in ("/gzip", "/deflate"):
            body = gzip.compress(PLAIN) if path == "/gzip" else zlib.compress(PLAIN)
            writer.write(head(len(body), f"Content-Encoding: {path[1:]}") + body)
        elif path == "/bomb":
            body = gzip.compress(b"\0" * 50_000_000)
            writer.write(head(len(body), "Content-Encoding: gzip") + body)
        elif path == "/large":
            writer.write(head(3_000_000) + b"x" * 3_000_000)
        elif path == "/cut":
            writer.write(head(10_000) + PLAIN)
        elif path == "/redirect":
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: /plain\r\nContent-Length: 0\r\n\r\n")
        elif path == "/odd":
            writer.write(head(4, "Content-Encoding: br") + b"\x0b\x02\x80\x03")
        elif path == "/broken":
            writer.write(head(8, "Content-Encoding: gzip") + b"nonsense")
        elif path == "/reset":
            writer.transport.abort()
        elif path == "/drip":
            writer.write(head(1000))
            for _ in range(200):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def url():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.fixture
async def transport():
    transport = HttpTransport()
    yield transport
    await transport.close()


async def get(transport, url, *, timeout_s=5.0, max_bytes=1_000_000):
    return await transport.send("GET", url, timeout_s=timeout_s, max_bytes=max_bytes)


@pytest.mark.parametrize("path", ["/plain", "/gzip", "/deflate"])
async def test_body_arrives_decoded(url, transport, path):
    """Whatever encoding was asked for."""
    reply = await get(transport, url + path)
    assert (reply.status, reply.body, reply.truncated) == (200, PLAIN, False)


async def test_dripping_upstream_ends_at_the_deadline(url, transport):
    """Though every single read is in time."""
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(UpstreamTimeout):
        await get(transport, url + "/drip", timeout_s=0.4)
    assert asyncio.get_running_loop().time() - started_s < 3


@pytest.mark.parametrize("path", ["/bomb", "/large"])
async def test_body_over_the_cap_is_refused(url, transport, path):
    """Raw or decoded; what is decoded of a bomb stays under the cap."""
    with pytest.raises(UpstreamUnreachable, match="over 1000000 bytes"):
        await get(transport, url + path)


async def test_cut_off_body_is_given_and_marked(url, transport):
    """A page without its end may still hold whole rows."""
    reply = await get(transport, url + "/cut")
    assert reply.truncated
    assert reply.body == PLAIN


async def test_redirects_are_not_followed(url, transport):
    """The caller decides."""
    assert (await get(transport, url + "/redirect")).status == 302


@pytest.mark.parametrize("path", ["/reset", "/odd", "/broken"])
async def test_no_answer_is_unreachable(url, transport, path):
    """Typed; the text names no address."""
    with pytest.raises(UpstreamUnreachable) as caught:
        await get(transport, url + path)
    assert "127.0.0.1" not in str(caught.value)


async def test_local_address_is_where_it_comes_from(transport):
    """A worker of its own address is told from the others."""
    seen = []

    async def tell(reader, writer):
        seen.append(writer.get_extra_info("peername")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(tell, "127.0.0.1", 0)
    bound = HttpTransport(local_address="127.0.0.7")
    await get(bound, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    await bound.close()
    server.close()
    assert seen == ["127.0.0.7"]


PRIVATE = """
127.0.0.1 127.1 127.0.1 0 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
100.64.0.1 100.100.100.200 168.63.129.16 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1
224.0.0.1 240.0.0.1 255.255.255.255 2130706433 0x7f.1 0x7f000001 0177.0.0.1 017700000001 192.88.99.1
[::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [64:ff9b:1::1] [2002:7f00:1::]
[2001::1] [fc00::1] [fd00:ec2::254] [fe80::1] [fec0::1] [ff02::1] [2001:db8::1] [3fff::1] [5f00::1]
localhost localhost. foo.localhost metadata.google.internal printer.local intranet host router.lan
nas.home.arpa a..b
""".split()
PUBLIC = "example.org www.bücher.example 8.8.8.8 1.1.1.1 [2606:4700::1111] a.co xn--bcher-kva.example".split()


@pytest.mark.parametrize("host", PRIVATE)
def test_private_hosts_are_told_by_their_spelling(host):
    """Literals of every form, and names that only a local network has."""
    assert not is_public_host(host)
    assert not is_public_url(f"http://{host}/")


@pytest.mark.parametrize("host", PUBLIC)
def test_public_hosts_pass(host):
    """Ordinary names and addresses."""
    assert is_public_url(f"https://{host}/path?q=1#f")


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://example.org/",
     "http://", "https:///x", "//example.org", "http://user:pw@example.org/", "http://a b.org/",
     "http://example.org:0/", "http://example.org:99999/", "http://ex\\ample.org/",
     "http://example.org\n.evil.org/", "http://[::1", ""],
)  # fmt: skip
def test_other_urls_do_not(url):
    """Schemes, credentials, control characters, nonsense."""
    assert not is_public_url(url)


def test_public_corpus_of_internal_addresses(reference):
    """A public list of SSRF payloads, by spelling alone; names that need DNS are not in question."""
    folder = reference / "corpora"
    lists = [p for p in folder.rglob("*") if p.is_file() and "ssrf" in str(p).lower()]
    seen = 0
    for path in lists:
        for line in path.read_text(errors="replace").splitlines():
            for found in re.findall(r"https?://(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]+\])[:/]", line):
                host = found.strip("[]")
                if host.startswith(("127.", "10.", "169.254.", "192.168.", "0.", "::1", "::ffff")):
                    seen += 1
                    assert not is_public_host(found), line
    assert seen >= 5


def test_retry_after_in_both_forms():
    """Seconds or a date."""
    assert retry_after_s({"retry-after": "7"}) == 7.0
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert retry_after_s({"retry-after": "soon"}) is None
    assert retry_after_s({}) is None
