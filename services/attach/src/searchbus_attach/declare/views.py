"""What an operator makes of a server's tools: its view, and selections of tools across servers.

[servers.files.view]
allow = ["read_*", "list_*"]
deny = ["*_secret"]

[servers.files.view.tools.read_file]
name = "read"
description = "Read a file of the handbook."
arguments = {root = "/srv/handbook"}

[views.reading]
allow = ["files__read*", "tracker__search"]

Both are apart from the server's own definitions, which are pinned and read again as ever. Patterns
are those of a shell, over names on the bus.
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from searchbus_contracts import ToolAnnotations, is_token
from searchbus_runtime.wording import nearest

from ..errors import ServerDeclarationError
from .filters import known_filters
from .servers import check_keys, converted, server_name

_Seconds = Annotated[float, Meta(gt=0, le=600)]
_Patterns = tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...]
Kind = TypeVar("Kind", bound=Struct)


class Shape(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a tool's results.

    Args:
        fields: names with dots, through lists.
        max_rows: of every list that is a field of the result.
        max_tokens: of what is shown; the rest is a resource of the caller.
        argument_filters, result_filters: names of filters; see filters.py.
    """

    fields: tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...] = ()
    max_rows: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    max_tokens: Annotated[int, Meta(ge=200, le=1_000_000)] | None = None
    argument_filters: tuple[str, ...] = ()
    result_filters: tuple[str, ...] = ()


class ToolView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What replaces parts of one tool's definition.

    Args:
        name: that it is listed under.
        annotations: these replace the server's own, one by one.
        arguments: sent with each call; callers do not see them.
        required_roles: needed besides those of the server and of the view.
        costly: a call costs money.
        timeout_s: the time limit of a call.
        results: what is kept of its results, and the filters; by default those of the view.
        approve: whether a person has to approve each call.
    """

    name: str = ""
    title: Annotated[str, Meta(max_length=200)] = ""
    description: Annotated[str, Meta(max_length=8000)] = ""
    annotations: ToolAnnotations | None = None
    arguments: dict[str, Any] = {}
    required_roles: tuple[str, ...] = ()
    costly: bool | None = None
    timeout_s: _Seconds | None = None
    results: Shape | None = None
    approve: bool = False


class DeclaredView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A view of one server.

    Args:
        allow, deny: patterns of the tools that are listed, and of those among them that are not.
        prompts, resources: whether these are offered.
        required_roles: for all of its tools, besides those of the server.
        costly: a call of any of its tools costs money.
        timeout_s: the time limit of any of its tools.
        results: what is kept of the results of any of its tools.
        tools: by name.
    """

    allow: _Patterns = ("*",)
    deny: _Patterns = ()
    prompts: bool = True
    resources: bool = True
    required_roles: tuple[str, ...] = ()
    costly: bool = False
    timeout_s: _Seconds | None = None
    results: Shape = Shape()
    tools: dict[str, ToolView] = {}

    def allows(self, tool: str) -> bool:
        """Whether a tool is listed."""
        return _chosen(tool, self.allow, self.deny)


class Selection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tools of any servers as an endpoint of their own, `/mcp/<name>`.

    Args:
        allow, deny: patterns of names as on `/mcp`.
        required_roles: besides those of the tools.
    """

    name: str
    allow: Annotated[_Patterns, Meta(min_length=1)]
    deny: _Patterns = ()
    required_roles: tuple[str, ...] = ()

    def allows(self, tool: str) -> bool:
        """Whether a tool is one of the selection."""
        return _chosen(tool, self.allow, self.deny)


def parse_view(server: str, keys: Any) -> DeclaredView:
    """The table `view` of a server; raises DeclarationError that names a wrong key."""
    where = f"{server}.view"
    tools = keys.get("tools") if isinstance(keys, dict) else None
    for tool, inner in tools.items() if isinstance(tools, dict) else ():
        _parsed(f"{where}.tools.{tool}", inner, ToolView)
        _check_shape(f"{where}.tools.{tool}", inner)
        hints = inner.get("annotations") or {}
        known = list(ToolAnnotations.__struct_encode_fields__)
        check_keys(f"{where}.tools.{tool}.annotations", hints, known)
    view = _parsed(where, keys, DeclaredView)
    _check_shape(where, keys)
    for tool, shown in view.tools.items():
        if shown.name and not is_token(shown.name):
            raise ServerDeclarationError(
                f"{where}.tools.{tool}: 'name' must be 1 to 64 of A-Z a-z 0-9 _ -."
            )
    return view


def parse_view_text(server: str, text: str) -> DeclaredView:
    """The keys of a view, as TOML; raises DeclarationError, also where it is not TOML."""
    try:
        return parse_view(server, tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ServerDeclarationError(f"{server}.view is not TOML: {error}.") from None


def parse_selection(name: str, keys: Any) -> Selection:
    """A table of `views`; raises DeclarationError that names the wrong name or key."""
    server_name(name)
    if isinstance(keys, dict):
        check_keys(f"views.{name}", keys, ["allow", "deny", "required_roles"])
        keys = {**keys, "name": name}
    return _parsed(f"views.{name}", keys, Selection)


def _check_shape(where: str, keys: dict[str, Any]) -> None:
    """Check the table `results`; an unknown filter is an error, or results would go unfiltered."""
    if "results" not in keys:
        return
    where = f"{where}.results"
    shape = _parsed(where, keys["results"], Shape)
    known = known_filters()
    for name in (*shape.argument_filters, *shape.result_filters):
        if name not in known:
            raise ServerDeclarationError(
                f"{where}: there is no filter {name!r}.{nearest(name, known)}"
            )


def _chosen(name: str, allow: _Patterns, deny: _Patterns) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in allow) and not any(
        fnmatchcase(name, pattern) for pattern in deny
    )


def _parsed(where: str, keys: Any, kind: type[Kind]) -> Kind:
    if not isinstance(keys, dict):
        raise ServerDeclarationError(f"{where} must be a table.")
    check_keys(where, keys, kind.__struct_fields__)
    return converted(where, keys, kind)
