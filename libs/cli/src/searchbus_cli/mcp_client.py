"""A small MCP client for the command line: single POSTs of revision 2026-07-28.

The SDK has a full client. Importing it takes half a second, more than all the rest of
`searchbus tools list`, so the command line speaks the few methods that it needs itself.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import EventSource, SSEError

from searchbus_contracts import VERSION
from searchbus_runtime import data_folder, no_stack, read_state

from .output import fail

REVISION = "2026-07-28"
EVENT_STREAM = "text/event-stream"


class McpError(RuntimeError):
    """The server refused the request, or there was no MCP reply; the message says which."""


class McpHttp:
    """Sends requests to one endpoint. SEARCHBUS_TOKEN is its bearer token, where it needs one.

    Args:
        url: of the endpoint, e.g. http://127.0.0.1:8080/mcp.
        timeout_s: for each request.
        transport: replaces the network in tests.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 120.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = url
        self.trace_id = secrets.token_hex(16)
        self._http = httpx.Client(timeout=timeout_s, trust_env=False, transport=transport)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request and return its result; raises McpError with the server's message."""
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {**(params or {}), "_meta": self._meta()},
        }
        try:
            response = self._http.post(self.url, json=body, headers=_headers(method, params or {}))
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise McpError(
                f"{self.url} is not an address of an edge. Write it like http://127.0.0.1:8080."
            ) from None
        except httpx.HTTPError as error:
            raise McpError(
                f"{self.url} does not answer ({type(error).__name__}). Is the stack running? "
                "Start it: searchbus up"
            ) from None
        reply = reply_of(response)
        if "error" in reply:
            error_ = reply["error"]
            text = f"{error_.get('message', 'unknown error')} ({error_.get('code')})"
            if response.status_code == httpx.codes.UNAUTHORIZED:
                text += " This command sends the key or token in SEARCHBUS_TOKEN."
            raise McpError(text)
        result: dict[str, Any] = reply["result"]
        return result

    def pages(self, method: str, key: str) -> list[dict[str, Any]]:
        """All items of a list method (`key` in its results, e.g. "tools"), from all its pages."""
        items: list[dict[str, Any]] = []
        cursor = None
        while True:
            result = self.request(method, {"cursor": cursor} if cursor else None)
            items += result[key]
            cursor = result.get("nextCursor")
            if not cursor:
                return items

    def _meta(self) -> dict[str, Any]:
        return {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "searchbus-cli", "version": VERSION},
            "io.modelcontextprotocol/clientCapabilities": {},
            "traceparent": f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        }


def endpoint(url: str | None, data: Path | None, toolset: str | None = None) -> McpHttp:
    """An endpoint of an edge, or of the running stack where no address is given.

    Raises:
        typer.Exit: no stack runs on the data folder, which is printed.
    """
    if url is None:
        folder = data_folder(data)
        state = read_state(folder)
        if state is None:
            raise fail(no_stack(folder))
        url = state.url
    base = url.rstrip("/").removesuffix("/mcp")
    return McpHttp(f"{base}/mcp/{toolset}" if toolset else f"{base}/mcp")


def _headers(method: str, params: dict[str, Any]) -> dict[str, str]:
    headers = {
        "Accept": f"application/json, {EVENT_STREAM}",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
    }
    if token := os.environ.get("SEARCHBUS_TOKEN", "").strip():
        if not (token.isascii() and token.isprintable()):
            raise McpError(
                "SEARCHBUS_TOKEN has characters that a token cannot have. Copy it again."
            )
        headers["Authorization"] = f"Bearer {token}"
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return headers


def reply_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON-RPC reply: the body, or the event of a stream that has an id."""
    try:
        if EVENT_STREAM in response.headers.get("content-type", ""):
            events = EventSource(response).iter_sse()
            messages = (json.loads(event.data) for event in events if event.data)
            reply = next((message for message in messages if "id" in message), None)
        else:
            reply = response.json()
    except (ValueError, TypeError, SSEError):
        reply = None
    if not isinstance(reply, dict) or not ("result" in reply or "error" in reply):
        raise McpError(f"{response.url} sent no MCP reply (HTTP {response.status_code}).")
    return reply
