"""The ASGI application of the interfaces of other search APIs.

| request | answer |
| --- | --- |
| `GET` or `POST /searxng/search`, `/searxng` | a search, as SearXNG answers it |
| `POST /tavily/search`, `/tavily/extract` | a search or pages, as Tavily answers them |
| `GET /read?url=` | a page as Markdown |

Each shows failures in its own form. Calls go through the policies of the edge, as those of MCP do.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct

from searchbus_contracts import encode

from ...auth.identity import ANONYMOUS
from ...http.answer import DisconnectWatch
from ...http.head import Received, Refusal, parse_head
from ...http.problems import ProblemError
from ..calls import HttpCalls, read_arguments
from . import reading, searxng, tavily
from .failures import FORMS, failed_by, send_failed
from .searxng_requests import read_search
from .web_calls import WebCalls
from .web_tools import CallTool

__all__ = ["INTERFACES", "OtherApis"]

INTERFACES = tuple(FORMS)
"""Names of the interfaces; each is the first segment of its paths."""
_MAX_PARAMETERS = 100
_FORM = "application/x-www-form-urlencoded"
_JSON = b"application/json"
_MARKDOWN = b"text/markdown; charset=utf-8"
_UNTRUSTED = (
    (b"searchbus-untrusted", b"true"),
    # A browser must neither guess the type of a stranger's text nor run anything of it.
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
)


class _Answered(Struct, frozen=True):
    body: bytes
    content_type: bytes = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Keyed(Struct, frozen=True):
    api_key: str = ""


_keyed = msgspec.json.Decoder(_Keyed)
_Work = Callable[[CallTool], Awaitable[_Answered]]
"""What is left of a request when its caller is known and its parameters are read."""


class OtherApis:
    """Serves requests.

    Args:
        clock: seconds of the epoch.
    """

    def __init__(self, calls: HttpCalls, *, clock: Callable[[], float] = time.time) -> None:
        self._calls = calls
        self._clock = clock

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request."""
        form = FORMS[scope["path"].split("/")[1]]
        try:
            received, work = await self._read(scope, receive)
            with (
                DisconnectWatch(receive, None),
                self._calls.message(received, "tools/call") as outcome,
            ):
                try:
                    answered = await work(WebCalls(self._calls, received))
                except Exception as error:
                    outcome.error = "tool_error"
                    await send_failed(send, failed_by(error, form), form)
                else:
                    await _send(send, answered)
        except ProblemError as error:
            await send_failed(send, failed_by(error, form), form)

    async def _read(self, scope: Any, receive: Any) -> tuple[Received, _Work]:
        """The caller of a request and its work; raises ProblemError."""
        match scope["path"].rstrip("/"), scope["method"]:
            case "/searxng" | "/searxng/search", "GET" | "POST":
                return await self._read_searxng(scope, receive)
            case "/tavily/search", "POST":
                received, body = await self._read_tavily(scope, receive)
                today = datetime.fromtimestamp(self._clock(), UTC).date()
                return received, lambda call: _json(tavily.search(call, body, today))
            case "/tavily/extract", "POST":
                received, body = await self._read_tavily(scope, receive)
                return received, lambda call: _json(tavily.extract(call, body))
            case "/read", "GET":
                received = await self._calls.admit(scope)
                query = _parameters(scope["query_string"])
                return received, lambda call: _page(call, query, received.head.accept)
            case path, _:
                await self._calls.admit(scope)
                raise _refused(*_ELSEWHERE.get(path, _NOTHING))

    async def _read_searxng(self, scope: Any, receive: Any) -> tuple[Received, _Work]:
        received = await self._calls.admit(scope)
        form = _parameters(scope["query_string"])
        if scope["method"] == "POST":
            if received.head.content_type.partition(";")[0].strip().lower() not in ("", _FORM):
                raise _refused(415, f"Send the parameters as a form: Content-Type: {_FORM}")
            form |= _parameters(await self._calls.body(received, receive))
        return received, lambda call: _search(call, form)

    async def _read_tavily(self, scope: Any, receive: Any) -> tuple[Received, dict[str, Any]]:
        """The key may be in the body (`api_key`), where a stranger's values are not made."""
        if parse_head(scope["headers"]).authorization:
            received = await self._calls.admit(scope)
            return received, await self._calls.arguments(received, receive)
        stranger = Received(parse_head(scope["headers"]), ANONYMOUS)
        body = await self._calls.unread_arguments(stranger, receive)
        if key := _key_in(body):
            credential = (b"authorization", f"Bearer {key}".encode("latin-1", "replace"))
            scope = {**scope, "headers": [*scope["headers"], credential]}
        return await self._calls.admit(scope), read_arguments(body)


def _key_in(body: bytes) -> str:
    """The key in a body; empty where there is none."""
    try:
        return _keyed.decode(body).api_key
    except (ValueError, RecursionError):
        return ""


_NOTHING = (404, "There is nothing at this address.", "")
_ELSEWHERE = {
    "/searxng": (405, "Use GET or POST.", "GET, POST"),
    "/searxng/search": (405, "Use GET or POST.", "GET, POST"),
    "/tavily/search": (405, "Use POST.", "POST"),
    "/tavily/extract": (405, "Use POST.", "POST"),
    "/read": (405, "Use GET.", "GET"),
}
"""Path → the refusal of a method that it does not have."""


def _refused(status: int, message: str, allowed: str = "") -> ProblemError:
    headers = ((b"allow", allowed.encode()),) if allowed else ()
    return ProblemError.of_refusal(Refusal(status, message, headers=headers))


async def _search(call: CallTool, form: dict[str, str]) -> _Answered:
    return _Answered(encode(await searxng.search(call, read_search(form))))


async def _json(answer: Awaitable[Struct]) -> _Answered:
    return _Answered(encode(await answer))


async def _page(call: CallTool, query: dict[str, str], accept: str) -> _Answered:
    page = await reading.read(call, query)
    headers = [(b"vary", b"accept")]
    if page.cursor is not None:
        rest = f"/read?url={quote(page.cursor, safe='')}"
        headers.append((b"link", f'<{rest}>; rel="next"'.encode("latin-1", "replace")))
    if reading.prefers_json(accept):
        return _Answered(encode(reading.json_of(page)), headers=tuple(headers))
    return _Answered(page.content.encode(), _MARKDOWN, tuple(headers))


async def _send(send: Any, answered: _Answered) -> None:
    headers = [
        (b"content-type", answered.content_type),
        (b"content-length", b"%d" % len(answered.body)),
        *_UNTRUSTED,
        *answered.headers,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answered.body})


def _parameters(text: bytes) -> dict[str, str]:
    """The parameters of a form or an address, of a repeated one the last; raises ProblemError."""
    try:
        pairs = parse_qsl(
            text.decode("utf-8", "replace"),
            keep_blank_values=True,
            max_num_fields=_MAX_PARAMETERS,
        )
    except ValueError:
        raise _refused(400, f"There are over {_MAX_PARAMETERS} parameters.") from None
    return dict(pairs)
