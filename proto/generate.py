"""Writes proto/schema/, proto/asyncapi.yaml, the list of settings, docs/settings.md and the tables
of docs/errors.md from the code.

    python proto/generate.py           # write
    python proto/generate.py --check   # exit 1 and name the files that differ

`make proto` runs the first, a test the second.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import msgspec
import yaml

import searchbus_contracts
from searchbus_bus import Toolset, declared_tools
from searchbus_contracts import ErrorCode, Failure, ToolDescriptor, ToolEvent, json_schema
from searchbus_contracts.channels import CHANNELS, Channel
from searchbus_contracts.headers import Actor, Parts
from searchbus_contracts.services import ENTRY_POINT_GROUP
from searchbus_edge.http.faults import SHOWN
from searchbus_runtime import ServiceSettings, setting_list
from searchbus_runtime.config_file import toml
from searchbus_runtime.services import installed_services, settings_class
from searchbus_runtime.setting_classes import describe
from searchbus_runtime.setting_list import SHARED, Setting

PROTO = Path(__file__).parent
SETTINGS_PAGE = PROTO.parent / "docs" / "settings.md"
SETTINGS_LIST = PROTO.parent / "libs/runtime/src/searchbus_runtime" / setting_list.LIST.name
ERRORS = PROTO.parent / "docs" / "errors.md"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def messages() -> dict[str, Any]:
    """Every message type of the contracts by name."""
    found: dict[str, Any] = {}
    for module_info in pkgutil.iter_modules(searchbus_contracts.__path__):
        module = importlib.import_module(f"searchbus_contracts.{module_info.name}")
        for name, value in vars(module).items():
            public = isinstance(value, type) and not name.startswith("_")
            if public and issubclass(value, msgspec.Struct) and value is not msgspec.Struct:
                found[name] = value
    return dict(sorted(found.items()))


def tools() -> list[ToolDescriptor]:
    """Every tool that an installed service declares in a tools module of its own or of a folder."""
    found = {}
    modules = [
        name
        for entry in entry_points(group=ENTRY_POINT_GROUP)
        for folder in (entry.module, *_folders(entry.module))
        if importlib.util.find_spec(name := f"{folder}.tools") is not None
    ]
    for name in sorted(modules):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, ToolDescriptor):
                found[value.toolset, value.name] = value
            elif isinstance(value, type) and issubclass(value, Toolset):
                found.update({(tool.toolset, tool.name): tool for tool in declared_tools(value)})
    return [found[key] for key in sorted(found)]


def _folders(package: str) -> list[str]:
    """The packages directly in a package."""
    path = importlib.import_module(package).__path__
    return [f"{package}.{found.name}" for found in pkgutil.iter_modules(path) if found.ispkg]


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3 document of the bus."""
    kinds = {c.message.__name__: c.message for c in CHANNELS}
    kinds |= {c.reply.__name__: c.reply for c in CHANNELS if c.reply is not None}
    kinds |= {"Failure": Failure, "ToolEvent": ToolEvent}
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for channel in CHANNELS:
        channels[channel.key] = _channel(channel)
        operations[channel.key] = _operation(channel)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "searchbus",
            "version": "1.0.0",
            "description": "Messages between the edge and the workers. README.md beside this file "
            "is normative; this document is generated from libs/contracts.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": {"host": "127.0.0.1:4222", "protocol": "nats"}},
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": {
                name: {"name": name, "payload": {"$ref": f"schema/{name}.json"}}
                for name in sorted(kinds)
            }
        },
    }


def _channel(channel: Channel) -> dict[str, Any]:
    parameters = [p.strip("{}") for p in channel.address.split(".") if p.startswith("{")]
    names = [channel.message.__name__]
    if channel.reply is not None:
        names += [channel.reply.__name__, "Failure"]
    if channel.address.startswith("tool."):
        names.append("ToolEvent")
    body: dict[str, Any] = {
        "address": f"sb.v1.{channel.address}",
        "description": channel.summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
    }
    if parameters:
        body["parameters"] = {name: {"description": f"One token: {name}."} for name in parameters}
    return body


def _operation(channel: Channel) -> dict[str, Any]:
    def message(name: str) -> dict[str, str]:
        return {"$ref": f"#/channels/{channel.key}/messages/{name}"}

    body: dict[str, Any] = {
        "action": "receive",
        "summary": channel.summary,
        "channel": {"$ref": f"#/channels/{channel.key}"},
        "messages": [message(channel.message.__name__)],
    }
    if channel.reply is not None:
        body["reply"] = {
            "channel": {"$ref": f"#/channels/{channel.key}"},
            "messages": [message(channel.reply.__name__), message("Failure")],
        }
    return body


def exceptions() -> dict[str, list[tuple[str, str, str]]]:
    """Base → (exception, package, first sentence of its docstring) of every package."""
    classes: dict[str, tuple[str, str, str]] = {}
    for path in sorted(PROTO.parent.glob("*/*/src/**/*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.bases:
                text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                base = ast.unparse(node.bases[0]).rpartition(".")[2]
                classes[node.name] = base, path.parents[0].relative_to(PROTO.parent).parts[1], text
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, (base, package, text) in sorted(classes.items()):
        root = base
        while root in classes:
            root = classes[root][0]
        kind = getattr(builtins, root, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            found.setdefault(base, []).append((name, package, text.partition(". ")[0].rstrip(".;")))
    return found


def errors_page() -> str:
    """docs/errors.md with its two blocks made anew."""
    heads = "| code | JSON-RPC | /api/v1 | Tavily | SearXNG | page |\n| --- |" + " --: |" * 5
    rows = [f"| `{code}` | {' | '.join(map(str, shown))} |" for code, shown in SHOWN.items()]
    below = exceptions()

    def lines(base: str, depth: int) -> Iterator[str]:
        for name, package, text in below.get(base, ()):
            yield f"{'  ' * depth}- `{name}` ({package}): {text}."
            yield from lines(name, depth + 1)

    roots = sorted({*below} - {name for found in below.values() for name, _, _ in found})
    tree = [line for root in roots for line in (f"- `{root}`", *lines(root, 1))]
    page = _with_block(ERRORS.read_text(encoding="utf-8"), "codes", [heads, *rows])
    return _with_block(page, "tree", tree)


def settings() -> dict[str, dict[str, Setting]]:
    """Service → settings, of every installed service; what all have comes first."""
    classes = {name: settings_class(service) for name, service in installed_services().items()}
    shared = describe(ServiceSettings)
    own = {
        service: {n: s for n, s in describe(cls).items() if s != shared.get(n)}
        for service, cls in classes.items()
    }
    return {SHARED: shared, **own}


def settings_to_json(settings: dict[str, Setting]) -> list[dict[str, Any]]:
    """Rows with the fields that differ from those of a plain setting."""
    plain = Setting(name="", kind="")
    return [
        {
            name: list(value) if isinstance(value, tuple) else value
            for name in Setting.__slots__
            if (value := getattr(setting, name)) != getattr(plain, name)
        }
        for setting in settings.values()
    ]


def settings_page() -> str:
    """docs/settings.md with its tables made anew."""
    lines = []
    for service, table in settings().items():
        about = installed_services()[service].description if service else "Every service has these."
        lines += ["", f"## {service or 'All services'}", "", about, ""]
        lines += ["| setting | default | values | what it does |", "| --- | --- | --- | --- |"]
        lines += [_setting_row(setting) for setting in table.values()]
    return _with_block(SETTINGS_PAGE.read_text(encoding="utf-8"), "settings", lines[1:])


def _setting_row(setting: Setting) -> str:
    default = "" if setting.default is None else f"`{toml(setting.default)}`"
    limits = f"`{setting.pattern}`" if setting.pattern else setting.range
    facts = (setting.kind, setting.unit, limits, "secret" if setting.secret else "")
    values = ", ".join(filter(None, facts))
    cells = (f"`{setting.name}`<br>`{setting.variable}`", default, values, setting.description)
    shown = (re.sub(r"<(?!br>)", "&lt;", cell.replace("|", "\\|")) for cell in cells)
    return f"| {' | '.join(shown)} |"


def _with_block(page: str, name: str, lines: list[str]) -> str:
    """A page with other lines between the marks of a block."""
    text = f"<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- /{name} -->"
    return re.sub(rf"<!-- {name} -->.*<!-- /{name} -->", lambda _: text, page, flags=re.S)


def files() -> dict[Path, str]:
    """Every generated file and its content."""
    out: dict[Path, str] = {}

    def add_json(path: str, value: Any) -> None:
        out[PROTO / "schema" / path] = json.dumps(value, indent=2, ensure_ascii=False) + "\n"

    for name, kind in (messages() | {"Actor": Actor, "Parts": Parts}).items():
        add_json(f"{name}.json", {"$schema": DIALECT, **json_schema(kind)})
    add_json("error-codes.json", sorted(ErrorCode))
    for tool in tools():
        add_json(f"tools/{tool.toolset}.{tool.name}.json", msgspec.to_builtins(tool))
    header = "# Generated by proto/generate.py from libs/contracts; edit the code, not this file.\n"
    document = yaml.safe_dump(asyncapi(), sort_keys=False, allow_unicode=True, width=100)
    out[PROTO / "asyncapi.yaml"] = header + document
    out[ERRORS] = errors_page()
    out[SETTINGS_PAGE] = settings_page()
    listed = {name: settings_to_json(table) for name, table in settings().items()}
    out[SETTINGS_LIST] = json.dumps(listed, indent=1, ensure_ascii=False) + "\n"
    return out


def main() -> int:
    """Write the files, or compare them with --check."""
    wanted = files()
    present = {*(PROTO / "schema").rglob("*.json"), PROTO / "asyncapi.yaml"}
    differing = sorted(
        path
        for path in present | set(wanted)
        if not path.exists() or path.read_text(encoding="utf-8") != wanted.get(path)
    )
    if "--check" in sys.argv:
        for path in differing:
            sys.stdout.write(f"differs from the code: {path.relative_to(PROTO.parent)}\n")
        return 1 if differing else 0
    for path in differing:
        if path not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    sys.stdout.write(f"proto: {len(wanted)} files, {len(differing)} changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
