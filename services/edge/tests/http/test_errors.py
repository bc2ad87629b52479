"""HTTP errors with a JSON-RPC error as the body."""

from __future__ import annotations

import json

from searchbus_edge.http.errors import json_rpc_error


async def test_error_is_a_complete_response():
    """Status, headers with the length, body with the id of the request."""
    events = []

    async def send(event):
        events.append(event)

    extra = [(b"allow", b"POST")]
    await json_rpc_error(send, 405, -32600, "Use POST.", extra=extra, message_id="a")
    start, body = events
    headers = dict(start["headers"])
    assert (start["status"], headers[b"allow"]) == (405, b"POST")
    assert int(headers[b"content-length"]) == len(body["body"])
    assert json.loads(body["body"]) == {
        "jsonrpc": "2.0", "id": "a", "error": {"code": -32600, "message": "Use POST."},
    }  # fmt: skip
