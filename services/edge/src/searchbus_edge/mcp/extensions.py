"""The extensions of the protocol that every endpoint serves: tasks, skills and views."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp.server import Server

from searchbus_bus import Bus
from searchbus_contracts import Actor

from ..auth.signing import StateKey
from ..catalog.pages import Pages
from ..catalog.registry import Registry
from ..catalog.view import View
from ..settings import EdgeSettings
from ..skills.catalogue import Skills
from ..skills.folder import read_folder
from ..tasks.running import Tasks
from ..tasks.store import BUCKET, BUCKET_BYTES, BUCKET_TTL_S, TaskStore
from ..tools.call import ToolCalls
from .client import VIEWS, Context, lacking
from .skill_methods import add_skill_methods
from .task_methods import add_task_methods


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
        `ttl_ms`."""
        server.extensions[VIEWS] = {}
        add_skill_methods(server, self.skills, pages, view=view, actor_of=actor_of, ttl_ms=ttl_ms)
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
    bucket = await bus.key_value(BUCKET, ttl_s=BUCKET_TTL_S, max_bytes=BUCKET_BYTES)
    tasks = Tasks(
        calls,
        TaskStore(bucket, key, clock=clock),
        view=registry.view,
        able=lambda required, capabilities: not lacking(required, capabilities),
        after_s=settings.task_after_s,
    )
    try:
        yield Extensions(skills, tasks)
    finally:
        await tasks.close()
