"""resources/list and resources/read.

The list starts with the fixed resources of the registry. A template with `lists` stands for
resources too many for a catalog (documents): behind the fixed ones, their worker lists them by
pages. What the worker cannot list now, such as a damaged collection, is named in `_meta`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec import to_builtins

from searchbus_bus import Bus, Request
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceTemplate,
)
from searchbus_contracts.coverage import COVERAGE, SourceCoverage

from ..auth.signing import UNKNOWN_CURSOR, Cursors
from . import render
from .prompts import Read
from .view import View

READ_TIMEOUT_S = 30.0
MAX_URI_CHARS = 2048
_WORKER_PAGE = 200


class Resources:
    """Lists and reads the resources of a view; `read` asks their workers."""

    def __init__(self, bus: Bus, cursors: Cursors, read: Read, *, page_size: int) -> None:
        self._bus = bus
        self._read = read
        self._cursors = cursors
        self._page_size = page_size

    async def list_page(
        self, actor: Actor, view: View, cursor: str | None
    ) -> types.ListResourcesResult:
        """A page; the cursor holds toolset (`s`; absent: fixed resources) and position (`c`)."""
        bound = ("resources", view.toolset, actor.subject, sorted(actor.roles))
        state = render.read_cursor(self._cursors, cursor, *bound)
        fixed = [r for r in view.resources.values() if actor.holds(r.required_roles)]
        paged = view.toolsets_with(actor, lambda template: template.lists)
        source, inner = str(state.get("s", "")), state.get("c")
        if source == "":
            start = int(inner or 0)
            page = fixed[start : start + self._page_size]
            end = start + len(page)
            after = {"s": paged[0][0]} if paged else None
            if page or after is None:
                return self._result(page, {"c": end} if end < len(fixed) else after, bound)
            source, inner = paged[0][0], None
        return await self._from_worker(actor, paged, source, inner, bound)

    async def _from_worker(
        self,
        actor: Actor,
        paged: list[tuple[str, str]],
        toolset: str,
        cursor: str | None,
        bound: tuple[object, ...],
    ) -> types.ListResourcesResult:
        names = [name for name, _ in paged]
        if toolset not in names:
            raise MCPError(types.INVALID_PARAMS, UNKNOWN_CURSOR)
        at = names.index(toolset)
        wanted = ResourceListRequest(cursor=cursor, limit=min(self._page_size, _WORKER_PAGE))
        request = Request(
            self._bus.subjects.resource(toolset, "list"),
            wanted,
            ResourceListReply,
            service=paged[at][1],
            timeout_s=READ_TIMEOUT_S,
        )
        reply = await self._read(f"resources/list {toolset}", actor, request, wanted)
        following: dict[str, Any] | None = None
        if reply.next_cursor is not None:
            following = {"s": toolset, "c": reply.next_cursor}
        elif at + 1 < len(names):
            following = {"s": names[at + 1]}
        page = [resource for resource in reply.resources if actor.holds(resource.required_roles)]
        return self._result(page, following, bound, reply.coverage)

    def _result(
        self,
        page: list[Any],
        following: dict[str, Any] | None,
        bound: tuple[object, ...],
        coverage: Sequence[SourceCoverage] = (),
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[render.resource(r) for r in page],
            next_cursor=None if following is None else self._cursors.issue(following, *bound),
            _meta={COVERAGE: to_builtins(coverage)} if coverage else None,
        )

    async def read(
        self, actor: Actor, view: View, uri: str, *, revision: str
    ) -> types.ReadResourceResult:
        """The content of a resource; raises MCPError, with the code of "not found" of the revision,
        also where the actor may not read it."""
        if len(uri) > MAX_URI_CHARS:
            raise _not_found(uri, revision)
        found = view.resources.get(uri) or next(
            (template for matcher, template in view.templates if matcher.matches(uri)), None
        )
        if found is None or not actor.holds(found.required_roles):
            raise _not_found(uri, revision)
        request = Request(
            self._bus.subjects.resource(found.toolset, "read"),
            ResourceReadRequest(uri=uri),
            ResourceReadReply,
            service=view.services.get(found.toolset, found.toolset),
            timeout_s=READ_TIMEOUT_S,
        )
        # Of a template the rest of the URI is the caller's, as arguments are.
        name = found.uri_template if isinstance(found, ResourceTemplate) else uri
        try:
            reply = await self._read(f"resources/read {name}", actor, request, {"uri": uri})
        except Fault as fault:
            if fault.code == ErrorCode.NOT_FOUND:
                raise _not_found(uri, revision) from None
            raise
        return types.ReadResourceResult(
            contents=[
                render.resource_contents(body, untrusted=found.untrusted) for body in reply.contents
            ],
            _meta=reply.meta,
        )


def _not_found(uri: str, revision: str) -> MCPError:
    # Revision 2026-07-28 retired -32002.
    code = types.INVALID_PARAMS if revision >= "2026" else -32002
    return MCPError(code, "Resource not found", {"uri": uri[:MAX_URI_CHARS]})
