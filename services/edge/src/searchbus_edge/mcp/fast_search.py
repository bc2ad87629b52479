"""The fast way of tools/search: each tool is rendered once, not at every request that finds it."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Struct, field

from searchbus_contracts import encode

from ..catalog import render
from ..catalog.view import MadeOf
from ..http.answer import Answer
from ..http.head import Received, is_modern
from ..search.methods import SearchMethods
from ..tools.faults import shown_error
from ..tools.telemetry import Tracing
from .fast import REVISIONS, ParamsMeta, client_of, decode_params, finish_error, span_of
from .messages import RpcRequest
from .servers import EndpointServer

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
        self._shapes: dict[str, tuple[bytes, bytes]] = {}
        # By the name of the tool.
        self._rendered: MadeOf[str, bytes] = MadeOf(_MAX_RENDERED)

    async def serve(self, received: Received, request: RpcRequest, answer: Answer) -> bool:
        """Serve a tools/search; False, and nothing done, where that is the kernel's part."""
        head = received.head
        if head.revision not in REVISIONS:
            return False
        params = decode_params(_search_params, request)
        if params is None or client_of(received, request, params.meta, None) is None:
            return False
        view = self._server.searched
        try:
            with span_of(self._tracing, received, request, params.meta):
                try:
                    found, cursor = await self._server.search.find_tools(
                        received.actor, view, params.query, params.cursor
                    )
                except Exception as error:
                    # MCP errors only leave the span: what went wrong inside is logged, not shown.
                    raise shown_error(error, "tools/search") from None
        except MCPError as raised:
            await finish_error(answer, request, raised.error, modern=head.modern)
            return True
        rendered = self._rendered.version(view)
        for tool in found:
            if tool.name not in rendered:
                shown = render.tool(tool)
                rendered[tool.name] = encode(
                    shown.model_dump(by_alias=True, mode="json", exclude_none=True)
                )
        tools = b",".join([rendered[tool.name] for tool in found])
        before, after = self._shapes.get(head.revision) or self._shape(head.revision)
        await answer.finish(
            b'{"jsonrpc":"2.0","id":', encode(request.id), b',"result":', before, tools,
            b"]" if cursor is None else b'],"nextCursor":%b' % encode(cursor), after,
        )  # fmt: skip
        return True

    def _shape(self, revision: str) -> tuple[bytes, bytes]:
        """What stands before the tools of a result, and behind their list, as from the kernel."""
        result = SearchMethods.dump(types.ListToolsResult(tools=[]), revision)
        if is_modern(revision):
            result["_meta"] = {types.SERVER_INFO_META_KEY: self._stamp}
        del result["tools"]
        rest = encode(result)[1:]
        found = self._shapes[revision] = b'{"tools":[', (b"," if result else b"") + rest + b"}"
        return found
