"""`searchbus stdio`, `console` and `server-json`, which import the edge when they are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from searchbus_runtime.wording import CommandError

_REDIRECT = '<!doctype html><meta http-equiv="refresh" content="0; url={}">'

DataOption = Annotated[Path | None, typer.Option(help="Data folder of the stack.")]


def stdio(
    toolset: Annotated[
        str | None, typer.Option(help="Offer one toolset only, as /mcp/<toolset> does.")
    ] = None,
    data: DataOption = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file (default: searchbus.toml in the data folder)."),
    ] = None,
) -> None:
    """Serve MCP over standard input and output.

    Works in the data folder, wherever its host starts it: no project that a host opens changes
    settings by a `.env`, or is in the way of an attached command.

    Joins the stack that runs on the data folder. Where none runs, starts one with the services
    that the toolset needs; it ends with the last client that uses it (its log: <data>/stdio.log).
    Meanwhile the client is answered: its handshake at once, its requests when the stack is up.

    Example: searchbus stdio --toolset fomc
    """
    import asyncio
    import os

    from searchbus_contracts import Fault
    from searchbus_runtime.config_file import named_config, use_config
    from searchbus_runtime.services import ServiceDeclarationError, installed_services
    from searchbus_runtime.state import UnusableFolderError, open_data_folder

    from .catalog.view import LAZY
    from .stdio.serving import (
        NoStackError,
        StackClient,
        declared_toolsets,
        refuse_unknown,
        serve,
    )

    use_config(config or named_config())  # which makes a relative path absolute
    try:
        folder = open_data_folder(data)
        os.chdir(folder)
        services = installed_services()
        # The edge's own tools call all others. Clients that start at once take turns: the first
        # starts the stack, the others wait and join it.
        with StackClient(folder, None if toolset == LAZY else toolset) as client:
            # A running stack may have toolsets that no installed service declares.
            if not client.find():
                refuse_unknown(toolset, declared_toolsets(services))
            asyncio.run(serve(client, folder, toolset, services))
    except (Fault, NoStackError, ServiceDeclarationError, UnusableFolderError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None


def console(
    data: DataOption = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the address, and open no browser.")
    ] = False,
) -> None:
    """Open the console of the running stack in the browser.

    Without sign-in the address holds the token that lets the page change things: keep it private.
    The browser opens it by a file of yours, <data>/console.html: every user of this machine can
    read the arguments of a program.

    Example: searchbus console --print
    """
    import html
    import webbrowser

    from searchbus_runtime.config_file import find_config
    from searchbus_runtime.config_sources import Sources
    from searchbus_runtime.files import write_atomically
    from searchbus_runtime.secret import values_of
    from searchbus_runtime.state import data_folder, no_stack, read_state

    from .auth.signing import load_key
    from .interfaces.console.access import console_token

    folder = data_folder(data)
    state = read_state(folder)
    if state is None:
        raise CommandError(no_stack(folder))
    try:
        given = Sources("edge", find_config(folder)).text("state_key")
        key = values_of(given)[0].encode() if given is not None else load_key(folder)
        # Behind # it is sent to no server and stands in no log.
        address = f"{state.url}/console#token={console_token(key)}"
        page = (folder / "console.html").absolute()
        if not show:
            write_atomically(page, _REDIRECT.format(html.escape(address)), mode=0o600)
    except OSError as error:
        raise CommandError(
            f"{folder} cannot be used ({error.strerror}). Make its files yours."
        ) from None
    if show or not webbrowser.open(page.as_uri()):
        typer.echo(address)
    else:
        typer.echo("Where no browser shows it: searchbus console --print", err=True)


def server_json(data: DataOption = None) -> None:
    """Print the server.json of this deployment, for a registry of MCP servers.

    Example: searchbus server-json
    """
    from searchbus_contracts import encode
    from searchbus_runtime import data_folder, load_settings

    from .interfaces.server_card import registry_entry
    from .settings import EdgeSettings

    settings = load_settings(EdgeSettings, "edge", data_dir=data_folder(data))
    for name in ("server_name", "public_url"):
        if getattr(settings, name) is None:
            raise CommandError(f"set SEARCHBUS_{name.upper()}: a registry needs it.")
    typer.echo(encode(registry_entry(settings, settings.base_url(settings.port))))
