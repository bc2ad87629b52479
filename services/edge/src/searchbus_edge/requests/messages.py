"""JSON-RPC messages: the form of a body, read once.

`parse_body` reads the envelope and leaves `params` as raw JSON. What is not a well-formed request
is decoded as a whole, to say what is wrong with it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter
from mcp_types.jsonrpc import JSONRPCNotification, JSONRPCRequest
from msgspec import Raw, Struct
from pydantic import ValidationError

__all__ = [
    "Invalid",
    "Notification",
    "Request",
    "RequestId",
    "encode_error",
    "encode_result",
    "parse_body",
    "read_message",
]

RequestId = int | str
_FAILED = (msgspec.MsgspecError, ValueError, RecursionError)


class Request(Struct, frozen=True):
    """A request; `params` is raw JSON, empty where there are none."""

    id: RequestId
    method: str
    jsonrpc: Literal["2.0"]
    params: Raw = Raw(b"")

    def decoded_params(self) -> Any:
        """The parameters as JSON values; raises ValueError where they are not valid JSON."""
        return decode_json(self.params) if len(self.params) else None

    def called_tool(self) -> str:
        """The tool that a tools/call names; empty for every other request."""
        if self.method != "tools/call" or not len(self.params):
            return ""
        try:
            name = _named.decode(self.params).name
        except _FAILED:
            return ""
        return name if isinstance(name, str) else ""


class Notification(Struct, frozen=True):
    """A notification, or a response of the client: accepted, not answered."""

    method: str = ""
    params: dict[str, Any] | None = None


class Invalid(Struct, frozen=True):
    """What is not a JSON-RPC message: the JSON-RPC error to answer with."""

    code: int
    message: str


Message = Request | Notification | Invalid
_PARSE_ERROR = Invalid(PARSE_ERROR, "Parse error: the body is not valid JSON.")
_NOT_MODERN = Invalid(
    INVALID_REQUEST, "Body must be a single JSON-RPC request or notification object"
)
_NOT_LEGACY = Invalid(
    INVALID_PARAMS, "Validation error: the body is not a JSON-RPC request, notification or response"
)
_request = msgspec.json.Decoder(Request)


class _Named(Struct):
    name: Any = None


_named = msgspec.json.Decoder(_Named)


def parse_body(body: bytes, *, modern: bool) -> Message | list[Any]:
    """The message of a body; the decoded JSON values of a batch.

    Args:
        modern: of revision 2026-07-28 or later, whose errors differ.
    """
    try:
        return _request.decode(body)
    except _FAILED:
        pass
    try:
        value = decode_json(body)
    except ValueError:
        return _PARSE_ERROR
    return value if isinstance(value, list) else read_message(value, modern=modern)


def read_message(value: Any, *, modern: bool) -> Message:
    """One decoded message."""
    invalid = _NOT_MODERN if modern else _NOT_LEGACY
    try:
        found: Any = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return invalid
    if isinstance(found, JSONRPCRequest):
        params = Raw(msgspec.json.encode(found.params)) if found.params is not None else Raw(b"")
        return Request(found.id, found.method, "2.0", params)
    # JSON-RPC 2.0, 4.1: a notification is a request without the member "id".
    if modern and ("id" in value or not isinstance(found, JSONRPCNotification)):
        return invalid
    return Notification(getattr(found, "method", ""), getattr(found, "params", None))


def decode_json(data: bytes | Raw) -> Any:
    """JSON values; raises ValueError for whatever is wrong with them."""
    try:
        return msgspec.json.decode(data)
    except _FAILED as error:
        raise ValueError(type(error).__name__) from None


def encode_result(request_id: RequestId, result: Any) -> bytes:
    """A JSON-RPC response.

    Args:
        result: JSON values, a Struct, or Raw.
    """
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    """A JSON-RPC error; `data` is left out where it is None."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error})
