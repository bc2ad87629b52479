"""The ASGI application of plain HTTP for every tool.

| request | answer |
| --- | --- |
| `POST /api/v1/tools/<name>`, `POST /api/v1/<toolset>/<name>` | the result of a call |
| `GET /api/v1/tools?query=…` | the tools |
| `GET /openapi.json?toolset=…` | all of this as an OpenAPI document |
| `GET /docs` | the document for people |

Whoever asks is identified first: to a stranger all of it is 401.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from searchbus_contracts import ErrorCode

from ...catalog.view import View
from ...http.answer import DisconnectWatch, send_response
from ...http.head import Received, Refusal
from ...http.problems import Problem, ProblemError, send_problem, unknown_toolset
from ...tools.call import ForwardedEvents
from ..calls import HttpCalls
from .answers import EventStream, form_of, send_result
from .docs_page import send_asset, send_page
from .openapi import OpenApi
from .paths import ALL_TOOLS
from .tool_list import ToolList

__all__ = ["SEGMENTS", "HttpApi"]

SEGMENTS = ("api", "openapi.json", "docs")
"""The first segments of the paths that it serves."""
_MAX_PARAMETERS = 100


class HttpApi:
    """Serves requests; every failure is a problem (RFC 9457)."""

    def __init__(self, calls: HttpCalls, tools: ToolList, openapi: OpenApi) -> None:
        self._calls = calls
        self._tools = tools
        self._openapi = openapi

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request."""
        try:
            match scope["path"].split("/")[1:]:
                case ["api", "v1", toolset, name] if name:
                    await self._call(toolset, name, scope, receive, send)
                case ["api", "v1", "tools"]:
                    received = await self._get(scope)
                    await self._list(received, scope, send)
                case ["openapi.json"]:
                    received = await self._get(scope)
                    await self._describe(received, scope, send)
                case ["docs"]:
                    await self._get(scope, linked=True)
                    await send_page(send)
                case ["docs", name]:
                    await self._get(scope)
                    if not await send_asset(send, name):
                        raise _nothing()
                case _:
                    await self._calls.admit(scope)
                    raise _nothing()
        except ProblemError as error:
            await send_problem(send, error)

    async def _call(self, toolset: str, name: str, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            raise _wrong_method(b"POST")
        received = await self._calls.admit(scope)
        view = self._view(toolset)
        form = form_of(received.head.accept)
        listed = view.tools.get(name)
        arguments = await self._calls.arguments(received, receive, tool=listed)
        if form.json or form.text:
            with DisconnectWatch(receive, None):
                served = await self._calls.call(received, view, name, arguments)
                await send_result(send, served, form)
            return
        # What call_tool calls is known too late for the head of the response.
        untrusted = listed is not None and (listed.descriptor.untrusted or listed.passes_on)
        stream = EventStream(send, untrusted=untrusted)
        with DisconnectWatch(receive, stream):
            await self._stream(stream, received, view, name, arguments)

    async def _stream(
        self,
        stream: EventStream,
        received: Received,
        view: View,
        name: str,
        arguments: dict[str, Any],
    ) -> None:
        """Call a tool and send its events; a failure before the first event has its own status."""
        try:
            async with ForwardedEvents(stream.forward) as on_event:
                served = await self._calls.call(received, view, name, arguments, on_event=on_event)
        except ProblemError as error:
            if not stream.started:
                raise
            await stream.fail(error)
        else:
            await stream.finish(served)

    def _view(self, toolset: str) -> View:
        if toolset == ALL_TOOLS:
            return self._calls.everything
        view = self._calls.toolset(toolset)
        if view is None:
            raise _nothing()
        return view

    async def _get(self, scope: Any, *, linked: bool = False) -> Received:
        if scope["method"] not in ("GET", "HEAD"):
            raise _wrong_method(b"GET, HEAD")
        return await self._calls.admit(scope, linked=linked)

    async def _list(self, received: Received, scope: Any, send: Any) -> None:
        given = _parameters(scope)
        query, cursor = given.get("query"), given.get("cursor")
        page = await self._tools.page(
            received, query[0] if query else None, cursor[0] if cursor else None
        )
        await send_response(send, 200, page)

    async def _describe(self, received: Received, scope: Any, send: Any) -> None:
        toolsets = _parameters(scope).get("toolset", [])
        view = self._calls.everything
        for name in toolsets:
            if self._calls.toolset(name) is None:
                raise ProblemError(Problem.of(ErrorCode.NOT_FOUND, unknown_toolset(name)))
        document = await self._openapi.document(view, received.actor, toolsets)
        await send_response(send, 200, document, headers=[(b"cache-control", b"no-cache")])


def _parameters(scope: Any) -> dict[str, list[str]]:
    try:
        return parse_qs(
            scope["query_string"].decode("latin-1"), keep_blank_values=True,
            max_num_fields=_MAX_PARAMETERS,
        )  # fmt: skip
    except ValueError:
        message = f"The address has over {_MAX_PARAMETERS} parameters."
        raise ProblemError.of_refusal(Refusal(400, message)) from None


def _nothing() -> ProblemError:
    message = "There is nothing at this address. GET /openapi.json describes what there is."
    return ProblemError.of_refusal(Refusal(404, message))


def _wrong_method(allowed: bytes) -> ProblemError:
    message = f"Use {allowed.decode()}."
    return ProblemError.of_refusal(Refusal(405, message, headers=((b"allow", allowed),)))
