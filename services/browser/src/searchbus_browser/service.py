"""Wires the service: the guard of all pages, the browsers, the worker."""

from __future__ import annotations

import logging

from searchbus_bus import Worker
from searchbus_runtime import Process
from searchbus_runtime.parent import adopt_orphans
from searchbus_upstream import GuardedBackend

from .rendering import Renderer
from .settings import BrowserSettings

log = logging.getLogger("searchbus.browser")


async def start(process: Process[BrowserSettings]) -> None:
    """Serve, also without a Chromium: each request then says what to install."""
    # A Chromium's processes are ours to wait for: the first process of a container is no `init`.
    adopt_orphans(True)
    settings = process.settings
    if settings.chromium is None:
        log.error("there is no Chromium: install it, or set SEARCHBUS_BROWSER_CHROMIUM")
    renderer = Renderer(
        settings.chromium,
        GuardedBackend(routes=settings.web_routes),
        pages=settings.browser_pages,
        settle_s=settings.browser_page_timeout_s,
        memory_bytes=settings.browser_page_memory_mb * 2**20,
        sandbox=settings.browser_sandbox,
    )
    worker = Worker(
        "browser",
        # Those that wait for a place are in flight too.
        max_in_flight=4 * settings.browser_pages,
        description="Pages that need JavaScript, in a Chromium.",
    )
    worker.add(renderer)
    await process.serve(worker)
