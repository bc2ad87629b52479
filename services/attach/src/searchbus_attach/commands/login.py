"""`searchbus attach login`, `logins`, `logout` and `identity`: sign-ins to remote servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from searchbus_runtime.wording import printable

from ..declare.auth_methods import OURSELVES
from ..declare.servers import Server, variable
from ..errors import ServerDeclarationError
from .options import (
    DataOption,
    FileOption,
    NameArgument,
    file_of,
    server_of,
    settings_of,
    unknown_server,
)

if TYPE_CHECKING:
    from ..auth.login import Logins
    from ..settings import AttachSettings


login_commands = typer.Typer()
_OURSELVES = "(searchbus)"

CallerOption = Annotated[
    str, typer.Option("--caller", help="Subject of the caller (default: searchbus itself).")
]


@login_commands.command("login")
def login(
    name: NameArgument,
    caller: CallerOption = OURSELVES,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """Print the address where a person signs in to a server; the service must be running.

    Without --caller it is the sign-in by which the server's list is read, and with which a server
    is called that all callers share.

    Example: searchbus attach login tracker
    """
    server = server_of(file_of(file, data), name)
    if server.auth is None or not server.auth.method.by_person:
        raise ServerDeclarationError(f"{name} has no 'auth' of type authorization_code or api_key.")
    typer.echo(_logins(settings_of(data)).ticket(name, caller))


@login_commands.command("logins")
def logins(data: DataOption = None) -> None:
    """List who signed in to which server.

    Example: searchbus attach logins
    """
    for server, caller in _logins(settings_of(data)).vault.logins():
        typer.echo(printable(f"{server}  {caller or _OURSELVES}", one_line=True))


@login_commands.command("logout")
def logout(
    name: NameArgument,
    caller: CallerOption = OURSELVES,
    every: Annotated[bool, typer.Option("--all", help="All callers of the server.")] = False,
    file: FileOption = None,
    data: DataOption = None,
) -> None:
    """End a sign-in: forget its tokens, and revoke them where the server's provider can.

    A running stack stops to use them within a second.

    Example: searchbus attach logout tracker --caller ann
    """
    found_file = file_of(file, data)
    declared = found_file.read_all()
    server = declared.servers.get(name)
    settings = settings_of(data)
    kept = settings.credentials().logins
    callers = [one for at, one in kept.vault.logins() if at == name] if kept else []
    # With sign-ins it may be removed from the file already.
    if server is None and not callers:
        raise unknown_server(found_file, name, declared)
    found = kept or _logins(settings)
    ended = [one for one in callers if every or one == caller]
    if not ended:
        raise ServerDeclarationError(f"Nobody to sign out of {name}; see searchbus attach logins.")
    for one in ended:
        typer.echo(printable(f"{name}  {one or _OURSELVES}: {_end(found, server, name, one)}"))


@login_commands.command("identity")
def identity(data: DataOption = None) -> None:
    """Print the public key that an authorization server must trust for token exchange (JWKS).

    Example: searchbus attach identity
    """
    found = settings_of(data).identity
    if found is None:
        raise ServerDeclarationError("There is no key: set SEARCHBUS_ATTACH_IDENTITY_KEY.")
    typer.echo(found.public_keys())


def _logins(settings: AttachSettings) -> Logins:
    from ..auth.login import NO_LOGINS  # here: it takes longer than all the rest

    found = settings.credentials().logins
    if found is None:
        raise ServerDeclarationError(NO_LOGINS)
    return found


def _end(logins: Logins, server: Server | None, name: str, caller: str) -> str:
    tokens = logins.vault.get(name, caller)
    logins.vault.remove(name, caller)
    if server is None or server.auth is None or tokens is None:
        return "forgotten, not revoked: the server is not declared any more"
    try:
        expanded = server.expanded(variable)
    except ServerDeclarationError as error:
        return f"forgotten, not revoked: {error}"
    return asyncio.run(logins.revoke(expanded, tokens))
