"""HTTP towards upstreams: a total deadline, caps on raw and decoded bytes, no redirects followed.

httpx's own timeouts are per operation, so a dripping upstream never meets them; and its decoders
inflate whole chunks past any limit. Both are done here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpcore
import httpx

from .guard import AddressRefused, NameUnknown
from .telemetry import upstream_span

__all__ = ["HttpTransport", "Reply", "Transport", "UpstreamTimeout", "UpstreamUnreachable"]


class UpstreamTimeout(Exception):
    """The upstream did not finish by the deadline."""


class UpstreamUnreachable(Exception):
    """No answer; the message says why.

    Args:
        kind: connection, dns, tls, address (not allowed), too_large, encoding.
    """

    def __init__(self, message: str, kind: str = "connection") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, decoded; `truncated` where the connection broke in the middle of the body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    truncated: bool = False

    @property
    def text(self) -> str:
        """The body as UTF-8, odd bytes replaced."""
        return self.body.decode("utf-8", "replace")


class Transport(Protocol):
    """Sends one request through one egress."""

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_s: float,
        max_bytes: int,
    ) -> Reply:
        """Return the answer, whatever its status.

        Raises:
            UpstreamTimeout, UpstreamUnreachable: there is none.
        """

    async def close(self) -> None:
        """Close its connections."""


class HttpTransport:
    """httpx, directly, through a proxy, or from one of this machine's own addresses.

    Args:
        name: of the upstream, in spans and figures.
        proxy: URL of an HTTP or SOCKS proxy.
        local_address: source address of the connections.
        backend: opens the connections; see guard.py.
    """

    def __init__(
        self,
        name: str = "http",
        *,
        proxy: str | None = None,
        local_address: str | None = None,
        backend: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._name = name
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
        transport = httpx.AsyncHTTPTransport(
            proxy=proxy, local_address=local_address, limits=limits, retries=0
        )
        if backend is not None:
            # httpx has no door for this; a test fails when the attribute is no longer there.
            transport._pool._network_backend = backend
        # No environment proxies: the egress is what the configuration says.
        self._client = httpx.AsyncClient(transport=transport, trust_env=False)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_s: float,
        max_bytes: int,
    ) -> Reply:
        """See Transport."""
        with upstream_span(self._name, method, urlsplit(url).hostname or "") as sent:
            try:
                async with asyncio.timeout(timeout_s):
                    request = self._client.build_request(
                        method, url, data=data, params=params, content=content,
                        headers={"Accept-Encoding": "gzip, deflate", **(headers or {})},
                        timeout=httpx.Timeout(timeout_s),
                    )  # fmt: skip
                    reply = await self._receive(request, max_bytes)
            except (TimeoutError, httpx.TimeoutException):
                sent.failed("timeout")
                raise UpstreamTimeout(f"no answer within {timeout_s:.1f} s") from None
            except (httpx.HTTPError, httpx.InvalidURL, OSError, zlib.error) as error:
                sent.failed(_kind_of(error))
                raise UpstreamUnreachable(type(error).__name__, _kind_of(error)) from None
            except UpstreamUnreachable as error:
                sent.failed(error.kind)
                raise
            sent.answered(reply.status)
            return reply

    async def _receive(self, request: httpx.Request, max_bytes: int) -> Reply:
        response = await self._client.send(request, stream=True, follow_redirects=False)
        try:
            decode = _decoder(response.headers.get("content-encoding", ""))
            body = bytearray()
            raw_bytes = 0
            truncated = False
            try:
                async for chunk in response.aiter_raw():
                    raw_bytes += len(chunk)
                    body += decode(chunk, max_bytes + 1 - len(body))
                    if len(body) > max_bytes or raw_bytes > max_bytes:
                        raise UpstreamUnreachable(
                            f"the answer is over {max_bytes} bytes", "too_large"
                        )
            except (httpx.RemoteProtocolError, httpx.ReadError):
                if not body:
                    raise
                truncated = True
            return Reply(response.status_code, bytes(body), dict(response.headers), truncated)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """See Transport."""
        await self._client.aclose()


def _kind_of(error: BaseException | None) -> str:
    """Why there is no connection, from the chain of causes."""
    while error is not None:
        if isinstance(error, AddressRefused):
            return "address"
        if isinstance(error, NameUnknown | socket.gaierror):
            return "dns"
        if isinstance(error, ssl.SSLError):
            return "tls"
        error = error.__cause__ or error.__context__
    return "connection"


def _decoder(encoding: str) -> Any:
    """A function (chunk, limit) → decoded bytes, at most `limit` of them."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return lambda chunk, limit: chunk[:limit]
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise UpstreamUnreachable(f"the answer has the encoding {kind[:20]!r}", "encoding")
    engine = zlib.decompressobj(47 if "gzip" in kind else 15)  # 47: gzip or zlib by its header
    return lambda chunk, limit: engine.decompress(chunk, max(1, limit))
