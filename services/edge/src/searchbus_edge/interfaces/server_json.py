"""`searchbus server-json`: the entry of this deployment for a registry of MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from searchbus_contracts import encode
from searchbus_runtime import data_folder, load_settings

from ..settings import EdgeSettings
from .server_card import SCHEMAS, identity, remote


def server_json(settings: EdgeSettings, base_url: str) -> dict[str, Any]:
    """The entry, by the registry's schema of 2025-12-11: a remote server at `base_url`, without a
    package."""
    schema = f"{SCHEMAS}/2025-12-11/server.schema.json"
    return {"$schema": schema, **identity(settings), "remotes": [remote(settings, base_url)]}


def command(
    data: Annotated[Path | None, typer.Option(help="Data folder of the stack.")] = None,
) -> None:
    """Print the server.json of this deployment, for a registry of MCP servers.

    Example: searchbus server-json
    """
    settings = load_settings(EdgeSettings, "edge", data_dir=data_folder(data))
    for name in ("server_name", "public_url"):
        if getattr(settings, name) is None:
            typer.echo(f"error: set SEARCHBUS_{name.upper()}: a registry needs it.", err=True)
            raise typer.Exit(1)
    typer.echo(encode(server_json(settings, settings.base_url(settings.port))))
