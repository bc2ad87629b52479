"""A group of commands that imports a command when it is called, not to list it.

A command's target is `module:attribute`: a function, or a `typer.Typer` with commands of its own.
The help of the group shows the first line of the function's docstring (or the `help` of the Typer).
It is read from the source, because importing every command takes seconds. A command that prints
data has the option `-o json`. A group's help is in panels, as Typer's own renderer prints them;
importing that takes longer than all the rest of `--help`: it has Markdown, syntax highlighting and
tracebacks.
"""

from __future__ import annotations

import ast
import errno
import functools
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from searchbus_runtime.wording import CommandError


class CommandGroup(TyperGroup):
    """A group of commands by name → target; sub-groups by `add_group`."""

    panels: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Title → names of commands, for its help."""

    def add_targets(self, targets: Mapping[str, str]) -> None:
        """Add commands; a name that is taken keeps its first target."""
        for name, target in targets.items():
            if name not in self.commands:
                self.add_command(_Deferred(name, target))

    def add_group(self, name: str, text: str) -> CommandGroup:
        """Add a sub-group with its help text; returns it."""
        group = CommandGroup(name=name, help=text, no_args_is_help=True)
        self.add_command(group)
        return group

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is called; what is raised for its user is an error message."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            raise _fail("\nerror: ".join(error.faults), error.code) from None
        except UnicodeEncodeError as error:
            # Bytes of an argument that are no UTF-8 are halves of surrogate pairs in Python.
            if error.encoding != "utf-8":
                raise
            raise _fail(f"{ascii(error.object)[:80]} is not UTF-8. Type it in UTF-8.", 2) from None
        except OSError as error:
            if error.errno == errno.ENOSPC:
                said = f"{error.strerror}. Free some, then run the command again."
            elif isinstance(error.filename, str):
                said = f"{error.filename}: {error.strerror}. Correct it, or give this user access."
            else:  # of a socket or a process: a fault of the program
                raise
            raise _fail(said) from None
        except Exception as error:
            # Only a command that imported the module of an exception can raise it.
            errors = sys.modules.get("searchbus_contracts.errors")
            if errors is None or not isinstance(error, errors.Fault):
                raise
            raise _fail(f"{error.code}: {error.failure.message}") from None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, _Deferred):
            command = command.load()
        if ctx.resilient_parsing and command is not None:
            # A shell waits for a completion, and Typer imports Pydantic to convert values.
            for parameter in command.get_params(ctx):
                setattr(parameter, "process_value", lambda _, value: value)  # noqa: B010
        return name, command, rest

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, off by default: Typer imports Pydantic to convert a missing value."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; a command's line is read from its source."""
        print_help(self, ctx, self.panels)


def _fail(message: str, code: int = 1) -> typer.Exit:
    from .output import fail  # Rich, which the help does not need

    return fail(message, code)


class _Deferred(TyperCommand):
    """Name and help line of a command that is not imported yet. The line is read to be shown."""

    def __init__(self, name: str, target: str) -> None:
        self.target = target
        super().__init__(name=name)

    @property
    def help(self) -> str:
        """The first line that describes it."""
        return help_line(self.target)

    @help.setter
    def help(self, text: str | None) -> None:
        """What the base class sets, which has no text."""

    def load(self) -> Any:
        """The command itself; ends with an error where its package is broken."""
        module, _, attribute = self.target.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except Exception as error:  # of a package that others wrote
            package = module.partition(".")[0].replace("_", "-")
            raise _fail(
                f"The command {self.name} cannot be imported ({type(error).__name__}: {error}). "
                f"Install {package} again."
            ) from None
        if isinstance(found, typer.Typer):
            _give_output_option(found)
            command: Any = get_group(found)
            command.format_help = lambda ctx, _: print_help(command, ctx, {})
        else:
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            app.command(self.name)(with_output_option(found))
            command = get_command(app)
        command.name = self.name
        for one in (command, *getattr(command, "commands", {}).values()):
            one.help = _flowing(one.help)
        return command


def _give_output_option(app: typer.Typer) -> None:
    """Give the option to the commands of a group, and of the groups in it."""
    for registered in app.registered_commands:
        if registered.callback is not None:
            registered.callback = with_output_option(registered.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _give_output_option(group.typer_instance)


def _flowing(text: str | None) -> str | None:
    """A docstring whose paragraphs break where the terminal ends; indented ones are kept."""
    if text is None:
        return None
    return "\n\n".join(
        paragraph if "\n " in paragraph else " ".join(paragraph.split("\n"))
        for paragraph in text.split("\n\n")
    )


def help_line(target: str) -> str:
    """The first line that describes `module:attribute`; empty where none is found.

    It is the docstring of a function, or the argument `help` of a call such as `typer.Typer(...)`.
    """
    module, _, attribute = target.partition(":")
    # Parsing whole files would be half of the time of `--help`: the layout tells where it is.
    name = re.escape(attribute)
    statement = rf"^(?:(?:async )?def )?{name}\b.*\n(?:[ \t)\]}}].*\n|\n)*"
    if (found := re.search(statement, _source(module), re.MULTILINE)) is None:
        return ""
    try:
        node = ast.parse(found[0]).body[0]
    except SyntaxError:
        return ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
    else:
        call = getattr(node, "value", None)
        helps = (k.value for k in getattr(call, "keywords", ()) if k.arg == "help")
        text = next((str(h.value) for h in helps if isinstance(h, ast.Constant)), None)
    return (text or "").strip().partition("\n")[0]


def is_module(module: str) -> bool:
    """Whether Python finds the source of a module."""
    return _file(module) is not None


def assigns(module: str, name: str) -> bool:
    """Whether a module sets a name at its top level, by an assignment or an import."""
    try:
        statements = ast.parse(_source(module)).body
    except (SyntaxError, ValueError):
        return False
    set_here: list[Any] = []
    for node in statements:
        if isinstance(node, ast.ImportFrom):
            set_here += (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            set_here += (getattr(target, "id", None) for target in targets)
    return name in set_here


def _source(module: str) -> str:
    """The source of a module; empty where it cannot be read."""
    path = _file(module)
    try:
        return path.read_text("utf-8") if path is not None else ""
    except (OSError, ValueError):
        return ""


def _file(module: str) -> Path | None:
    package, *inner = module.split(".")
    spec = PathFinder.find_spec(package)
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *inner)
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if candidate.is_file() and (inner or candidate.name == "__init__.py"):
                return candidate
    return Path(spec.origin) if spec.origin and not inner else None


FLAG = "as_json"
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", "-o", help="json: the same as the command's own flag for JSON."),
]


def with_output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `-o json` beside its flag, the parameter `as_json`; others are unchanged."""
    signature = inspect.signature(function, eval_str=True)
    # A group of commands that is loaded twice in one process has the option already.
    if FLAG not in signature.parameters or "output" in signature.parameters:
        return function

    @functools.wraps(function)
    def command(*, output: str, as_json: bool, **options: Any) -> Any:
        return function(**options, as_json=as_json or output == "json")

    added = inspect.Parameter(
        "output", inspect.Parameter.KEYWORD_ONLY, default="table", annotation=Output
    )
    parameters = [*signature.parameters.values(), added]
    # Typer reads both.
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


Rows = Sequence[tuple[str, str]]
"""Names, each with its line of help."""
REST = "Commands"
"""The panel of commands that no other panel has."""
_LEAST_WIDTH = 40
_CORNERS = ("╭", "─", "╮", "│", "╰", "╯")
_PLAIN_CORNERS = ("+", "-", "+", "|", "+", "+")
"""For a screen whose encoding has no others."""


def print_help(group: Any, context: Any, panels: Mapping[str, Sequence[str]]) -> None:
    """Print usage, options and commands of a group; `panels`: title → commands in the order
    shown."""
    width = max(_LEAST_WIDTH, shutil.get_terminal_size((80, 24)).columns)
    typer.secho(f"\n {group.get_usage(context)}\n", bold=True)
    for paragraph in (group.help or "").split("\n\n"):
        typer.echo(textwrap.indent(textwrap.fill(paragraph, width - 2), " ") + "\n")
    records = (param.get_help_record(context) for param in group.get_params(context))
    _print_panel("Options", [record for record in records if record is not None], 0, width)
    visible = {
        name: (command.help or "").partition("\n\n")[0]
        for name in group.list_commands(context)
        if (command := group.get_command(context, name)) is not None and not command.hidden
    }
    longest = max(map(len, visible), default=0)
    for title, names in panels.items():
        _print_panel(title, list(_taken(visible, names)), longest, width)
    _print_panel(REST, list(visible.items()), longest, width)


def _taken(visible: dict[str, str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The commands of one panel; they leave `visible`."""
    for name in names:
        if name in visible:
            yield name, visible.pop(name)


def _print_panel(title: str, rows: Rows, longest: int, width: int) -> None:
    if not rows:
        return
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    left, line, right, side, low_left, low_right = _CORNERS if is_unicode else _PLAIN_CORNERS
    longest = max(longest, *(len(name) for name, _ in rows))
    rest = max(1, width - longest - 6)
    edge = typer.style(side, dim=True)
    typer.echo(
        typer.style(f"{left}{line} {title} {line * (width - len(title) - 5)}{right}", dim=True)
    )
    for name, text in rows:
        shown = typer.style(name.ljust(longest), fg="cyan", bold=True)
        for part in textwrap.wrap(text, rest) or [""]:
            typer.echo(f"{edge} {shown}  {part.ljust(rest)} {edge}")
            shown = " " * longest
    typer.echo(typer.style(f"{low_left}{line * (width - 2)}{low_right}", dim=True))
