"""Views of a server's tools (extension `io.modelcontextprotocol/ui`, MCP Apps of 2026-01-26).

A tool names its view by a `ui://` URI in `_meta.ui`, and the view says in its own `_meta.ui` what
its sandbox may reach. Both are kept, with the URIs that the server's resources have here.
"""

from __future__ import annotations

from typing import Any

from .text import VIEWS, sanitized, usable_uri, wrapped_uri

_MAX_URI_CHARS = 1024
_VISIBILITY = ("model", "app")


def tool_meta(server: str, meta: Any) -> dict[str, Any] | None:
    """The `_meta` of a tool that has a view; None of any other.

    Its deprecated form, one key `ui/resourceUri`, becomes the present one.
    """
    if not isinstance(meta, dict):
        return None
    ui = meta.get("ui")
    given = ui if isinstance(ui, dict) else {}
    uri = given.get("resourceUri", meta.get("ui/resourceUri"))
    kept: dict[str, Any] = {}
    if usable_uri(uri) and uri.startswith(VIEWS) and len(uri) <= _MAX_URI_CHARS:
        kept["resourceUri"] = wrapped_uri(server, uri)
    visibility = given.get("visibility")
    if isinstance(visibility, list):
        kept["visibility"] = [one for one in _VISIBILITY if one in visibility]
    return {"ui": kept} if kept else None


def resource_meta(uri: str, meta: Any) -> dict[str, Any] | None:
    """The `_meta` of a view, by its URI at the server, among the resources; None of any other
    resource."""
    if not uri.startswith(VIEWS) or not isinstance(meta, dict):
        return None
    ui = meta.get("ui")
    return {"ui": sanitized(ui)} if isinstance(ui, dict) else None
