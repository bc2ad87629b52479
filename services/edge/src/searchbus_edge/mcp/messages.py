"""JSON-RPC messages: the form of a body, read once.

`read_request` reads the envelope and leaves `params` as raw JSON. What is not a well-formed request
is decoded as a whole by `read_other`, to say what is wrong with it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from msgspec import Raw, Struct

from searchbus_contracts import Fault, decode
from searchbus_contracts.codec import long_integer

from ..http.body import UNREADABLE

RequestId = int | str
LISTEN = "subscriptions/listen"
BAD_PARAMS = "params must be an object of named parameters."
_NO_PARAMS = Raw(b"")


class RpcRequest(Struct, frozen=True):
    """A request; `params` is raw JSON, empty where there are none."""

    id: RequestId
    method: str
    jsonrpc: Literal["2.0"]
    params: Raw = _NO_PARAMS

    def decoded_params(self) -> Any:
        """The parameters as JSON values; raises Fault where they are not valid JSON."""
        return decode(bytes(self.params), Any) if len(self.params) else None

    def called_tool(self) -> str:
        """The tool that a tools/call names; empty for every other request."""
        if self.method != "tools/call" or not len(self.params):
            return ""
        return name_in(self.params)

    def named_argument(self) -> str:
        """The argument `name` of a tools/call; empty where there is none."""
        try:
            return name_in(_to_call.decode(self.params).arguments)
        except UNREADABLE:
            return ""


class Notification(Struct, frozen=True):
    """A notification, or a response of the client: accepted, not answered."""

    method: str = ""
    params: dict[str, Any] | None = None


class Invalid(Struct, frozen=True):
    """Not a JSON-RPC message: the error to answer with; its id is None where none is valid."""

    code: int
    message: str
    id: RequestId | None = None


Message = RpcRequest | Notification | Invalid
_request = msgspec.json.Decoder(RpcRequest)


class _Named(Struct, frozen=True):
    name: Any = None


class _ToCall(Struct):
    arguments: Raw = _NO_PARAMS


_named = msgspec.json.Decoder(_Named)
_to_call = msgspec.json.Decoder(_ToCall)


def name_in(body: bytes | Raw) -> str:
    """The field `name` of a JSON object, which is not decoded as a whole; empty without one."""
    try:
        name = _named.decode(body).name
    except UNREADABLE:
        return ""
    return name if isinstance(name, str) else ""


def read_other(body: bytes, *, modern: bool) -> Message | list[Any]:
    """What a body is that `read_request` does not read; the decoded JSON values of a batch. Clients
    of `modern` revisions (2026-07-28 on) send no responses."""
    try:
        value = decode(body, Any)
    except Fault as fault:
        return Invalid(PARSE_ERROR, fault.failure.message)
    return value if isinstance(value, list) else read_message(value, modern=modern)


def read_request(body: bytes) -> RpcRequest | None:
    """The request of a body, as most are; None where it is not a well-formed one."""
    if long_integer(body):
        return None
    try:
        return _request.decode(body)
    except UNREADABLE:
        return None


def read_message(value: Any, *, modern: bool) -> Message:
    """One decoded message; the SDK would take an id of null or 1.5 for a notification."""
    if not isinstance(value, dict):
        return Invalid(INVALID_REQUEST, "The body is not a JSON-RPC message. Send one JSON object.")
    message_id = value.get("id")
    if "id" in value and (isinstance(message_id, bool) or not isinstance(message_id, str | int)):
        return Invalid(INVALID_REQUEST, "id must be a string or a whole number, and not null.")
    if value.get("jsonrpc") != "2.0":
        return Invalid(INVALID_REQUEST, 'jsonrpc must be "2.0".', message_id)
    if "method" not in value and not modern and ("result" in value or "error" in value):
        return Notification()
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str):
        return Invalid(INVALID_REQUEST, "method must be a string.", message_id)
    if params is not None and not isinstance(params, dict):
        return Invalid(INVALID_PARAMS, BAD_PARAMS, message_id)
    if message_id is None:
        return Notification(method, params)
    raw = Raw(msgspec.json.encode(params)) if params is not None else _NO_PARAMS
    return RpcRequest(message_id, method, "2.0", raw)


def encode_result(request_id: RequestId, result: Any) -> bytes:
    """A JSON-RPC response with JSON values, a Struct, or Raw."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    """A JSON-RPC error; `data` is left out where it is None."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error})
