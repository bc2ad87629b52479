"""Starts the edge in its process."""

from __future__ import annotations

import logging

from searchbus_contracts.services import toolset_owners
from searchbus_runtime import Process
from searchbus_runtime.addresses import url_of
from searchbus_runtime.files import write_atomically
from searchbus_runtime.process import keep_freed_memory
from searchbus_runtime.protocol import ConnectionLimits
from searchbus_runtime.server import bind
from searchbus_runtime.services import known_services

from .app import build_app
from .bootstrap import open_edge
from .settings import EdgeSettings

log = logging.getLogger("searchbus.edge")

_KEPT_BYTES = 32 * 1024 * 1024
"""The copies of a reply of 5 MiB: with less, making them anew takes a quarter of its CPU time."""


async def start(process: Process[EdgeSettings]) -> None:
    """Bind the port, which is part of the address that clients get, build the edge, and serve."""
    settings = process.settings
    keep_freed_memory(_KEPT_BYTES)
    listener = bind(settings.host, settings.port, reuse_port=settings.reuse_port)
    port = listener.getsockname()[1]
    services = known_services()
    edge = await process.enter(
        open_edge(
            process.bus, settings, base_url=settings.base_url(port),
            declared=toolset_owners(services), expected=settings.expected(services.values()),
        )
    )  # fmt: skip
    process.health.add_readiness("catalogs", edge.ready)
    process.health.add_detail("away", edge.away)
    process.before_drain(edge.end_streams)
    process.drain_too(edge.lending.drain)
    process.at_limit(edge.end_calls)
    await process.run_server(
        build_app(edge, process.health),
        listener=listener,
        limits=ConnectionLimits(
            most=settings.max_connections, most_per_address=settings.max_connections_per_address
        ),
        trusted_proxies=settings.trusted_proxies,
        # httptools leaves trailing spaces in header values; http/head.py removes them.
        # A second or two after `end_calls`, so that its answers are sent.
        timeout_graceful_shutdown=int(settings.drain_timeout_s) + 2,
        server_header=False,
    )
    await process.serve(edge.connector)
    edge.lending.start()
    await edge.directory.refresh()
    if settings.port_file is not None:
        write_atomically(settings.port_file, str(port))
    log.info("listening on %s/mcp", url_of(settings.host, port))
