"""Serves one message by the MCP SDK: its handlers, validation and errors, not its transport.

A request is one exchange: no session, no memory streams, no task group. Two functions of the SDK
serve it, `serve_one` for a request and `ServerRunner.on_notify` for a notification, on every
revision. What the SDK's HTTP entries check before is checked here in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, modern_error_data, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers

from searchbus_contracts import Fault

from ..http.answer import Answer
from ..http.head import Head, Received, is_modern
from ..tasks.store import METHODS as TASK_METHODS
from ..tools.call import Served
from ..tools.resolve import Target
from .messages import BAD_PARAMS, LISTEN, Notification, RpcRequest, encode_error, encode_result

DEFAULT_REVISION = "2025-03-26"
"""Revision of a request without the header MCP-Protocol-Version (MCP 2025-06-18, transports)."""
_TRANSPORT = TransportContext(kind="streamable-http", can_send_request=False)


class Called(Received):
    """What the handler of tools/call finds; `served`: an outcome the fast way cannot render."""

    target: Target | None = None
    served: Served | None = None

    @classmethod
    def of(cls, received: Received, target: Target | None, served: Served | None = None) -> Called:
        """A call among the requests that were received."""
        return cls(received.head, received.actor, received.caller, target, served)


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that failed: the JSON-RPC error and its HTTP status."""

    body: bytes
    status: int


class Exchange:
    """The SDK's `DispatchContext` for one message: notifications go to its answer."""

    can_send_request = False
    transport = _TRANSPORT

    def __init__(
        self,
        received: Received,
        answer: Answer | None,
        request_id: int | str | None = None,
        progress_token: int | str | None = None,
    ) -> None:
        self.request_id = request_id
        self.progress_token = progress_token
        self.message_metadata = ServerMessageMetadata(request_context=received)
        self._answer = answer

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a client cancels by closing the connection."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refused: a stateless server cannot receive the client's response."""
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification before the response."""
        if self._answer is None:
            return
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._answer.notify(msgspec.json.encode(message))

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send progress to a client that gave a token."""
        if self.progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)


class Kernel:
    """The SDK's server of one endpoint."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def notification(self, received: Received, message: Notification) -> bytes | None:
        """Take a notification; the JSON-RPC error of a revision that is not served."""
        revision = received.head.revision
        if received.head.modern:
            rejection = unsupported_protocol_version_rejection(revision or "")
            if rejection is not None:
                return encode_error(None, rejection.code, rejection.message, rejection.data)
            return None  # 2026-07-28 has no notifications of clients: accepted and dropped
        connection = Connection.from_envelope(revision or DEFAULT_REVISION, None, None)
        runner = ServerRunner(self._server, connection, {})
        if message.method:
            await runner.on_notify(Exchange(received, None), message.method, message.params)
        return None

    async def request(self, received: Received, request: RpcRequest, answer: Answer) -> None:
        """Serve a request and send its response."""
        outcome = await self._outcome(received, request, answer)
        if isinstance(outcome, Failed):
            await answer.finish(outcome.body, status=outcome.status)
        else:
            await answer.finish(encode_result(request.id, outcome))

    async def _outcome(
        self, received: Received, request: RpcRequest, answer: Answer
    ) -> dict[str, Any] | Failed:
        try:
            params = request.decoded_params()
        except Fault as fault:
            return Failed(encode_error(None, types.PARSE_ERROR, fault.failure.message), 400)
        if params is not None and not isinstance(params, dict):
            return Failed(encode_error(request.id, types.INVALID_PARAMS, BAD_PARAMS), 400)
        connection = self._connect(received.head, request, params)
        if isinstance(connection, InboundLadderRejection):
            message = connection.message
            if connection.code == types.HEADER_MISMATCH:
                message = f"{message.rstrip('.')}. Send each header once, with the body's value."
            error = encode_error(request.id, connection.code, message, connection.data)
            return Failed(error, ERROR_CODE_HTTP_STATUS.get(connection.code, 200))
        if request.method == LISTEN and not received.head.accepts_events:
            return Failed(encode_error(request.id, types.INVALID_REQUEST, _NO_STREAM), 406)
        exchange = Exchange(received, answer, request.id, progress_token_from_params(params))
        return await self._serve(exchange, request, params, connection)

    async def result(
        self, received: Received, request: RpcRequest
    ) -> dict[str, Any] | Failed | None:
        """The outcome without notifications; None, and nothing done, for a fault of the headers."""
        params = request.decoded_params()
        connection = self._connect(received.head, request, params)
        if isinstance(connection, InboundLadderRejection):
            return None
        return await self._serve(Exchange(received, None, request.id), request, params, connection)

    async def _serve(
        self, exchange: Exchange, request: RpcRequest, params: Any, connection: Connection
    ) -> dict[str, Any] | Failed:
        try:
            return await serve_one(
                self._server, exchange, request.method, params,
                connection=connection, lifespan_state={},
            )  # fmt: skip
        except Exception as error:
            data = modern_error_data(error)
            modern = is_modern(connection.protocol_version)
            status = ERROR_CODE_HTTP_STATUS.get(data.code, 200) if modern else 200
            return Failed(encode_error(request.id, data.code, data.message, data.data), status)

    def _connect(
        self, head: Head, request: RpcRequest, params: dict[str, Any] | None
    ) -> Connection | InboundLadderRejection:
        """The revision and the client of a request, after the rules for its headers."""
        if not head.modern:
            return Connection.from_envelope(head.revision or DEFAULT_REVISION, None, None)
        headers = Headers(raw=[(name, value.strip()) for name, value in head.raw])
        repeated = find_duplicated_routing_header(headers.items())
        if repeated is not None:
            message = f"{repeated} header appears more than once"
            return InboundLadderRejection(types.HEADER_MISMATCH, message)
        meta = (params or {}).get("_meta")
        if not isinstance(meta, dict) or types.PROTOCOL_VERSION_META_KEY not in meta:
            unknown = unsupported_protocol_version_rejection(head.revision or "", _REVISIONS)
            if unknown is not None:  # of an older client as well
                return replace(unknown, message=_NO_REVISION)
        body = {"method": request.method, "params": params}
        verdict = classify_inbound_request(body, headers=headers)
        if isinstance(verdict, InboundLadderRejection):
            return verdict
        rejection = check_task_header(head, request, params or {})
        rejection = rejection or self._check_argument_headers(headers, request, params or {})
        return rejection or Connection.from_envelope(
            verdict.protocol_version, verdict.client_info, verdict.client_capabilities
        )

    def _check_argument_headers(
        self, headers: Headers, request: RpcRequest, params: dict[str, Any]
    ) -> InboundLadderRejection | None:
        """`Mcp-Param-*` headers must agree with the arguments that the tool's schema names."""
        name, arguments = params.get("name"), params.get("arguments") or {}
        lookup = self._server.get_tool_input_schema
        if request.method != "tools/call" or not isinstance(name, str) or lookup is None:
            return None
        schema = lookup(name)
        if schema is None or not isinstance(arguments, dict):
            return None
        return validate_mcp_param_headers(schema, arguments, headers)


def check_task_header(
    head: Head, request: RpcRequest, params: dict[str, Any]
) -> InboundLadderRejection | None:
    """`Mcp-Name` of the methods of tasks is the task's id (SEP-2663, routing headers)."""
    if request.method not in TASK_METHODS or head.name == params.get("taskId"):
        return None
    return InboundLadderRejection(types.HEADER_MISMATCH, "Mcp-Name must be the taskId.")


_REVISIONS = (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)
_NO_REVISION = f"MCP-Protocol-Version has no known revision. Send one of: {', '.join(_REVISIONS)}."
_NO_STREAM = "Not Acceptable: this method answers with an event stream"
