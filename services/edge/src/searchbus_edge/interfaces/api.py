"""Plain HTTP for every tool: calls, lists, the OpenAPI document and its page (docs/http.md).

Whoever asks is identified first: to a stranger all of it is 401.
"""

from __future__ import annotations

from functools import cache, cached_property, partial
from importlib import resources
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import FastAPI, Query, Request
from msgspec import Raw
from pydantic import BaseModel, ConfigDict, Field

from searchbus_contracts import ErrorCode, Fault, ToolEvent, encode

from ..catalog import render
from ..catalog.render import Pages
from ..catalog.view import ListedTool, MadeOf, View
from ..http.answer import (
    INERT,
    JSON,
    TEXT,
    UNTRUSTED,
    DisconnectWatch,
    EventStream,
    PlainAnswer,
    Tagged,
)
from ..http.faults import PROBLEM, HttpError, HttpRefusedError, failed, problem_of, unknown_toolset
from ..http.head import Received, media_types
from ..search.methods import SearchMethods
from ..tools.call import ForwardedEvents, Served, log_data
from ..tools.reply import Reply
from .calls import HttpCalls, failure_of, parameters, plain_app
from .openapi import ALL_TOOLS, TOOLS, OpenApi, path_of

SEGMENTS = ("api", "openapi.json", "docs")
"""The first segments of the paths that it serves."""
_NOTHING = "There is nothing at this address. GET /openapi.json describes what there is."
_NO_INDEX = "Tools cannot be searched now: no tool index is running. Omit the query to list all."
_MAX_RENDERED = 2048


def _without_titles(schema: dict[str, Any]) -> None:
    """Generators of clients name classes by titles, which several schemas may have in common."""
    for part in schema["properties"].values():
        part.pop("title", None)


class ToolPageEntry(BaseModel):
    """A tool, as tools/list shows it."""

    model_config = ConfigDict(json_schema_extra=_without_titles)

    path: str = Field(description="Where to POST its arguments.")
    name: str
    title: str | None = None
    description: str
    inputSchema: dict[str, Any] = Field(description="JSON Schema of its arguments.")
    outputSchema: dict[str, Any] | None = Field(None, description="JSON Schema of its result.")
    annotations: dict[str, Any] | None = None


class ToolPage(BaseModel):
    """One page of tools."""

    model_config = ConfigDict(json_schema_extra=_without_titles)

    tools: list[ToolPageEntry]
    nextCursor: str | None = Field(None, description="The next page, if there is one.")


class HttpApi:
    """Serves requests; every failure is a problem (RFC 9457).

    A call does without FastAPI, whose routing and middleware cost as much as half a call.
    `server_url` is where clients reach the edge; `/` for wherever the document came from.
    """

    def __init__(
        self,
        calls: HttpCalls,
        pages: Pages,
        search: SearchMethods,
        *,
        server_url: str,
        signed_in: bool,
    ) -> None:
        self._calls = calls
        self._tools = ToolList(calls, pages, search)
        self._openapi_for = partial(
            OpenApi, server_url=server_url, signed_in=signed_in, admit=search.admit
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        match scope["path"].split("/")[1:]:
            case ["api", "v1", toolset, name] if name:
                try:
                    await self._call(toolset, name, scope, receive, send)
                except (Fault, HttpError) as error:
                    await failed(error, PROBLEM).send(send)
            case _:
                await self._pages(scope, receive, send)

    @cached_property
    def _pages(self) -> FastAPI:
        """Built for the first request: an edge on standard input and output has none."""
        app = plain_app(self._calls, PROBLEM, nothing=_NOTHING)
        documents = self._openapi_for(app.routes)

        @app.head(TOOLS, include_in_schema=False)
        @app.api_route(
            TOOLS,
            methods=["GET"],  # which the document shows
            summary="Find or list tools",
            operation_id="find_or_list_tools",
            response_model=ToolPage,
            response_description="One page.",
            responses={"default": {"description": "A problem."}},
            openapi_extra={"x-openai-isConsequential": False},
        )
        async def tools(
            request: Request,
            query: Annotated[str | None, Query(description=_QUERY)] = None,
            cursor: Annotated[str | None, Query(description=_CURSOR)] = None,
        ) -> PlainAnswer:
            """The tools that the caller may call, as MCP lists or finds them."""
            received = await self._get(request)
            page = Tagged.of(await self._tools.page(received, query, cursor))
            return page.answer(request.headers.get("if-none-match"))

        @app.get("/openapi.json", include_in_schema=False)
        async def openapi(
            request: Request, toolset: Annotated[tuple[str, ...], Query()] = ()
        ) -> PlainAnswer:
            received = await self._get(request)
            chosen: list[str] = []
            for name in toolset:
                if (view := self._calls.toolset(name)) is None:
                    raise Fault(ErrorCode.NOT_FOUND, unknown_toolset(name))
                chosen += view.members
            everything = self._calls.everything
            with DisconnectWatch(request.receive, None):
                document = await documents.document(everything, received.actor, chosen)
                return document.answer(request.headers.get("if-none-match"))
            return PlainAnswer(status=503)  # for a client that has left

        @app.get("/docs", include_in_schema=False)
        async def docs(request: Request) -> PlainAnswer:
            await self._calls.admit(request.scope, linked=True)
            return page_file("")

        @app.get("/docs/{name}", include_in_schema=False)
        async def asset(request: Request, name: str) -> PlainAnswer:
            await self._calls.admit(request.scope)
            return page_file(name)

        return app

    async def _get(self, request: Request) -> Received:
        received = await self._calls.admit(request.scope)
        parameters(request.scope["query_string"])
        return received

    async def _call(self, toolset: str, name: str, scope: Any, receive: Any, send: Any) -> None:
        received = await self._calls.admit(scope)
        if scope["method"] != "POST":
            raise HttpRefusedError(405, "Use POST.", headers=((b"allow", b"POST"),))
        view = self._calls.everything if toolset == ALL_TOOLS else self._calls.toolset(toolset)
        if view is None:
            raise HttpRefusedError(404, _NOTHING)
        form = form_of(received.head.accept)
        listed = view.tools.get(name)
        arguments = await self._calls.arguments(received, receive, view, name)
        if form.json or form.text:
            with DisconnectWatch(receive, None):
                served = await self._calls.call(received, view, name, arguments)
                await result(served, form).send(send)
            return
        # What call_tool calls is known too late for the head of the response.
        untrusted = listed is not None and (listed.descriptor.untrusted or listed.passes_on)
        stream = EventStream(send, _headers(untrusted=untrusted))

        async def forward(event: ToolEvent) -> None:
            await stream.event(encode(known_event(event)), event.kind.encode())

        with DisconnectWatch(receive, stream):
            call = partial(self._calls.call, received, view, name, arguments)
            try:
                async with ForwardedEvents(forward) as on_event:
                    served = await call(on_event=on_event)
            except (Fault, HttpError) as error:
                if not stream.started:  # it has a status of its own
                    raise
                await stream.event(encode(problem_of(error)), b"problem", more=False)
            else:
                await stream.event(_json(served.reply), b"result", more=False)


_QUERY = "What you want to do, in your own words: the best tools first. Without it, all."
_CURSOR = "The `nextCursor` of an earlier page of the same query."


class ToolList:
    """Lists and searches the tools of a caller: GET /api/v1/tools."""

    def __init__(self, calls: HttpCalls, pages: Pages, search: SearchMethods) -> None:
        self._calls = calls
        self._pages = pages
        self._search = search
        self._rendered: MadeOf[str, Raw] = MadeOf(_MAX_RENDERED)

    async def page(self, received: Received, query: str | None, cursor: str | None) -> bytes:
        """A page as JSON, of all tools or of those for what the caller wants; raises Fault."""
        method = "tools/list" if query is None else "tools/search"
        view, actor = self._calls.everything, received.actor
        with self._calls.message(received, method):
            if query is not None and not self._search.available:
                raise Fault(ErrorCode.UNAVAILABLE, _NO_INDEX)
            try:
                if query is None:
                    found, following = self._pages.listed_tools(actor, view, cursor)
                else:
                    found, following = await self._search.find_tools(actor, view, query, cursor)
            except Exception as error:
                raise failure_of(error, method) from None
        page: dict[str, Any] = {"tools": [self._render(view, listed) for listed in found]}
        return encode(page if following is None else {**page, "nextCursor": following})

    def _render(self, view: View, listed: ListedTool) -> Raw:
        """The tool as tools/list shows it, and its path."""
        rendered = self._rendered.version(view)
        if listed.name not in rendered:
            shown = render.tool(listed).model_dump(by_alias=True, mode="json", exclude_none=True)
            rendered[listed.name] = Raw(msgspec.json.encode({"path": path_of(listed), **shown}))
        return rendered[listed.name]


class Accepted(NamedTuple):
    """The forms of an answer that a client accepts."""

    json: bool
    text: bool
    events: bool


def form_of(accept: str) -> Accepted:
    """The forms that an Accept header allows; raises HttpError(406) where it allows none."""
    types = media_types(accept) or {"*/*"}
    form = Accepted(
        *(
            not types.isdisjoint((media_type, f"{media_type.partition('/')[0]}/*", "*/*"))
            for media_type in ("application/json", "text/plain", "text/event-stream")
        )
    )
    if not any(form):
        message = "Accept application/json, text/plain or text/event-stream."
        raise HttpRefusedError(406, message)
    return form


def result(served: Served, form: Accepted) -> PlainAnswer:
    """The answer with the result of a call."""
    content_type, body = _body(served.reply, form)
    headers = _headers(untrusted=served.listed.descriptor.untrusted)
    return PlainAnswer(body, content_type=content_type, headers=headers)


def _headers(*, untrusted: bool) -> tuple[tuple[bytes, bytes], ...]:
    return INERT + UNTRUSTED if untrusted else INERT


def _body(reply: Reply, form: Accepted) -> tuple[bytes, bytes]:
    """Media type and body."""
    if reply.structured is not None and form.json:
        return JSON, reply.structured
    if reply.text is not None:
        return TEXT, reply.text
    if form.text and len(reply.texts) == len(reply.content):
        return TEXT, "\n\n".join(reply.texts).encode()
    return JSON, _json(reply)


def _json(reply: Reply) -> bytes:
    """The structured result; where there is none, the blocks of content as over MCP."""
    return reply.structured if reply.structured is not None else encode({"content": reply.content})


def known_event(event: ToolEvent) -> dict[str, Any]:
    """What progress or a log line of a tool says, for an event stream."""
    data: dict[str, Any]
    if event.kind == "progress":
        data = {"progress": event.progress, "total": event.total, "message": event.message}
    else:
        data = {"level": event.level, "logger": event.logger, "data": log_data(event)}
    return {name: value for name, value in data.items() if value is not None}


# /docs: Swagger UI over /openapi.json. This process serves all assets, nothing inline runs, and
# addresses are relative, for proxies that add a path.
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
_HTML = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>searchbus</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="docs/favicon-32x32.png">
</head>
<body>
<div id="tools"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = b"""SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#tools",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_TYPES = {
    "": b"text/html; charset=utf-8",
    "swagger-ui.css": b"text/css; charset=utf-8",
    "swagger-ui-bundle.js": b"text/javascript; charset=utf-8",
    "favicon-32x32.png": b"image/png",
    "start.js": b"text/javascript; charset=utf-8",
}
"""By the part of the address behind /docs/."""


def page_file(name: str) -> PlainAnswer:
    """The page, or one of its files; raises HttpError where there is none of that name."""
    if name not in _TYPES:
        raise HttpRefusedError(404, _NOTHING)
    return PlainAnswer(_file(name), content_type=_TYPES[name], headers=_HEADERS)


@cache
def _file(name: str) -> bytes:
    if name in ("", "start.js"):
        return _START if name else _HTML
    # Found here, not imported: the package's own module is of no use, and would cost time at start.
    (folder,) = (resources.files("swagger_ui_bundle") / "vendor").iterdir()
    return (folder / name).read_bytes()
