"""HTTP errors whose body is a JSON-RPC error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..tools.telemetry import count_refused
from .head import Refusal

__all__ = ["json_rpc_error", "refuse"]


async def json_rpc_error(
    send: Any,
    status: int,
    code: int,
    message: str,
    *,
    extra: Sequence[tuple[bytes, bytes]] = (),
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
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *extra]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Any, refusal: Refusal, *, message_id: Any = None) -> None:
    """Send what a refusal says."""
    await json_rpc_error(
        send, refusal.status, refusal.code, refusal.message,
        extra=refusal.headers, message_id=message_id,
    )  # fmt: skip
