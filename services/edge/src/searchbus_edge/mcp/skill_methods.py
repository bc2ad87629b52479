"""skills/list and skills/get (extension `io.modelcontextprotocol/skills`, SEP-2640), and
skills/search, our sibling of tools/search: the entries that fit a query, at most ten, best first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server import Server

from searchbus_contracts import Actor

from ..catalog.pages import Pages
from ..catalog.view import View
from ..skills.catalogue import Skills
from ..skills.entries import EXTENSION
from ..tools.faults import guarded
from .client import Context


class SkillParams(types.RequestParams):
    """Parameters of skills/get: the URI of a SKILL.md."""

    uri: str


class QueryParams(types.RequestParams):
    """Parameters of skills/search."""

    query: str


def add_skill_methods(
    server: Server[Any],
    skills: Skills,
    pages: Pages,
    *,
    view: Callable[[], View],
    actor_of: Callable[[Context], Actor],
    ttl_ms: int,
) -> None:
    """Add the methods to the server of an endpoint, and declare the extension."""
    cached = {"ttlMs": ttl_ms, "cacheScope": "private"}

    async def list_page(ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        entries = skills.entries(actor_of(ctx), view())
        page, cursor = pages.page(entries, params.cursor, "skills", view().toolset)
        found = {"skills": page, **cached}
        return found if cursor is None else {**found, "nextCursor": cursor}

    async def get(ctx: Context, params: SkillParams) -> dict[str, Any]:
        return {"skill": skills.get(actor_of(ctx), view(), params.uri), **cached}

    async def search(ctx: Context, params: QueryParams) -> dict[str, Any]:
        return {"skills": skills.search(actor_of(ctx), view(), params.query), **cached}

    server.extensions[EXTENSION] = {}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, guarded(list_page))
    server.add_request_handler("skills/get", SkillParams, guarded(get))
    server.add_request_handler("skills/search", QueryParams, guarded(search))
