"""The typed endpoint `toolindex.search` (proto/README.md §11)."""

from __future__ import annotations

from searchbus_bus import Call, Worker
from searchbus_contracts.toolindex import FindReply, FindRequest

from .finder import Finder

__all__ = ["add_endpoints"]


def add_endpoints(worker: Worker, finder: Finder) -> None:
    """Answer the typed request on a worker."""

    async def search(call: Call, request: FindRequest) -> FindReply:
        return await finder.find(
            request.query,
            kind=request.kind,
            actor=call.actor,
            toolsets=request.toolsets,
            limit=request.limit,
            offset=request.offset,
            generation=request.generation,
        )

    worker.endpoint("search", FindRequest, search)
