"""An optional HTTP client with a browser's TLS fingerprint: `searchbus-ddg[impersonate]`.

For addresses whose every request gets an empty page (outcome fingerprint_block).
"""

from __future__ import annotations

import asyncio
from typing import Any

from searchbus_upstream import (
    Reply,
    Request,
    UpstreamTimeout,
    UpstreamUnreachable,
    upstream_span,
)

__all__ = ["ImpersonatingClient"]

_BROWSERS_OWN = {"user-agent", "accept", "accept-encoding", "upgrade-insecure-requests"}
"""Headers that the browser sets itself."""


class ImpersonatingClient:
    """An `UpstreamClient` over curl_cffi.

    Args:
        browser: as curl_cffi names it, e.g. "chrome".
        proxy: URL of an HTTP or SOCKS proxy.
        interface: source address of the connections.

    Raises:
        RuntimeError: curl_cffi is not installed.
    """

    def __init__(
        self, browser: str, *, proxy: str | None = None, interface: str | None = None
    ) -> None:
        try:
            from curl_cffi.requests import AsyncSession
        except ImportError as error:
            raise RuntimeError(
                "SEARCHBUS_DDG_IMPERSONATE needs curl_cffi: "
                "pip install 'searchbus-ddg[impersonate]'"
            ) from error
        self._session: Any = AsyncSession(
            impersonate=browser, proxy=proxy, interface=interface, trust_env=False
        )

    async def send(self, request: Request, *, timeout_s: float, max_bytes: int) -> Reply:
        """See `UpstreamClient`; User-Agent and Accept are the browser's own."""
        with upstream_span("duckduckgo", request.method, request.host) as span:
            try:
                reply = await self._send(request, timeout_s, max_bytes)
            except UpstreamTimeout:
                span.failed("timeout")
                raise
            except UpstreamUnreachable as error:
                span.failed(error.kind)
                raise
            span.replied(reply.status)
            return reply

    async def _send(self, request: Request, timeout_s: float, max_bytes: int) -> Reply:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _BROWSERS_OWN}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.stream(
                    request.method,
                    request.url,
                    headers=headers,
                    data=request.content if request.content is not None else request.form,
                    params=request.params,
                    allow_redirects=False,
                    timeout=timeout_s,
                ) as response,
            ):
                async for chunk in response.aiter_content():
                    body += chunk
                    if len(body) > max_bytes:
                        break
                names = {key.lower(): value for key, value in response.headers.items()}
                status = response.status_code
        except TimeoutError:
            raise UpstreamTimeout(f"no answer within {timeout_s:.1f} s") from None
        except Exception as error:  # curl_cffi has one class for every code of curl
            raise UpstreamUnreachable(type(error).__name__) from None
        if len(body) > max_bytes:
            raise UpstreamUnreachable(f"the answer is over {max_bytes} bytes", "too_large")
        return Reply(status, bytes(body), names)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
