"""What the commands of `searchbus attach` share: their options, and how they report errors."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from searchbus_contracts import Fault
from searchbus_runtime import data_folder
from searchbus_runtime.config_sources import configured_path
from searchbus_runtime.wording import nearest, printable

from ..declare.attach_file import FILE_NAME, PINS_NAME, AttachFile, Declared
from ..declare.servers import Server
from ..errors import ServerDeclarationError, ServerError

if TYPE_CHECKING:
    from ..auth.credentials import Credentials
    from ..settings import AttachSettings


def server_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of declared servers that start with what is typed; none where the file is wrong."""
    options = context.params
    try:
        declared = file_of(options.get("file"), options.get("data")).read_all()
    except ServerDeclarationError:
        return []
    return [name for name in declared.servers if name.startswith(incomplete)]


_NAME = "The server's name, also that of its toolset."
NewNameArgument = Annotated[str, typer.Argument(help=_NAME)]
NameArgument = Annotated[str, typer.Argument(help=_NAME, autocompletion=server_names)]
NamesArgument = Annotated[list[str], typer.Argument(help="Servers.", autocompletion=server_names)]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file", envvar="SEARCHBUS_ATTACH_FILE", help="The file (default: <data>/attach.toml)."
    ),
]
DataOption = Annotated[Path | None, typer.Option(help="Data folder of the stack.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]


class ReportingGroup(TyperGroup):
    """Commands that report what an operator can mend without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            text = (
                f"{error.filename} cannot be used ({error.strerror})" if error.filename else error
            )
        except Fault as fault:
            text = f"{fault.code}: {fault.failure.message}"
        except (ValueError, ServerError) as error:
            text = str(error)
        typer.echo(printable(f"error: {text}"), err=True)
        raise typer.Exit(1)


class CommandAfterDashes(TyperCommand):
    """A command whose arguments are another command; without `--` before it, the options of that
    one are taken for its own.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say where `--` belongs, if that may be missing."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class is one of click, or of the copy of it that is in Typer.
            if type(error).__name__ == "NoSuchOption" and (line := self._with_dashes(given)):
                error.message += (  # type: ignore[attr-defined]
                    f". Write -- before the command: {ctx.command_path} {shlex.join(line)}"
                )
            raise

    def _with_dashes(self, given: list[str]) -> list[str]:
        """The words with `--` before the second one that belongs to no option; or nothing."""
        flags = {name for one in self.params if getattr(one, "is_flag", False) for name in one.opts}
        names = 0
        words = iter(enumerate(given))
        for place, word in words:
            if not word.startswith("-"):
                names += 1
                if names > 1:
                    return [*given[:place], "--", *given[place:]]
            elif word == "--":
                break
            elif "=" not in word and word not in flags:
                next(words, None)  # its value
        return []


def file_of(file: Path | None, data: Path | None, *, may_be_new: bool = False) -> AttachFile:
    """The file of servers.

    Args:
        may_be_new: whether the command makes a named file that is not there.

    Raises:
        DeclarationError: a named file is not there.
    """
    from searchbus_runtime.services import known_services

    from ..declare.attach_file import reserved_names

    if file is not None and not may_be_new and not file.exists():
        raise ServerDeclarationError(
            f"There is no file {file}. Name another one by --file or SEARCHBUS_ATTACH_FILE; "
            "searchbus attach add makes a new one."
        )
    if file is None:
        folder = data_folder(data)
        file = configured_path("attach_file", "attach", folder) or folder / FILE_NAME
    return AttachFile(file, reserved_names(known_services()))


def options_again(file: Path | None, data: Path | None) -> str:
    """What names the same file in a further command; empty for the usual one."""
    given = {"--file": file, "--data": data}
    if str(file) == os.environ.get("SEARCHBUS_ATTACH_FILE"):
        del given["--file"]
    return "".join(f" {name} {shlex.quote(str(path))}" for name, path in given.items() if path)


def pins_of(data: Path | None) -> Path:
    """The file of approved definitions."""
    return data_folder(data) / PINS_NAME


def server_of(file: AttachFile, name: str) -> Server:
    """A declared server. Raises DeclarationError where there is none of that name."""
    declared = file.read_all()
    if name not in declared.servers:
        raise unknown_server(file, name, declared)
    return declared.servers[name]


def unknown_server(file: AttachFile, name: str, declared: Declared) -> ServerDeclarationError:
    """What to say of a name that no server of the file has."""
    if name in declared.selections:
        return ServerDeclarationError(
            f"{name} is a view of several servers, not a server; searchbus attach list names them."
        )
    if not declared.servers:
        return ServerDeclarationError(
            f"There is no server {name}: none is attached in {file.path}. Attach one: "
            "searchbus attach add NAME -- COMMAND, or with --url ADDRESS"
        )
    near = nearest(name, [*declared.servers, *declared.selections])
    return ServerDeclarationError(f"There is no server {name} in {file.path}.{near}")


def settings_of(data: Path | None) -> AttachSettings:
    """The settings of the service."""
    # Imported here, as in the other modules of commands: each takes longer than `--help`.
    from searchbus_runtime import load_settings

    from ..settings import AttachSettings

    return load_settings(AttachSettings, "attach", data_dir=data_folder(data))


def credentials_for(server: Server, data: Path | None) -> Credentials:
    """What a command signs in to a server with: the same as the service."""
    from ..auth.credentials import Credentials  # here: it takes longer than all the rest

    return Credentials() if server.auth is None else settings_of(data).credentials()
