"""Requests to authorization servers: small bodies, short times, no redirects, no cookies."""

from __future__ import annotations

import asyncio
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import httpx2

from ..errors import AuthError

MAX_BODY_BYTES = 256 * 1024
_TIMEOUT_S = 10.0


class AuthHttp:
    """The HTTP client of all requests to authorization servers, each within `timeout_s`."""

    def __init__(self, timeout_s: float = _TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._opened: httpx2.AsyncClient | None = None

    async def send(self, request: httpx2.Request, *, with_body: bool = True) -> httpx2.Response:
        """The response, whatever its status; its body is read.

        Args:
            with_body: whether the body is of interest.

        Raises:
            AuthError: the server does not respond in time, or its body is too large.
        """
        request.headers.setdefault("Accept", "application/json")
        request.headers["Accept-Encoding"] = "identity"
        try:
            async with asyncio.timeout(self._timeout_s):
                # It takes 20 ms to make one, which servers without sign-in need not spend. A server
                # could set more cookies with each answer: none is kept.
                none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
                self._opened = self._opened or httpx2.AsyncClient(
                    timeout=self._timeout_s, cookies=none
                )
                response = await self._opened.send(request, stream=True, follow_redirects=False)
                try:
                    body = await _body(response) if with_body else b""
                finally:
                    await response.aclose()
        except (httpx2.TimeoutException, TimeoutError):
            raise AuthError(f"{shown(request.url)} does not answer in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            raise AuthError(f"{shown(request.url)} cannot be reached") from None
        # It would inflate a compressed body as a whole, of which we have the bytes that were sent.
        response.headers.pop("content-encoding", None)
        return httpx2.Response(
            response.status_code, headers=response.headers, content=body, request=request
        )

    async def aclose(self) -> None:
        """Close its connections; a further request opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()


async def _body(response: httpx2.Response) -> bytes:
    found = bytearray()
    async for chunk in response.aiter_raw():
        found += chunk
        if len(found) > MAX_BODY_BYTES:
            raise AuthError(f"{shown(response.url)} sent more than {MAX_BODY_BYTES // 1024} KiB")
    return bytes(found)


def shown(url: object) -> str:
    """An address for messages: without user, password, query and path."""
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
