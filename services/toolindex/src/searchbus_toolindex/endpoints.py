"""The typed endpoint `toolindex.search` (proto/README.md §11)."""

from __future__ import annotations

from searchbus_bus import Call, endpoint
from searchbus_contracts.toolindex import FindReply, FindRequest

from .finder import Finder

__all__ = ["ToolindexEndpoints"]


class ToolindexEndpoints:
    """Requests of other services to the index."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    @endpoint
    async def search(self, call: Call, request: FindRequest) -> FindReply:
        """One page of the tools, prompts or resources that fit the query."""
        return await self._finder.find(
            request.query,
            kind=request.kind,
            actor=call.actor,
            toolsets=request.toolsets,
            limit=request.limit,
            offset=request.offset,
            generation=request.generation,
            explain=request.explain,
            first_page=request.first_page,
            nearest=request.nearest,
        )
