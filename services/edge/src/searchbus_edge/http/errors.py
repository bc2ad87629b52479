"""HTTP errors whose body is a JSON-RPC error."""

from __future__ import annotations

import json
from typing import Any

from ..calls.telemetry import count_refused

__all__ = ["json_rpc_error"]


async def json_rpc_error(
    send: Any,
    status: int,
    code: int,
    message: str,
    *,
    extra: list[tuple[bytes, bytes]] | None = None,
    message_id: Any = None,
) -> None:
    """Send an error response.

    Args:
        send: of the ASGI request.
        extra: further headers.
        message_id: of the JSON-RPC request, None where it is unknown.
    """
    count_refused(status)
    body = json.dumps(
        {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": message}}
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send(
        {"type": "http.response.start", "status": status, "headers": headers + (extra or [])}
    )
    await send({"type": "http.response.body", "body": body})
