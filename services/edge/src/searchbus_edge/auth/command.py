"""`searchbus keys`: static keys for deployments without an identity provider."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from searchbus_contracts import is_token
from searchbus_runtime import data_folder
from searchbus_runtime.config_sources import configured_path
from searchbus_runtime.wording import CommandError, printable

from .static_keys import MAX_DAYS, KeyFile, KeyRecord

keys = typer.Typer(help="Make, list and revoke keys (SEARCHBUS_AUTH=static).", no_args_is_help=True)

FileOption = Annotated[
    Path | None, typer.Option("--file", help="The keys file (default: <data>/keys.json).")
]
DataOption = Annotated[Path | None, typer.Option(help="Data folder of the stack.")]
DaysOption = Annotated[
    int, typer.Option(min=0, max=MAX_DAYS, help="Days until the key expires; 0: never.")
]


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="A name to tell the keys apart, e.g. its owner.")],
    role: Annotated[
        list[str] | None, typer.Option(help="A role; may be repeated. '*' is every role.")
    ] = None,
    days: DaysOption = 0,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="The key is valid at /mcp/ENDPOINT only; may be repeated."),
    ] = None,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Make a key and print it. It is never shown again.

    Example: searchbus keys add laptop --role MCP-WEB-SEARCH --days 90
    """
    expires_s = int(time.time()) + days * 86_400 if days else 0
    with _errors():
        endpoints = tuple(map(_endpoint, endpoint or ()))
        key, record = _file(file, data).add(
            name, tuple(role or ()), expires_s=expires_s, endpoints=endpoints
        )
    typer.echo(key)
    roles = ", ".join(record.roles) or "none"
    typer.echo(f"key {record.id} of {name}; roles: {roles}{_places(record)}", err=True)


@keys.command("list")
def list_keys(
    file: FileOption = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List name, roles and expiry of each key, never the keys themselves.

    Example: searchbus keys list
    """
    with _errors():
        records = _file(file, data).read()
    if as_json:
        typer.echo(json.dumps([record.shown() for record in records]))
        return
    if not records:
        typer.echo("there is no key; make one: searchbus keys add NAME", err=True)
    for record in records:
        until = _day(record.expires_s) if record.expires_s else "no end"
        roles = ", ".join(record.roles) or "no roles"
        valid = f"{_day(record.created_s)} to {until}{_places(record)}"
        line = f"{record.id}  {record.name}  {roles}  {valid}"
        typer.echo(printable(line, one_line=True))


@keys.command("rotate")
def rotate(
    name: Annotated[str, typer.Argument(help="The name of the key.")],
    days: DaysOption = 0,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Make a second key beside the first, with its roles, and print it; both are valid.

    Example: searchbus keys rotate laptop
    """
    expires_s = int(time.time()) + days * 86_400 if days else 0
    with _errors():
        key, record = _file(file, data).rotate(name, expires_s=expires_s)
    typer.echo(key)
    typer.echo(f"key {record.id} of {name}; then: searchbus keys retire {name}", err=True)


@keys.command("retire")
def retire(
    name: Annotated[str, typer.Argument(help="The name of the key.")],
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Revoke the keys of a name but the newest one, once its owner uses that.

    Example: searchbus keys retire laptop
    """
    with _errors():
        retired = _file(file, data).retire(name)
    typer.echo(f"revoked: {', '.join(retired) or 'none'}", err=True)


@keys.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id that `keys list` shows.")],
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Revoke a key; a running edge refuses it within a second.

    Example: searchbus keys revoke 1a2b3c4d
    """
    with _errors():
        revoked = _file(file, data).revoke(key_id)
    if not revoked:
        raise CommandError(f"no key has the id {key_id}; see searchbus keys list")
    typer.echo(f"key {key_id} is revoked", err=True)


@contextmanager
def _errors() -> Iterator[None]:
    """Report a damaged or unreadable file, and an unknown name, without a traceback."""
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"{error.filename} cannot be used ({error.strerror}). Choose another folder with "
            "--data, or a file with --file."
        ) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    except KeyError as error:
        name = error.args[0]
        raise CommandError(f"no key has the name {name}; see searchbus keys list") from None


def _file(file: Path | None, data: Path | None) -> KeyFile:
    folder = data_folder(data)
    return KeyFile(file or configured_path("keys_file", "edge", folder) or folder / "keys.json")


def _endpoint(name: str) -> str:
    """The name of an endpoint without `/mcp/`; raises ValueError."""
    name = name.removeprefix("/mcp/")
    if not is_token(name):
        raise ValueError(f"--endpoint {name[:40]!r}: give a name such as web, of /mcp/web.")
    if name in ("lazy", "bulk"):
        raise ValueError(
            f"--endpoint {name}: its tools call every other tool. Join it with others by "
            "SEARCHBUS_JOINED_ENDPOINTS, and name that endpoint."
        )
    return name


def _places(record: KeyRecord) -> str:
    return "".join(f" /mcp/{endpoint}" for endpoint in record.endpoints)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
