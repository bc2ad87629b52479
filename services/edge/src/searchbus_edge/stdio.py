"""`searchbus stdio`: MCP over standard input and output, for desktop hosts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from mcp.server.stdio import stdio_server

from searchbus_bus import connect
from searchbus_contracts import Fault
from searchbus_runtime import (
    StackState,
    bus_options,
    configure_logging,
    data_folder,
    load_settings,
    operator_options,
    read_state,
)
from searchbus_runtime.telemetry import configure_telemetry

from .bootstrap import open_edge
from .settings import EdgeSettings

__all__ = ["command"]

START_TIMEOUT_S = 120.0


def command(
    toolset: Annotated[
        str | None, typer.Option(help="Offer one toolset only, as /mcp/<toolset> does.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
) -> None:
    """Serve MCP over standard input and output.

    Joins the stack that runs on the data folder; where none runs, starts one for as long as the
    host is connected (its log: <data>/stdio.log).

    Example: searchbus stdio --toolset fomc
    """
    folder = data_folder(data)
    try:
        with _stack(folder) as state:
            settings = load_settings(EdgeSettings, nats_url=state.nats_url, data_dir=folder)
            configure_logging("stdio", level="warning", style=settings.log_format)
            flush = configure_telemetry("edge", settings)
            try:
                asyncio.run(_serve(settings, toolset))
            finally:
                flush()
    except (Fault, TimeoutError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None


async def _serve(settings: EdgeSettings, toolset: str | None) -> None:
    options = bus_options(settings)
    if settings.data_dir is not None:
        options |= operator_options(settings.data_dir)
    bus = await connect(settings.nats_url, name="stdio", **options)
    try:
        async with open_edge(bus, settings) as edge, stdio_server() as (incoming, outgoing):
            server = edge.servers.get(toolset).mcp
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await bus.close()


@contextmanager
def _stack(folder: Path) -> Iterator[StackState]:
    """The running stack, or one that is started here and stopped at the end."""
    state = read_state(folder)
    if state is not None:
        yield state
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "stdio.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "searchbus_cli", "up", "--port", "0", "--data", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while (state := read_state(folder)) is None:
            if process.poll() is not None:
                raise TimeoutError(f"the stack did not start. See {folder / 'stdio.log'}.")
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"the stack is not up in {START_TIMEOUT_S:.0f} s. See {folder / 'stdio.log'}."
                )
            time.sleep(0.1)
        yield state
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
