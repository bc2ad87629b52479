"""`searchbus stdio`: MCP over standard input and output, for desktop hosts.

It joins the stack on a data folder, and starts one where none runs. Clients that start at once take
turns: the first starts the stack, the others wait and join it. A stack that a client started ends
with the last client that uses it (`searchbus_runtime.state`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    toolset: Annotated[
        str | None, typer.Option(help="Offer one toolset only, as /mcp/<toolset> does.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file (default: searchbus.toml in the data folder)."),
    ] = None,
) -> None:
    """Serve MCP over standard input and output.

    Joins the stack that runs on the data folder. Where none runs, starts one with the services
    that the toolset needs; it ends with the last client that uses it (its log: <data>/stdio.log).
    Meanwhile the client is answered: its handshake at once, its requests when the stack is up.

    Example: searchbus stdio --toolset fomc
    """
    # Imported here: `searchbus stdio --help` needs none of the edge.
    import asyncio

    from searchbus_contracts import Fault
    from searchbus_runtime.config_file import use_config
    from searchbus_runtime.services import ServiceDeclarationError, installed_services
    from searchbus_runtime.state import UnusableFolderError, open_data_folder

    from ..catalog.view import LAZY
    from .joining import NoStackError, StackClient
    from .serving import declared_toolsets, refuse_unknown, serve

    use_config(config)
    try:
        folder = open_data_folder(data)
        services = installed_services()
        # The edge's own tools call all others.
        with StackClient(folder, None if toolset == LAZY else toolset) as client:
            # A running stack may have toolsets that no installed service declares.
            if not client.find():
                refuse_unknown(toolset, declared_toolsets(services))
            asyncio.run(serve(client, folder, toolset, services))
    except (Fault, NoStackError, ServiceDeclarationError, UnusableFolderError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None
