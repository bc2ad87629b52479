"""Starts the edge in its process."""

from __future__ import annotations

import logging
from pathlib import Path

from searchbus_runtime import Process

from .app import build_app
from .edge import Edge
from .settings import EdgeSettings

__all__ = ["start"]

log = logging.getLogger("searchbus.edge")


async def start(process: Process[EdgeSettings]) -> None:
    """Follow the catalogue, then listen."""
    settings = process.settings
    edge = await process.enter(Edge(process.bus, settings))
    process.health.add_readiness("services", edge.ready)
    process.before_drain(edge.end_streams)
    port = await process.run_server(
        build_app(edge, process.health),
        host=settings.host,
        port=settings.port,
        # httptools lets trailing spaces of header values through; see guard.py.
        timeout_graceful_shutdown=int(settings.drain_timeout_s) + 1,
        server_header=False,
    )
    if not edge.base_url:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        edge.base_url = f"http://{host}:{port}"
    await process.serve(edge.connector())
    await edge.directory.refresh()
    if settings.port_file is not None:
        _write(settings.port_file, str(port))
    log.info("listening on http://%s:%d/mcp", settings.host, port)


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(".tmp")
    draft.write_text(text)
    draft.replace(path)
