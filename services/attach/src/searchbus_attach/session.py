"""A session with a server, whose results stay the JSON that the server sent.

The SDK parses the result of tools/list as a whole, so that one malformed tool would lose the
others, and fails a good answer to tools/call that does not fit the tool's own output schema. Both
are read here instead. Sampling, elicitation and roots are not offered to servers.
"""

from __future__ import annotations

import logging
from typing import Any

from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    Implementation,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    Request,
    Tool,
)
from pydantic import ValidationError

from searchbus_contracts.version import VERSION

from .faults import ServerFault

__all__ = ["MAX_PAGES", "ServerSession"]

log = logging.getLogger("searchbus.attach")
MAX_PAGES = 200
MAX_LISTED = 20_000
CLIENT = Implementation(name="searchbus", version=VERSION)


class ServerSession(ClientSession):
    """The SDK's session; `open_session` negotiates, the two methods below send requests."""

    async def open_session(self) -> None:
        """Agree on a revision: server/discover, or initialize where the server is older.

        Raises:
            MCPError, RuntimeError, ValidationError: there is none that both know.
        """
        try:
            await self.discover()
        except (MCPError, RuntimeError, ValidationError) as error:
            log.debug("no server/discover (%s); initialize follows", error)
            await self.initialize()

    async def list_all(self) -> list[Any]:
        """The tools of all pages, as the server sent them.

        Raises:
            MCPError: the server refuses, or the connection ended.
            ServerFault: the pages do not end.
        """
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            raw = await self._send(ListToolsRequest(params=PaginatedRequestParams(cursor=cursor)))
            tools = raw.get("tools")
            found += tools if isinstance(tools, list) else []
            cursor = raw.get("nextCursor")
            if not isinstance(cursor, str) or len(found) > MAX_LISTED:
                break
        else:
            raise ServerFault(f"its list of tools has more than {MAX_PAGES} pages")
        self._know(found)
        return found[:MAX_LISTED]

    async def call(
        self, name: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> dict[str, Any]:
        """Call a tool; the result as the server sent it.

        Raises:
            MCPError: the server refuses, or the connection ended.
        """
        params = CallToolRequestParams(name=name, arguments=arguments)
        return await self._send(CallToolRequest(params=params), on_progress)

    def _know(self, tools: list[Any]) -> None:
        """Tell the SDK the tools that it can parse, for arguments that are sent as headers."""
        parsed = []
        for tool in tools:
            try:
                parsed.append(Tool.model_validate(tool))
            except ValidationError:
                continue  # describe.py says why it is not listed
        self._absorb_tool_listing(ListToolsResult(tools=parsed), complete=True)

    async def _send(
        self, request: Request[Any, Any], on_progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        options: CallOptions = {}
        self._stamp(data, options)
        if on_progress is not None:
            options["on_progress"] = on_progress
        return await self._dispatcher.send_raw_request(data["method"], data.get("params"), options)
