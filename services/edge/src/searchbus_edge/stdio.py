"""`searchbus stdio`: MCP over standard input and output, for desktop hosts."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from mcp.server.stdio import stdio_server

from searchbus_bus import Bus, connect, end_task
from searchbus_contracts import Fault
from searchbus_contracts.services import Service, needed_for, toolset_owners
from searchbus_runtime import (
    bus_options,
    configure_logging,
    load_settings,
    operator_options,
)
from searchbus_runtime.services import DeclarationFault, installed_services
from searchbus_runtime.state import UnusableFolder, open_data_folder
from searchbus_runtime.telemetry import configure_telemetry

from .bootstrap import open_edge
from .edge import Edge
from .joining import StackClient, StackFault
from .search.lazy import LAZY
from .settings import EdgeSettings

__all__ = ["command"]

log = logging.getLogger("searchbus.stdio")
SERVICES_TIMEOUT_S = 300.0
_POLL_S = 0.2


def command(
    toolset: Annotated[
        str | None, typer.Option(help="Offer one toolset only, as /mcp/<toolset> does.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
) -> None:
    """Serve MCP over standard input and output.

    Joins the stack that runs on the data folder. Where none runs, starts one with the services
    that the toolset needs; it ends with the last client that uses it (its log: <data>/stdio.log).

    Example: searchbus stdio --toolset fomc
    """
    try:
        folder = open_data_folder(data)
        services = installed_services()
        # The edge's own tools call all others.
        with StackClient(folder, None if toolset == LAZY else toolset) as client:
            # A running stack may have toolsets that no installed service declares.
            if not client.find():
                _refuse_unknown(toolset, _declared(services))
                client.join()
            asyncio.run(_serve(client, folder, toolset, services))
    except (Fault, StackFault, DeclarationFault, UnusableFolder, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None


async def _serve(
    client: StackClient, folder: Path, toolset: str | None, services: Mapping[str, Service]
) -> None:
    assert client.state is not None
    settings = load_settings(EdgeSettings, nats_url=client.state.nats_url, data_dir=folder)
    configure_logging("stdio", level="warning", style=settings.log_format)
    flush = configure_telemetry("edge", settings)
    try:
        options = bus_options(settings) | operator_options(folder)
        bus = await connect(
            settings.nats_url,
            name="stdio",
            # A stack that was started again has another port.
            find_url=lambda: client.state.nats_url if client.state is not None else None,
            **options,
        )
        following = asyncio.get_running_loop().create_task(_follow_stack(bus, client))
        try:
            async with open_edge(bus, settings, declared=toolset_owners(services)) as edge:
                if client.owns:
                    await _wait_for_services(edge, toolset, services)
                if toolset is not None and not edge.registry.offers(toolset):
                    _refuse_unknown(toolset, {*_declared(services), *edge.registry.toolsets})
                server = edge.servers.get(toolset).mcp
                async with stdio_server() as (incoming, outgoing):
                    await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            client.leave()
            await end_task(following)
            await bus.close()
    finally:
        flush()


async def _follow_stack(bus: Bus, client: StackClient) -> None:
    """Join the stack again whenever the connection to it is lost.

    A stack that only its clients use is started again by one of them.
    """
    while True:
        await asyncio.sleep(_POLL_S)
        if bus.connected:
            continue
        try:
            if client.owns:
                await asyncio.to_thread(client.join)
            else:
                client.find()
        except (StackFault, OSError) as error:
            log.error("%s", error)


async def _wait_for_services(
    edge: Edge, toolset: str | None, services: Mapping[str, Service]
) -> None:
    """Wait for services that the stack starts because this client joined."""
    needed = needed_for(None if toolset == LAZY else toolset, services)
    workers = {services[name].group for name in needed if services[name].serves}
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + SERVICES_TIMEOUT_S
    while missing := sorted(worker for worker in workers if not edge.directory.present(worker)):
        if loop.time() > give_up_s:
            log.warning("without %s: not there after %.0f s", missing, SERVICES_TIMEOUT_S)
            return
        await asyncio.sleep(_POLL_S)


def _declared(services: Mapping[str, Service]) -> set[str]:
    """The toolsets of the installed services."""
    return set[str]().union(*(service.offers for service in services.values()))


def _refuse_unknown(toolset: str | None, known: set[str]) -> None:
    if toolset is not None and toolset not in known:
        raise StackFault(
            f"There is no toolset {toolset}. Choose one of {', '.join(sorted(known))}, or leave "
            "out --toolset for all tools."
        )
