"""The HTTP client of a session: it signs requests.

Where there is no token the client answers 401 itself: the request is not sent then, and the
connection, with the calls that run on it, stays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx2

from ...errors import AuthError


class BearerAuth(httpx2.Auth):
    """The header that signs requests to one server, and to no other host. A token that the server
    rejects is replaced once.

    Args:
        url: the address of the server; requests to another origin get no header.
        token: gets a token, another one than the rejected one that it is given; raises AuthError.
        header: name and value of the header with a token (`Auth.header`).
    """

    def __init__(
        self,
        url: str,
        token: Callable[[str], Awaitable[str]],
        header: Callable[[str], tuple[str, str]],
    ) -> None:
        self._origin = origin(httpx2.URL(url))
        self._get_token = token
        self._header = header
        self.problem = ""
        """Why the last request was not sent; empty otherwise."""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See httpx2.Auth. Raises AuthError where there is no token."""
        if origin(request.url) != self._origin:
            yield request
            return
        token = await self._token("")
        request.headers.update([self._header(token)])
        response = yield request
        if response.status_code != httpx2.codes.UNAUTHORIZED:
            return
        renewed = await self._token(token)
        if renewed != token:
            request.headers.update([self._header(renewed)])
            response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            self.problem = "it refuses a token that was just issued for it"

    async def _token(self, rejected: str) -> str:
        try:
            token = await self._get_token(rejected)
        except AuthError as error:
            self.problem = str(error)
            raise
        self.problem = ""
        return token


class BearerClient(httpx2.AsyncClient):
    """An HTTP client that answers 401 itself where its `auth` has no token."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """See httpx2.AsyncClient."""
        try:
            return await super().send(request, **options)
        except AuthError:
            return httpx2.Response(httpx2.codes.UNAUTHORIZED, request=request)


def origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address."""
    return url.scheme, url.host, url.port
