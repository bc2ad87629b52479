"""The `mcpServers` JSON that Claude Desktop, Cursor and VS Code write (VS Code: `servers`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from searchbus_runtime.jsonc import JsonTextError, parse

from ..errors import ServerDeclarationError
from .servers import Server, check_keys, parse_server

_TRANSPORTS = {
    "stdio": None,
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_KEYS = ("command", "args", "env", "cwd", "url", "headers")
_LEFT_OUT = frozenset({
    "type", "transport", "disabled", "autoApprove", "alwaysAllow", "disabledTools", "description",
    "timeout", "gallery", "version", "dev", "displayName", "icon",
})  # fmt: skip
"""Keys of the hosts that say how the host itself uses a server."""


def parse_host_file(text: str) -> dict[str, Server]:
    """Name → server. A name that is not one of searchbus (with a space, say) is changed.

    A host that uses searchbus has it in its file, too: that server is disabled.

    Raises:
        DeclarationError: the text is something else, or a server has a key that no host writes.
    """
    try:
        content = parse(text)
    except JsonTextError as error:
        raise ServerDeclarationError(f"it is not JSON: {error}") from None
    table = _table(content)
    if table is None:
        raise ServerDeclarationError("it has no object 'mcpServers' (VS Code: 'servers').")
    found: dict[str, Server] = {}
    for given, keys in table.items():
        name = _name(given)
        if not name:
            raise ServerDeclarationError(f"{given!r} has no letter or digit of ASCII; rename it.")
        if name in found:
            raise ServerDeclarationError(f"two servers have the name {name}; rename {given!r}.")
        if not isinstance(keys, dict):
            raise ServerDeclarationError(f"{given}: it is not an object.")
        found[name] = _server(name, keys)
    return found


def renamed(text: str) -> dict[str, str]:
    """Name in the file → name of the server, of those that were changed. The file was parsed."""
    table = _table(parse(text)) or {}
    return {given: _name(given) for given in table if _name(given) != given}


def _name(given: str) -> str:
    return re.sub("_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", given))[:40].strip("-_")


def starts_searchbus(server: Server) -> bool:
    """Whether it is `searchbus stdio`, which joins the stack that would attach it."""
    return PurePath(server.command).name == "searchbus" and server.args[:1] == ("stdio",)


def _table(content: Any) -> Mapping[str, Any] | None:
    places = [content]
    if isinstance(content, dict):
        places.append(content.get("mcp"))
    for place in places:
        for key in ("mcpServers", "servers"):
            if isinstance(place, dict) and isinstance(place.get(key), dict):
                table: dict[str, Any] = place[key]
                return table
    return None


def _server(name: str, keys: Mapping[str, Any]) -> Server:
    check_keys(name, [k for k in keys if k not in _LEFT_OUT], _KEYS, ("type", "disabled"))
    declared = {key: keys[key] for key in _KEYS if keys.get(key)}
    if keys.get("disabled"):
        declared["enabled"] = False
    if "url" in declared:
        kind = keys.get("type") or keys.get("transport")
        if kind is not None and not (isinstance(kind, str) and kind in _TRANSPORTS):
            raise ServerDeclarationError(
                f"{name}: unknown type {str(kind)[:40]!r}. Use http or sse."
            )
        path = re.split(r"[?#]", str(declared["url"]))[0]
        by_path = "sse" if path.rstrip("/").endswith("/sse") else "http"
        declared["transport"] = (_TRANSPORTS[kind] if kind else None) or by_path
    server = parse_server(name, declared)
    if starts_searchbus(server):
        server = msgspec.structs.replace(server, enabled=False)
    return server
