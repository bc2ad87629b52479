"""HTTP requests to upstreams, with a total deadline and limits on raw and decoded bytes.

    client = HttpClient("Tavily")
    reply = await client.send(Request("GET", url), timeout_s=5.0, max_bytes=2**20)

    UpstreamTimeoutError         no complete response by the deadline
    UpstreamUnreachableError     no response; `kind` says why

httpx's own timeouts apply to single operations, so an upstream that sends one byte at a time never
exceeds them; its decoders inflate a whole chunk, however large it becomes. This module enforces
both limits itself. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from typing import Protocol
from urllib.parse import urlsplit

import httpcore
import httpx

from .guard import AddressRefusedError, NameUnknownError
from .telemetry import upstream_span

if "sniffio" not in sys.modules and find_spec("sniffio") is None:
    # httpcore looks for it on the whole path with every request, 0.3 ms each time; this says that
    # it is not installed.
    sys.modules["sniffio"] = None  # type: ignore[assignment]
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=16)
_GZIP = 31
_MAX_MEMBERS = 1000
Cookies = httpx.Cookies
"""What the sites of one chain of redirects have set."""


class UpstreamTimeoutError(Exception):
    """The upstream did not finish by the deadline."""

    kind = "timeout"


class UpstreamUnreachableError(Exception):
    """There is no response; the message says why. Kinds: connection, dns, tls, address (not
    allowed), too_large, encoding; of the last two the status is known. `sent`: the request may have
    arrived."""

    def __init__(
        self, message: str, kind: str = "connection", status: int = 0, *, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.sent = sent


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request.

    Args:
        params: added to the URL's query.
        form: sent as application/x-www-form-urlencoded; excludes `content`.
        content: the body as it is.
        cookies: sent where they belong, and changed by the response; by default none.
        cut: a body over the limit is cut there, and no failure.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    content: bytes | None = None
    cookies: Cookies | None = None
    cut: bool = False

    @property
    def host(self) -> str:
        """The URL's host; empty where it has none or is invalid."""
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response with its body decoded, and header names in lower case; `truncated`: the connection
    broke in the middle of the body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    truncated: bool = False

    @property
    def text(self) -> str:
        """The body as UTF-8; undecodable bytes become U+FFFD."""
        return self.body.decode("utf-8", "replace")


class UpstreamClient(Protocol):
    """Sends requests to one upstream."""

    async def send(self, request: HttpRequest, *, timeout_s: float, max_bytes: int) -> HttpReply:
        """Return the response, whatever its status.

        Args:
            timeout_s: for everything from the connection to the last byte.
            max_bytes: of the body, both as sent and decoded.

        Raises:
            UpstreamTimeoutError, UpstreamUnreachableError: there is no response.
        """

    async def close(self) -> None:
        """Close the connections."""


class BackendTransport(httpx.AsyncHTTPTransport):
    """HTTP/1.1 without proxies, redirects or retries, whose connections a network backend opens.

    Args:
        limits: of the connection pool.
        local_address: source address of the connections; `None` lets the system choose.
    """

    def __init__(
        self,
        backend: httpcore.AsyncNetworkBackend,
        *,
        limits: httpx.Limits,
        local_address: str | None = None,
    ) -> None:
        # In the place of the base class's pool, which takes no backend. A later httpx that looks
        # elsewhere finds none there, and connects to nothing.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            local_address=local_address,
            network_backend=backend,
        )


class HttpClient:
    """An `UpstreamClient` over httpx: direct, through a proxy, or from a given local address.

    Proxies of the environment are ignored: requests leave as configured here. No cookie is kept.

    Args:
        name: of the upstream, in spans and metrics.
        proxy: URL of an HTTP or SOCKS proxy; excludes `backend`.
        local_address: source address of the connections.
        backend: opens the connections, e.g. a `GuardedBackend`.
    """

    def __init__(
        self,
        name: str = "http",
        *,
        proxy: str | None = None,
        local_address: str | None = None,
        backend: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        if proxy is not None and backend is not None:
            raise ValueError("Give proxy or backend, not both: a proxy opens the connections.")
        self._name = name
        transport: httpx.AsyncBaseTransport
        if backend is not None:
            transport = BackendTransport(backend, limits=_LIMITS, local_address=local_address)
        else:
            transport = httpx.AsyncHTTPTransport(
                proxy=proxy, local_address=local_address, limits=_LIMITS, retries=0
            )
        # A cookie would go with the requests of other callers, and sites set as many as they like.
        none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx.AsyncClient(transport=transport, trust_env=False, cookies=none)

    async def send(self, request: HttpRequest, *, timeout_s: float, max_bytes: int) -> HttpReply:
        """See `UpstreamClient`."""
        with upstream_span(self._name, request.method, request.host) as span:
            try:
                async with asyncio.timeout(timeout_s):
                    prepared = self._prepared(request, timeout_s)
                    reply = await self._receive(prepared, max_bytes, request)
            except (TimeoutError, httpx.TimeoutException):
                raise UpstreamTimeoutError(f"no answer within {timeout_s:.1f} s") from None
            except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
                sent = not isinstance(error, httpx.ConnectError)
                kind = _kind_of(error)
                raise UpstreamUnreachableError(type(error).__name__, kind, sent=sent) from None
            span.replied(reply.status)
            return reply

    def _prepared(self, request: HttpRequest, timeout_s: float) -> httpx.Request:
        prepared = self._client.build_request(
            request.method,
            request.url,
            data=request.form,
            params=request.params,
            content=request.content,
            headers=httpx.Headers({"Accept-Encoding": "gzip", **request.headers}, encoding="utf-8"),
            timeout=httpx.Timeout(timeout_s),
        )
        if request.cookies is not None:
            request.cookies.set_cookie_header(prepared)
        return prepared

    async def _receive(
        self, prepared: httpx.Request, max_bytes: int, request: HttpRequest
    ) -> HttpReply:
        response = await self._client.send(prepared, stream=True, follow_redirects=False)
        try:
            if request.cookies is not None:
                request.cookies.extract_cookies(response)
            decode = _decoder(response.headers.get("content-encoding", ""))
            body = bytearray()
            raw_bytes = 0
            truncated = False
            try:
                async for chunk in response.aiter_raw():
                    raw_bytes += len(chunk)
                    body += decode(chunk, max_bytes + 1 - len(body))
                    if len(body) > max_bytes or raw_bytes > max_bytes:
                        if request.cut:
                            break
                        raise UpstreamUnreachableError(
                            f"the answer is over {max_bytes} bytes", "too_large"
                        )
            except (httpx.RemoteProtocolError, httpx.ReadError):
                if not body:
                    raise
                truncated = True
            headers = dict(response.headers)
            return HttpReply(response.status_code, bytes(body[:max_bytes]), headers, truncated)
        except zlib.error as error:
            kind = type(error).__name__
            raise UpstreamUnreachableError(kind, "encoding", response.status_code) from None
        except UpstreamUnreachableError as error:
            error.status = response.status_code
            raise
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _kind_of(error: BaseException | None) -> str:
    """Why there is no connection, from the chain of causes."""
    while error is not None:
        if isinstance(error, AddressRefusedError):
            return "address"
        if isinstance(error, NameUnknownError | socket.gaierror):
            return "dns"
        if isinstance(error, ssl.SSLError):
            return "tls"
        error = error.__cause__ or error.__context__
    return "connection"


def _decoder(encoding: str) -> Callable[[bytes, int], bytes]:
    """A function (chunk, limit) → decoded bytes, at most `limit` of them."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return lambda chunk, limit: chunk[:limit]
    if kind not in ("gzip", "x-gzip"):
        raise UpstreamUnreachableError(f"the answer has the encoding {kind[:20]!r}", "encoding")
    member, members = zlib.decompressobj(_GZIP), 1

    def decode(chunk: bytes, limit: int) -> bytes:
        nonlocal member, members
        found = member.decompress(chunk, max(1, limit))
        while (rest := member.unused_data)[:1] == b"\x1f" and len(found) < limit:
            if members == _MAX_MEMBERS:  # each copies what follows it
                raise zlib.error("too many members")
            member, members = zlib.decompressobj(_GZIP), members + 1
            found += member.decompress(rest, limit - len(found))
        return found

    return decode
