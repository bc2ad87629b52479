"""The web as a source of the composites."""

from __future__ import annotations

from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError

from searchbus_contracts import Actor, ErrorCode, Failure, Fault
from searchbus_contracts.coverage import SourceCoverage

from ..calls.reply import Reply
from ..lists.registry import Registry
from ..lists.visible import missing_role, visible
from ..requests.tool_calls import ToolCalls, ToolRequest
from .ids import Ids, unknown_id
from .passages import from_page
from .sources import MAX_QUERY_CHARS, Fetched, Found, Hit

__all__ = ["Web"]


class Web:
    """The web toolset's search and extraction, for callers that have its roles."""

    name = "web"
    _SEARCH = ("web", "web_search")
    _EXTRACT = ("web", "web_extract_content")

    def __init__(self, calls: ToolCalls, ids: Ids, registry: Registry) -> None:
        self._calls = calls
        self._ids = ids
        self._registry = registry

    def absence(self, actor: Actor) -> Failure | None:
        """See Source."""
        listed = self._registry.view(None).tool_of.get(self._SEARCH)
        if listed is None:
            return Failure(
                code=ErrorCode.UNAVAILABLE,
                message="The web cannot be searched: no web service is running.",
                retryable=True,
            )
        role = missing_role(actor, listed.descriptor)
        if role is None:
            return None
        return Failure(
            code=ErrorCode.FORBIDDEN,
            message=f"The web was left out: the caller does not have the role {role}.",
        )

    async def search(
        self, query: str, limit: int, *, passages: int, actor: Actor, timeout_s: float
    ) -> Found:
        """See Source; a result has one snippet."""
        arguments = {"query": query[:MAX_QUERY_CHARS], "maxResults": min(10, limit)}
        found = await self._call(self._SEARCH, arguments, actor, timeout_s)
        hits = [
            Hit(
                id=self._ids.of_page(row["url"]), title=row["title"] or row["url"], url=row["url"],
                source=self.name, texts=(row.get("snippet", ""),),
            )
            for row in found["results"]
            if isinstance(row["url"], str) and row["url"]
        ]  # fmt: skip
        providers = msgspec.convert(found.get("coverage", []), list[SourceCoverage])
        parts = [
            msgspec.structs.replace(part, source=f"{self.name}/{part.source}") for part in providers
        ]
        return Found(hits, parts=parts)

    async def passages(
        self, question: str, hit: Hit, *, actor: Actor, timeout_s: float
    ) -> list[str]:
        """See Source; of the page's text and its snippet."""
        fetched = await self.fetch(hit.id, actor=actor, timeout_s=timeout_s)
        return from_page(question, fetched.text if fetched is not None else "", *hit.texts)

    async def fetch(self, hit_id: str, *, actor: Actor, timeout_s: float) -> Fetched | None:
        """See Source."""
        url = self._ids.page(hit_id)
        if url is None:
            return None
        found = await self._call(self._EXTRACT, {"urls": [url]}, actor, timeout_s)
        (item,) = found["items"]
        if item["status"] != "ok":
            why = item.get("message") or ""
            raise Fault(
                ErrorCode.UPSTREAM_FAILED,
                f"The page could not be read ({item['status']}). {why}".strip(),
                retryable=item["status"] in ("timeout", "unreachable", "dns"),
            )
        return Fetched(hit_id, url, item["content"], url, {"source": "web"})

    def _allowed(self, tool: tuple[str, str], actor: Actor) -> Any:
        listed = self._registry.view(None).tool_of.get(tool)
        return listed if listed is not None and visible(actor, listed.descriptor) else None

    async def _call(
        self, tool: tuple[str, str], arguments: dict[str, Any], actor: Actor, timeout_s: float
    ) -> Any:
        listed = self._allowed(tool, actor)
        if listed is None:
            raise unknown_id()  # a tool that the caller may not use looks absent
        request = ToolRequest(
            actor,
            self._registry.view(None),
            listed.name,
            arguments,
            timeout_s=timeout_s,
            for_composite=True,
        )
        try:
            reply = (await self._calls.call(request)).reply
        except MCPError as error:
            raise Fault(ErrorCode.UPSTREAM_FAILED, error.error.message) from None
        if reply.is_error:
            raise _fault_of(reply)
        if reply.structured is None:
            raise Fault(ErrorCode.UPSTREAM_FAILED, "The web search failed.")
        return reply.value


def _fault_of(reply: Reply) -> Fault:
    """The failure that an error reply describes; upstream_failed where it describes none."""
    try:
        return Fault.of(msgspec.convert((reply.value or {}).get("error"), Failure))
    except msgspec.ValidationError:
        return Fault(ErrorCode.UPSTREAM_FAILED, "The web search failed.")
