"""Completion of tools' names and arguments, from the running stack.

A shell waits for it: it takes at most LIMIT_S, and prints nothing where no stack answers.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import typer

from searchbus_runtime import data_folder, read_state

LIMIT_S = 2.0
MOST_PAGES = 20
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
        try:
            url = options.get("url")
            if url is None:
                data = options.get("data")  # as it was typed
                state = read_state(data_folder(Path(data) if data else None))
                url = state.url if state is not None else None
            if url is not None:
                found.extend(_listed(url, options.get("toolset")))
        except (OSError, HTTPException, ValueError, TypeError, KeyError, AttributeError):
            # An error message would stand in the line that a person types.
            found.clear()

    # A server that sends one byte a second is within every limit of a socket.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LIMIT_S)
    return [] if asking.is_alive() else found


def _listed(url: str, toolset: str | None) -> list[dict[str, Any]]:
    address = urlsplit(url)
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=LIMIT_S)
    path = f"{address.path.rstrip('/').removesuffix('/mcp')}/mcp"
    if toolset:
        path += f"/{quote(toolset, safe='')}"
    tools: list[dict[str, Any]] = []
    cursor = None
    for _ in range(MOST_PAGES):
        connection.request("POST", path, *_request(cursor))
        result = json.loads(connection.getresponse().read())["result"]
        tools += result["tools"]
        cursor = result.get("nextCursor")
        if cursor is None:
            break
    return tools


def _request(cursor: str | None) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of `tools/list`, in the older revision, which asks for less."""
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": {"cursor": cursor} if cursor else {},
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token := os.environ.get("SEARCHBUS_TOKEN", "").strip():
        headers["Authorization"] = f"Bearer {token}"
    return json.dumps(body).encode(), headers
