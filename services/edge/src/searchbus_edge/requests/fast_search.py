"""The fast way of tools/search: each tool is rendered once, not at every request that finds it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Raw, Struct, field

from ..calls import render
from ..calls.faults import shown_error
from ..calls.telemetry import Tracing
from ..endpoint import EndpointServer
from ..lists.view import ListedTool, View
from ..search.methods import SearchMethods
from .answers import Answer
from .fast import REVISIONS, ParamsMeta, client_of, decode_params, finish_error
from .kernel import Received, is_modern
from .messages import Request, encode_result

__all__ = ["FastSearch"]

_MAX_RENDERED = 2048


class _SearchParams(Struct, forbid_unknown_fields=True):
    query: str
    cursor: str | None = None
    meta: ParamsMeta = field(name="_meta", default_factory=ParamsMeta)


_search_params = msgspec.json.Decoder(_SearchParams)


class FastSearch:
    """The fast way of tools/search at one endpoint."""

    def __init__(self, server: EndpointServer, tracing: Tracing) -> None:
        self._server = server
        self._tracing = tracing
        self._stamp: dict[str, Any] = server.mcp.server_info_stamp
        # By the name of the tool, of one version of the view.
        self._rendered: dict[str, Raw] = {}
        self._version: Any = None

    async def serve(self, received: Received, request: Request, answer: Answer) -> bool:
        """Serve a tools/search; False, and nothing done, where that is the kernel's part."""
        head = received.head
        if head.revision not in REVISIONS:
            return False
        params = decode_params(_search_params, request)
        if params is None or client_of(received, request, params.meta, None) is None:
            return False
        modern = is_modern(head.revision)
        meta = {"traceparent": params.meta.traceparent, "tracestate": params.meta.tracestate}
        view = self._server.searched
        try:
            with self._tracing.message(
                request.method, head.revision, request.id,
                header=(head.traceparent, head.tracestate), meta=meta,
            ):  # fmt: skip
                try:
                    found, cursor = await self._server.search.find_tools(
                        received.actor, view, params.query, params.cursor
                    )
                except Exception as error:
                    # MCP errors only leave the span: what went wrong inside is logged, not shown.
                    raise shown_error(error, "tools/search") from None
        except MCPError as raised:
            await finish_error(answer, request, raised.error, modern=modern)
            return True
        rendered = self._rendered_of(view)
        tools = [rendered.get(tool.name) or self._render(tool) for tool in found]
        result = {**_empty(head.revision), "tools": tools}
        if cursor is not None:
            result["nextCursor"] = cursor
        if modern:
            result["_meta"] = {types.SERVER_INFO_META_KEY: self._stamp}
        await answer.finish(encode_result(request.id, result))
        return True

    def _rendered_of(self, view: View) -> dict[str, Raw]:
        """The tools of a view that were rendered so far."""
        if self._version != view.version or len(self._rendered) > _MAX_RENDERED:
            self._version = view.version
            self._rendered = {}
        return self._rendered

    def _render(self, tool: ListedTool) -> Raw:
        """The tool as tools/list shows it."""
        dumped = render.tool(tool).model_dump(by_alias=True, mode="json", exclude_none=True)
        found = self._rendered[tool.name] = Raw(msgspec.json.encode(dumped))
        return found


@lru_cache(maxsize=16)
def _empty(revision: str) -> dict[str, Any]:
    """The result without tools, as the kernel sends it."""
    return SearchMethods.dump(types.ListToolsResult(tools=[]), revision)
