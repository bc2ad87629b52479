"""The extensions of the protocol that every endpoint serves: tasks, skills and views
(docs/extensions.md).

Views of attached servers are resources like any other. Ours is in no list: the tool `search` names
it to clients that declare the extension with their request, so that the lists of all others stay as
they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.server import Server

from searchbus_bus import Bus
from searchbus_contracts import Actor

from ..auth.signing import StateKey
from ..catalog.registry import Registry
from ..catalog.render import RESULTS_VIEW, Pages
from ..catalog.view import View
from ..settings import EdgeSettings
from ..skills import EXTENSION as SKILLS
from ..skills import Skills, read_folder
from ..tasks.running import Tasks
from ..tasks.store import EXTENSION as TASKS
from ..tasks.store import TaskStore
from ..tools.call import MISSING_CAPABILITY, ToolCalls, required_capabilities
from ..tools.faults import guarded
from .client import FIRST_REVISION, VIEWS, Context, client_capabilities, lacking


class SkillParams(types.RequestParams):
    """Parameters of skills/get: the URI of a SKILL.md."""

    uri: str


class QueryParams(types.RequestParams):
    """Parameters of skills/search."""

    query: str


@dataclass(frozen=True, slots=True)
class Extensions:
    """What the endpoints of an edge share; without tasks, no call becomes one."""

    skills: Skills
    tasks: Tasks | None

    def add_to(
        self,
        server: Server[Any],
        endpoint: str | None,
        pages: Pages,
        *,
        view: Callable[[], View],
        actor_of: Callable[[Context], Actor],
        ttl_ms: int,
    ) -> None:
        """Add the methods to the server of an endpoint (None: `/mcp`), whose lists clients keep for
        `ttl_ms`, and declare the extensions."""
        skills, cached = self.skills, {"ttlMs": ttl_ms, "cacheScope": "private"}

        async def list_page(ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
            entries = skills.entries(actor_of(ctx), view())
            page, cursor = pages.page(entries, params.cursor, "skills", view().toolset)
            found = {"skills": page, **cached}
            return found if cursor is None else {**found, "nextCursor": cursor}

        async def get(ctx: Context, params: SkillParams) -> dict[str, Any]:
            return {"skill": skills.get(actor_of(ctx), view(), params.uri), **cached}

        async def search(ctx: Context, params: QueryParams) -> dict[str, Any]:
            return {"skills": await skills.search(actor_of(ctx), view(), params.query), **cached}

        server.extensions |= {VIEWS: {}, SKILLS: {}}
        server.add_request_handler("skills/list", types.PaginatedRequestParams, guarded(list_page))
        server.add_request_handler("skills/get", SkillParams, guarded(get))
        server.add_request_handler("skills/search", QueryParams, guarded(search))
        if self.tasks is not None:
            add_task_methods(server, self.tasks, endpoint, actor_of)


@asynccontextmanager
async def open_extensions(
    bus: Bus,
    settings: EdgeSettings,
    calls: ToolCalls,
    registry: Registry,
    key: StateKey,
    clock: Callable[[], float],
) -> AsyncIterator[Extensions]:
    """Read the skills, open the store of tasks; leaving the context ends the tasks here."""
    skills = Skills(read_folder(settings.skills_dir) if settings.skills_dir is not None else ())
    if not settings.task_after_s:
        yield Extensions(skills, None)
        return
    tasks = Tasks(
        calls,
        await TaskStore.over(bus, key, clock=clock),
        view=registry.view,
        able=lambda required, capabilities: not lacking(required, capabilities),
        after_s=settings.task_after_s,
    )
    try:
        yield Extensions(skills, tasks)
    finally:
        await tasks.close()


P = TypeVar("P", bound="TaskParams")


class TaskParams(types.RequestParams):
    """Parameters of tasks/get and tasks/cancel."""

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of tasks/update: responses by the keys of the requests for input."""

    input_responses: dict[str, Any]


def takes_tasks(ctx: Context) -> bool:
    """Whether the client of a request takes a task in place of a result."""
    return ctx.protocol_version >= FIRST_REVISION and TASKS in client_capabilities(ctx)


def add_task_methods(
    server: Server[Any], tasks: Tasks, endpoint: str | None, actor_of: Callable[[Context], Actor]
) -> None:
    """Add the methods to the server of an endpoint (None: `/mcp`), and declare the extension."""

    async def get(ctx: Context, params: TaskParams) -> dict[str, Any]:
        return (await tasks.get(actor_of(ctx), endpoint, params.task_id)).detailed()

    async def update(ctx: Context, params: UpdateParams) -> dict[str, Any]:
        await tasks.update(actor_of(ctx), endpoint, params.task_id, params.input_responses)
        return {}

    async def cancel(ctx: Context, params: TaskParams) -> dict[str, Any]:
        await tasks.cancel(actor_of(ctx), endpoint, params.task_id)
        return {}

    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, guarded(_gated(get)))
    server.add_request_handler("tasks/update", UpdateParams, guarded(_gated(update)))
    server.add_request_handler("tasks/cancel", TaskParams, guarded(_gated(cancel)))


def _gated(
    handler: Callable[[Context, P], Awaitable[dict[str, Any]]],
) -> Callable[[Context, P], Awaitable[dict[str, Any]]]:
    """Refuse a client that has not declared the extension with its request."""

    async def gated(ctx: Context, params: P) -> dict[str, Any]:
        if ctx.protocol_version < FIRST_REVISION:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not takes_tasks(ctx):
            raise MCPError(
                MISSING_CAPABILITY,
                f"{ctx.method} needs a client that declares the extension {TASKS}.",
                {"requiredCapabilities": required_capabilities([TASKS])},
            )
        return await handler(ctx, params)

    return gated


MIME_TYPE = "text/html;profile=mcp-app"


def read_view(uri: str) -> types.ReadResourceResult | None:
    """The view of search results; None of any other URI. It may reach no address."""
    if uri != RESULTS_VIEW:
        return None
    contents = types.TextResourceContents(
        uri=uri, mime_type=MIME_TYPE, text=_page(), _meta={"ui": {"prefersBorder": True}}
    )
    return types.ReadResourceResult(contents=[contents])


@cache
def _page() -> str:
    return files(__package__).joinpath("search_results.html").read_text()
