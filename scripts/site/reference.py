"""The pages of the reference that are made from the code: nothing of them is committed."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import typer.main

from searchbus_bus import Toolset, declared_tools
from searchbus_cli.main import app as command_line
from searchbus_contracts import Actor, ToolDescriptor
from searchbus_edge.catalog.view import ListedTool, View
from searchbus_edge.composites.connector import Connector
from searchbus_edge.composites.many import Many
from searchbus_edge.interfaces.api import HttpApi
from searchbus_edge.plans.running import Plans
from searchbus_edge.search.lazy import Lazy
from searchbus_edge.settings import EdgeSettings

from .measured import metrics

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "proto" / "schema"
Json = dict[str, Any]


def pages() -> dict[str, str]:
    """The path of each page → its text; `reference/openapi.json` is a file to download."""
    document = openapi()
    return {
        "reference/commands.md": commands_page(),
        "reference/tools.md": tools_page(),
        "reference/http.md": http_page(document),
        "reference/openapi.json": json.dumps(document, indent=1),
        "reference/messages.md": messages_page(),
        "reference/metrics.md": metrics_page(),
        "packages/index.md": packages_page(),
    }


# Commands


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of `searchbus` by its full name, groups left out."""
    root = typer.main.get_command(command_line)

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "load"):
            command = command.load()
        if inner := getattr(command, "commands", None):
            for part in sorted(inner):
                yield from below(f"{name} {part}", inner[part])
        else:
            yield name, command

    for name, command in root.commands.items():  # type: ignore[attr-defined]
        yield from below(f"searchbus {name}", command)


def commands_page() -> str:
    """Each command with its help, arguments and options."""
    parts = ["# Commands", "`searchbus COMMAND --help` shows the same."]
    for name, command in commands():
        parts += [f"## {name}", _help(command.help or "")]
        rows = [
            (
                ", ".join(f"`{flag}`" for flag in _flags(option)),
                _default(option),
                _cell(getattr(option, "help", None) or ""),
            )
            for option in command.params
            if not getattr(option, "hidden", False)
        ]
        parts.append(_table(("option", "default", "what it does"), rows))
    return _joined(parts)


def _flags(option: Any) -> list[str]:
    if option.param_type_name == "argument":
        return [option.name.upper()]
    return [*option.opts, *option.secondary_opts]


def _default(option: Any) -> str:
    if option.required:
        return "required"
    value = option.default
    if value in (None, False, (), []) or callable(value):
        return ""
    return f"`{value}`"


def _help(text: str) -> str:
    """A docstring; its indented lines and its examples as code."""
    blocks = []
    for block in inspect.cleandoc(text).replace("\b", "").split("\n\n"):
        about, _, command = block.partition("Example:")
        if command:
            block = f"{_text(about)}\n\n```sh\n{command.strip()}\n```"
        elif "\n " in block or block.startswith(" "):
            block = f"```text\n{block}\n```"
        else:
            block = _text(block)
        blocks.append(block.strip())
    return "\n\n".join(blocks)


# Tools


def tools() -> list[ToolDescriptor]:
    """Every tool that searchbus ships, by toolset in the order of `/mcp`."""
    spec = importlib.util.spec_from_file_location("proto_generate", ROOT / "proto/generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    own: list[type[Toolset]] = [Connector, Lazy, Many, Plans]
    found = [*generate.tools(), *(tool for kind in own for tool in declared_tools(kind))]
    order = EdgeSettings.model_fields["toolset_order"].get_default(call_default_factory=True)

    def place(tool: ToolDescriptor) -> tuple[int, str, str]:
        known = tool.toolset in order
        return (order.index(tool.toolset) if known else len(order)), tool.toolset, tool.name

    return sorted(found, key=place)


def tools_page() -> str:
    """Each tool with its arguments and its result."""
    parts = [
        "# Tools",
        "What `tools/list` shows of the tools that searchbus ships. Attached servers add theirs.",
    ]
    toolset = None
    for tool in tools():
        if tool.toolset != toolset:
            toolset = tool.toolset
            parts.append(f"## Toolset {toolset}")
        roles = ", ".join(f"`{role}`" for role in tool.required_roles)
        parts += [
            f"### {toolset}: {tool.name}",
            _text(tool.description),
            f"Needs the role {roles}." if roles else "",
            "Its results are text that others wrote." if tool.untrusted else "",
            _fields(tool.input_schema, "argument"),
        ]
        if tool.output_schema:
            parts += ["The result:", _fields(tool.output_schema, "field")]
    return _joined(parts)


# Plain HTTP


def openapi() -> Json:
    """The document that an edge with these tools serves at /openapi.json."""
    listed: dict[str, ListedTool] = {}
    for tool in tools():
        name = f"{tool.toolset}_{tool.name}" if tool.name in listed else tool.name
        listed[name] = ListedTool(name, tool, tool.toolset)
    view = View((0, True, 0), tools=listed)

    async def admit(scope: Any, *, linked: bool = False) -> SimpleNamespace:
        return SimpleNamespace(actor=Actor(roles=("*",)))

    async def fetch() -> Json:
        calls: Any = SimpleNamespace(admit=admit, everything=view)
        search: Any = SimpleNamespace(admit=admit)
        unused: Any = None
        api = HttpApi(calls, unused, search, server_url="/", signed_in=True)
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://edge") as client:
            answer = await client.get("/openapi.json")
            found: Json = answer.raise_for_status().json()
            return found

    return asyncio.run(fetch())


def http_page(document: Json) -> str:
    """Each operation of `/api/v1`."""
    rows = [
        (f"`{method.upper()} {path}`", _cell(operation.get("summary", "")))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    statuses = sorted(
        {status for found in document["paths"].values() for o in found.values()
         for status in o["responses"]}
    )  # fmt: skip
    return _joined([
        "# HTTP API",
        "[The OpenAPI document](openapi.json) of the tools that searchbus ships, as an edge serves "
        "it at `/openapi.json`. [Plain HTTP](../http.md) explains the forms of requests and "
        "answers; the arguments of each tool are in [Tools](tools.md).",
        _table(("request", "what it does"), rows),
        f"Statuses: {', '.join(statuses)}. [Errors](../errors.md) has what each code becomes.",
    ])  # fmt: skip


# Messages


def messages_page() -> str:
    """Each message of the bus with its fields."""
    parts = ["# Messages", "The messages of [the wire](wire.md), from `proto/schema`."]
    for path in sorted(SCHEMA.glob("*.json"), key=lambda path: path.stem.lower()):
        schema = json.loads(path.read_text(encoding="utf-8"))
        if "properties" in schema:
            text = _text(schema.get("description", ""))
            parts += [f"## {path.stem}", text, _fields(schema, "field")]
    return _joined(parts)


def _fields(schema: Json, heading: str) -> str:
    """The properties of a schema as a table."""
    required = schema.get("required", ())
    rows = []
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else ""
        if "default" in field:
            default = f"`{json.dumps(field['default'], ensure_ascii=False)}`"
        rows.append((f"`{name}`", _kind(field), default, _cell(field.get("description", ""))))
    return _table((heading, "type", "default", "meaning"), rows)


def _kind(field: Json) -> str:
    """The type of a field in words."""
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2].removesuffix(".json")
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if choices := field.get("anyOf") or field.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_kind, choices)))
    kind = field.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and isinstance(field.get("items"), dict):
        return f"array of {_kind(field['items'])}"
    return str(kind)


# Metrics


def metrics_page() -> str:
    """Each metric."""
    rows = [
        (f"`{name}`", kind, _cell(text), package)
        for name, (kind, text, package) in metrics().items()
    ]
    return _joined([
        "# Metrics",
        "Every process serves these at `/metrics` on its health port. [Running searchbus]"
        "(../deploy.md#observing-it) says which ones to watch, with their labels.",
        _table(("metric", "kind", "meaning", "measured by"), rows),
    ])  # fmt: skip


# Packages


def packages_page() -> str:
    """The table of packages, by the first paragraph of their READMEs."""
    rows = []
    for path in sorted([*ROOT.glob("libs/*/README.md"), *ROOT.glob("services/*/README.md")]):
        about = path.read_text(encoding="utf-8").split("\n\n")[1]
        about = " ".join(about.split()).partition(". ")[0].rstrip(".:")
        rows.append((f"[{path.parent.name}]({path.parent.name}.md)", about.replace("|", "\\|")))
    rows.append(("[deploy/k8s](k8s.md)", "Kubernetes manifests, dashboard and alerts"))
    return _joined(["# Packages", _table(("package", "what it is"), rows)])


# Markdown


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return _text(" ".join(text.split())).replace("|", "\\|")


def _text(text: str) -> str:
    """Text that is not Markdown."""
    return re.sub(r"(`[^`]*`)|([<\[*_])", lambda m: m[1] or f"\\{m[2]}", text)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
