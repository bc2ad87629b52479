"""The little of MCP that the command line speaks: single POSTs of revision 2026-07-28."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from typing import Any

import httpx

from searchbus_contracts import VERSION

__all__ = ["McpError", "McpHttp"]

REVISION = "2026-07-28"


class McpError(RuntimeError):
    """A JSON-RPC error, or no MCP answer at all."""


@dataclass
class McpHttp:
    """Talks to one endpoint; SEARCHBUS_TOKEN is its bearer token where one is needed.

    Args:
        url: of the endpoint, e.g. http://127.0.0.1:8080/mcp.
        timeout_s: for each request.
    """

    url: str
    timeout_s: float = 120.0
    trace_id: str = ""

    def __post_init__(self) -> None:
        self.trace_id = self.trace_id or secrets.token_hex(16)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request; returns its result.

        Raises:
            McpError: with what the server said.
        """
        params = dict(params or {})
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "searchbus-cli", "version": VERSION},
            "io.modelcontextprotocol/clientCapabilities": {},
            "traceparent": f"00-{self.trace_id}-{secrets.token_hex(8)}-01",
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": method,
        }
        if token := os.environ.get("SEARCHBUS_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            response = httpx.post(
                self.url, json=body, headers=headers, timeout=self.timeout_s, trust_env=False
            )
        except httpx.HTTPError as error:
            raise McpError(
                f"{self.url} does not answer ({type(error).__name__}). Is the stack up? "
                "Start it: searchbus up"
            ) from None
        answer = _answer(response)
        if "error" in answer:
            said = answer["error"]
            raise McpError(f"{said.get('message', 'unknown error')} ({said.get('code')})")
        result: dict[str, Any] = answer["result"]
        return result

    def pages(self, method: str, key: str) -> list[dict[str, Any]]:
        """All items of a list method, over all its pages."""
        items: list[dict[str, Any]] = []
        cursor = None
        while True:
            result = self.request(method, {"cursor": cursor} if cursor else None)
            items += result[key]
            cursor = result.get("nextCursor")
            if not cursor:
                return items


def _answer(response: httpx.Response) -> dict[str, Any]:
    """The JSON-RPC answer, plain or the last event of a stream."""
    try:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            found: dict[str, Any] = response.json()
            return found
        for block in reversed(response.text.replace("\r\n", "\n").split("\n\n")):
            data = "\n".join(
                line[5:].lstrip() for line in block.split("\n") if line.startswith("data:")
            )
            if data and "id" in (message := json.loads(data)):
                return dict(message)
    except (ValueError, TypeError):
        pass
    raise McpError(f"no MCP answer (HTTP {response.status_code})")
