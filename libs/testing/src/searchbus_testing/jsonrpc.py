"""JSON-RPC messages to an edge by plain HTTP, for tests of what an SDK's client hides."""

from __future__ import annotations

import json
from typing import Any

import httpx

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def messages(response: httpx.Response) -> list[Any]:
    """Every JSON-RPC message of a response: of plain JSON, a batch or an event stream."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        body = response.json()
        return body if isinstance(body, list) else [body]
    lines = [line[5:] for line in response.text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line.strip()]


def post(url: str, method: str, *, token: str | None = None, **params: Any) -> httpx.Response:
    """Send one request; a slow machine has a minute to answer."""
    headers = dict(HEADERS)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(url, json=body, headers=headers, timeout=60, trust_env=False)
