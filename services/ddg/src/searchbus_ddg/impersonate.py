"""An optional transport with a browser's TLS fingerprint: `pip install searchbus-ddg[impersonate]`.

For addresses that get empty pages whatever they send (outcome fingerprint_block).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from searchbus_upstream import Reply, UpstreamTimeout, UpstreamUnreachable, upstream_span

__all__ = ["ImpersonatingTransport"]


class ImpersonatingTransport:
    """curl_cffi behind the Transport interface.

    Args:
        browser: as curl_cffi names it, e.g. "chrome".
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
        """See searchbus_upstream.Transport; User-Agent and Accept are the browser's own."""
        with upstream_span("duckduckgo", method, urlsplit(url).hostname or "") as sent:
            try:
                reply = await self._send(
                    method, url, headers, data, params, content, timeout_s, max_bytes
                )
            except UpstreamTimeout:
                sent.failed("timeout")
                raise
            except UpstreamUnreachable as error:
                sent.failed(error.kind)
                raise
            sent.answered(reply.status)
            return reply

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        data: Mapping[str, str] | None,
        params: Mapping[str, str] | None,
        content: bytes | None,
        timeout_s: float,
        max_bytes: int,
    ) -> Reply:
        own = {"user-agent", "accept", "accept-encoding", "upgrade-insecure-requests"}
        kept = {k: v for k, v in (headers or {}).items() if k.lower() not in own}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.stream(
                    method, url, headers=kept, data=content if content is not None else data,
                    params=params, allow_redirects=False, timeout=timeout_s,
                ) as response,
            ):  # fmt: skip
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
            raise UpstreamUnreachable(f"the answer is over {max_bytes} bytes")
        return Reply(status, bytes(body), names)

    async def close(self) -> None:
        """Close its connections."""
        await self._session.close()
