"""`searchbus tools list` and `searchbus tools call`, and completion of what is typed of them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from searchbus_runtime.wording import CommandError, nearest

from .mcp_client import endpoint
from .output import echo, echo_json, err, fail, out, print_error, print_table

_MORE_ARGUMENTS = ("$ref", "additionalProperties", "allOf", "anyOf", "oneOf", "patternProperties")
"""Keys of a schema that may allow arguments which its properties do not name."""

DataOption = Annotated[Path | None, typer.Option(help="Data folder of the running stack.")]
UrlOption = Annotated[str | None, typer.Option(help="Address of an edge, instead of the stack's.")]
ToolsetOption = Annotated[str | None, typer.Option(help="Use /mcp/<toolset>.")]


def list_tools(
    toolset: ToolsetOption = None,
    url: UrlOption = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The tools as JSON.")] = False,
) -> None:
    """List the tools with their required arguments.

    Example: searchbus tools list --toolset fomc
    """
    found = endpoint(url, data, toolset).pages("tools/list", "tools")
    if as_json:
        echo_json(found)
        return
    table = Table(box=None)
    for heading in ("tool", "arguments", "what it does"):
        table.add_column(heading, overflow="fold")
    for tool in found:
        schema = tool["inputSchema"]
        required = schema.get("required", [])
        names = [n if n in required else f"[{n}]" for n in schema.get("properties", {})]
        first_line = (tool.get("description") or "").strip().split("\n")[0]
        table.add_row(tool["name"], " ".join(names), first_line)
    print_table(table)


def call(
    name: Annotated[
        str,
        typer.Argument(help="The tool's name as `tools list` shows it.", autocompletion=tool_names),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Arguments.", autocompletion=argument_names),
    ] = None,
    args_json: Annotated[
        str | None, typer.Option("--json", help="Arguments as a JSON object; merged.")
    ] = None,
    toolset: ToolsetOption = None,
    url: UrlOption = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--raw", help="The whole result as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the trace id.")] = False,
) -> None:
    """Call a tool and print its result.

    The tool's schema decides how a value is read; objects and arrays are JSON.

    Example: searchbus tools call search_fomc query="views on inflation" top_k=3
    """
    client = endpoint(url, data, toolset)
    try:
        known = {tool["name"]: tool for tool in client.pages("tools/list", "tools")}
        if name not in known:
            raise fail(f"There is no tool {name}.{nearest(name, sorted(known))}")
        given = _arguments(arguments or [], args_json, known[name]["inputSchema"])
        result = client.request("tools/call", {"name": name, "arguments": given})
    finally:
        if verbose:
            err.print(f"trace {client.trace_id}", highlight=False)
    if as_json:
        echo_json(result)
    else:
        _print(result)
    if result.get("isError"):
        raise typer.Exit(1)


def _print(result: dict[str, Any]) -> None:
    for block in result["content"]:
        if block["type"] != "text":
            out.print(f"[{block['type']}]")
            continue
        text = block["text"]
        if result.get("isError"):
            print_error(text)
            continue
        try:
            value = json.loads(text)
        except ValueError:
            echo(text)
        else:
            if out.is_terminal:
                out.print_json(data=value)
            else:
                echo_json(value, indent=2)


def _arguments(pairs: list[str], args_json: str | None, schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    given: dict[str, Any] = {}
    if args_json is not None:
        try:
            given = json.loads(args_json)
        except ValueError as error:
            raise fail(f"--json is not valid JSON: {error}", 2) from None
        if not isinstance(given, dict):
            raise fail("--json must be an object with the arguments.", 2)
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not (key and sign):
            raise fail(f"{pair}: write KEY=VALUE.", 2)
        if key not in properties and not any(map(schema.get, _MORE_ARGUMENTS)):
            near = nearest(key, properties)
            raise fail(f"The tool has no argument {key}.{near} To send it still, use --json.", 2)
        given[key] = _typed(key, text, properties.get(key, {}))
    return given


def _typed(key: str, text: str, schema: dict[str, Any]) -> Any:
    options = [schema, *schema.get("anyOf", []), *schema.get("oneOf", [])]
    kinds = {kind for option in options for kind in _list(option.get("type"))}
    if "string" in kinds or not kinds:
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise fail(f"{key} must be of type {' or '.join(sorted(kinds))}.", 2) from None


def _list(kind: Any) -> list[str]:
    return [kind] if isinstance(kind, str) else list(kind or [])


LIMIT_S = 2.0
"""A shell waits for a completion, which prints nothing where no stack answers in this time."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Shells evaluate what completes a word: names that attached servers chose are nothing else, and
their descriptions are not shown.
"""


def tool_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the tools that start with what is typed."""
    return _plain((tool["name"] for tool in _tools(context.params)), incomplete)


def argument_names(context: typer.Context, incomplete: str) -> list[str]:
    """`NAME=` of each argument of the tool that is called, but for those that it has already."""
    given = {pair.partition("=")[0] for pair in context.params.get("arguments") or ()}
    for tool in _tools(context.params):
        if tool["name"] == context.params.get("name"):
            names = tool["inputSchema"].get("properties", {})
            return [f"{name}=" for name in _plain(names, incomplete) if name not in given]
    return []


def _plain(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _tools(options: dict[str, Any]) -> list[dict[str, Any]]:
    """What the edge of the options `url` and `data` lists within LIMIT_S."""
    found: list[dict[str, Any]] = []

    def ask() -> None:
        data = options.get("data")  # as it was typed
        try:
            client = endpoint(options.get("url"), Path(data) if data else None, options["toolset"])
            found.extend(client.pages("tools/list", "tools"))
        except (CommandError, ValueError, TypeError, KeyError, AttributeError):
            # An error message would stand in the line that a person types.
            found.clear()

    # A server that sends one byte a second is within every limit of a socket.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LIMIT_S)
    return [] if asking.is_alive() else found
