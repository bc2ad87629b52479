"""Finds tools, prompts and resources by meaning.

The tool index ranks; the edge maps its reply to the names that an endpoint lists. Resources are
found by their descriptors (in the index) and by their content (at the toolsets that offer it), and
the rankings are fused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from searchbus_bus import Bus, Directory, Request
from searchbus_bus.client.fanout import reciprocal_rank_fusion
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceSearchReply,
    ResourceSearchRequest,
)
from searchbus_contracts.coverage import SourceCoverage
from searchbus_contracts.queries import check_query
from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindExplanation, FindRequest, Kind

from ..auth.signing import CursorError, Cursors
from ..catalog.view import ListedTool, View
from ..tools.limits import Limiter

INDEX = "toolindex"
PAGE_SIZE = 10
"""The most items on one page (MCP search proposal, "Search Results")."""
SEARCH_TIMEOUT_S = 15.0
_MAX_RESOURCES = 50
_K = 59
_PUBLIC = {ErrorCode.INVALID_QUERY, ErrorCode.INVALID_ARGUMENT}


class _Match(Struct, frozen=True):
    """What the edge reads of a `Found`: it looks both names up, so they need no check."""

    toolset: str
    name: str


class _Matches(Struct, frozen=True):
    """What the edge reads of a `FindReply`; to read all of it takes four times as long."""

    generation: str
    found: tuple[_Match, ...] = ()
    total: int = 0
    uncertain: bool = False
    explanation: FindExplanation | None = None


class Finder:
    """Searches on behalf of callers, within their limiter; `enabled`: the setting SEARCH."""

    def __init__(
        self, bus: Bus, directory: Directory, cursors: Cursors, limiter: Limiter, *, enabled: bool
    ) -> None:
        self._bus = bus
        self._directory = directory
        self._cursors = cursors
        self._limiter = limiter
        self._enabled = enabled

    def offered(self) -> bool:
        """Whether search is offered: it is enabled, and an index is listed."""
        return self._enabled and self._directory.listed(INDEX)

    async def tools(
        self, actor: Actor, view: View, query: str, cursor: str | None
    ) -> tuple[list[ListedTool], str | None]:
        """A page of tools, best first, and the cursor of the next."""
        found, following = await self._page("tool", actor, view, query, cursor)
        return _listed(actor, view, found), following

    async def explain_tools(self, actor: Actor, view: View, query: str) -> FindExplanation | None:
        """What decided about the best tools of the actor; the search itself was admitted before."""
        request = FindRequest(
            query=_checked(query), kind="tool", limit=1, explain=True, toolsets=view.members
        )
        reply = await self._find(actor, request)
        found = reply.explanation
        if found is None:
            return None
        shown = tuple(one for one in found.considered if _listed(actor, view, (one,)))
        return msgspec.structs.replace(found, considered=shown)

    async def best_tools(
        self,
        actor: Actor,
        view: View,
        query: str,
        limit: int,
        *,
        toolset: str | None = None,
        nearest: int = 0,
    ) -> tuple[list[ListedTool], bool]:
        """The best tools (of one toolset), and whether they match; else so many `nearest`."""
        query = await self._admit(actor, query)
        request = FindRequest(
            query=query, kind="tool", limit=limit, nearest=nearest,
            toolsets=(toolset,) if toolset else view.members,
        )  # fmt: skip
        reply = await self._find(actor, request)
        return _listed(actor, view, reply.found), not reply.uncertain

    async def admit(self, actor: Actor) -> None:
        """Count a look through the tools, which needs no index; raises Fault(rate_limited)."""
        await self._limiter.admit(actor.subject)

    async def prompts(
        self, actor: Actor, view: View, query: str, cursor: str | None
    ) -> tuple[list[tuple[str, PromptDescriptor]], str | None]:
        """A page of prompts under their listed names, best first, and the next cursor."""
        found, following = await self._page("prompt", actor, view, query, cursor)
        named = {(p.toolset, p.name): (name, p) for name, p in view.prompts.items()}
        pairs = [named[f.toolset, f.name] for f in found if (f.toolset, f.name) in named]
        return [(name, p) for name, p in pairs if actor.holds(p.required_roles)], following

    async def resources(
        self, actor: Actor, view: View, query: str, cursor: str | None
    ) -> tuple[list[ResourceDescriptor], str | None, list[SourceCoverage]]:
        """A page of resources, best first, the next cursor, and what each source gave.

        At most 50 resources per source are ranked. The cursor holds a fingerprint of the pages
        before; if these have changed, it is refused rather than repeat or drop a resource.
        """
        bound = ("resources/search", query, actor.subject, sorted(actor.roles), view.toolset)
        state = self._open(cursor, bound)
        query = await self._admit(actor, query, keep_lines=False)
        ranked, coverage = await self._ranked_resources(actor, view, query)
        start = int(state.get("o", 0))
        if state and state.get("g") != _fingerprint(ranked[:start]):
            raise Fault(ErrorCode.INVALID_ARGUMENT, _CHANGED)
        end = start + PAGE_SIZE
        if end >= len(ranked):
            return ranked[start:end], None, coverage
        following = {"o": end, "g": _fingerprint(ranked[:end])}
        return ranked[start:end], self._cursors.issue(following, *bound), coverage

    async def _page(
        self, kind: Kind, actor: Actor, view: View, query: str, cursor: str | None
    ) -> tuple[Sequence[_Match], str | None]:
        bound = (f"{kind}/search", query, actor.subject, sorted(actor.roles), view.toolset)
        state = self._open(cursor, bound)
        query = await self._admit(actor, query)
        offset = int(state.get("o", 0))
        request = FindRequest(
            query=query, kind=kind, limit=PAGE_SIZE, offset=offset, generation=state.get("g"),
            first_page=True, toolsets=view.members,
        )  # fmt: skip
        reply = await self._find(actor, request)
        found = reply.found
        end = offset + len(found)
        if not found or end >= reply.total:
            return found, None
        return found, self._cursors.issue({"o": end, "g": reply.generation}, *bound)

    async def _find(self, actor: Actor, request: FindRequest) -> _Matches:
        return await self._bus.request(
            self._bus.subjects.endpoint(INDEX, "search"), request, _Matches,
            service=INDEX, timeout_s=SEARCH_TIMEOUT_S, actor=actor,
        )  # fmt: skip

    async def _ranked_resources(
        self, actor: Actor, view: View, query: str
    ) -> tuple[list[ResourceDescriptor], list[SourceCoverage]]:
        requests: dict[str, Request[Any]] = {
            INDEX: Request(
                self._bus.subjects.endpoint(INDEX, "search"),
                FindRequest(
                    query=query, kind="resource", limit=_MAX_RESOURCES, toolsets=view.members
                ),
                _Matches, service=INDEX, actor=actor,
            )
        }  # fmt: skip
        for toolset, service in view.toolsets_with(actor, lambda one: one.searches):
            requests[toolset] = Request(
                self._bus.subjects.resource(toolset, "search"),
                ResourceSearchRequest(query=query, limit=_MAX_RESOURCES),
                ResourceSearchReply, service=service, actor=actor,
            )  # fmt: skip
        gathered = await self._bus.gather(requests, timeout_s=SEARCH_TIMEOUT_S)
        for failure in gathered.failures.values():
            if failure.code in _PUBLIC:
                raise Fault.of(failure)
        rankings: list[list[ResourceDescriptor]] = []
        coverage: list[SourceCoverage] = []
        for source, reply in gathered.replies.items():
            if isinstance(reply, _Matches):
                listed = (view.resources.get(found.name) for found in reply.found)
                ranking = [r for r in listed if r is not None]
                parts: tuple[SourceCoverage, ...] = ()
            else:
                ranking, parts = list(reply.resources), reply.coverage
            rankings.append([r for r in ranking if actor.holds(r.required_roles)])
            coverage += parts or (SourceCoverage.of_results(source, len(rankings[-1])),)
        coverage += (
            SourceCoverage.of_failure(source, why) for source, why in gathered.failures.items()
        )
        found = _fuse(rankings)
        if not found and gathered.failures:  # an empty list would say that there is nothing
            raise Fault.of(next(iter(gathered.failures.values())))
        return found, coverage

    def _open(self, cursor: str | None, bound: tuple[object, ...]) -> dict[str, Any]:
        try:
            return self._cursors.read(cursor, *bound)
        except CursorError:
            raise Fault(ErrorCode.INVALID_ARGUMENT, _UNKNOWN_CURSOR) from None

    async def _admit(self, actor: Actor, query: str, *, keep_lines: bool = True) -> str:
        """The checked query, counted against the caller's limit."""
        checked = _checked(query, keep_lines=keep_lines)
        await self._limiter.admit(actor.subject)
        return checked


def _checked(query: str, *, keep_lines: bool = True) -> str:
    """The query with its white space normalised; of lines, the index searches each."""
    return check_query(query, max_chars=MAX_FIND_CHARS, keep_lines=keep_lines)


_UNKNOWN_CURSOR = "Unknown cursor for this query. Omit it to start from the first page."
_CHANGED = "The results have changed since the first page. Omit the cursor to start from there."


def _listed(actor: Actor, view: View, found: Sequence[Any]) -> list[ListedTool]:
    """Those of the found tools that the view lists and the actor may use."""
    listed = [view.tool_of.get((match.toolset, match.name)) for match in found]
    return [tool for tool in listed if tool is not None and actor.holds(tool.required_roles)]


def _fuse(rankings: Sequence[Sequence[ResourceDescriptor]]) -> list[ResourceDescriptor]:
    """Reciprocal rank fusion; ties by URI."""
    known: dict[str, ResourceDescriptor] = {}
    for ranking in rankings:
        for resource in ranking:
            known.setdefault(resource.uri, resource)
    scores = reciprocal_rank_fusion(([r.uri for r in ranking] for ranking in rankings), k=_K)
    return [known[uri] for uri in sorted(scores, key=lambda uri: (-scores[uri], uri))]


def _fingerprint(resources: Sequence[ResourceDescriptor]) -> str:
    text = "\n".join(resource.uri for resource in resources)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
