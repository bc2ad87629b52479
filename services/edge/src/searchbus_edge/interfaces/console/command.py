"""`searchbus console`: opens the console of the running stack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the address, and open no browser.")
    ] = False,
) -> None:
    """Open the console of the running stack in the browser.

    Without sign-in the address holds the token that lets the page change things: keep it private.

    Example: searchbus console --print
    """
    # Imported here: `searchbus console --help` needs none of the edge.
    import webbrowser

    from searchbus_runtime.config_file import find_config
    from searchbus_runtime.config_sources import Sources
    from searchbus_runtime.secret import values_of
    from searchbus_runtime.state import data_folder, no_stack, read_state

    from ...auth.signing import load_key
    from .access import console_token

    folder = data_folder(data)
    state = read_state(folder)
    if state is None:
        typer.echo(f"error: {no_stack(folder)}", err=True)
        raise typer.Exit(1)
    try:
        given = Sources("edge", find_config(folder)).text("state_key")
        key = values_of(given)[0].encode() if given is not None else load_key(folder)
    except OSError as error:
        typer.echo(f"error: {folder} cannot be read ({error.strerror}).", err=True)
        raise typer.Exit(1) from None
    # Behind # it is sent to no server and stands in no log.
    address = f"{state.url}/console#token={console_token(key)}"
    if show or not webbrowser.open(address):
        typer.echo(address)
