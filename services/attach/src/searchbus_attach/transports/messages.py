"""Reads messages of servers: looked through as bytes first, parsed where that is cheap.

pydantic, with which the SDK parses, takes seconds for the eight million bytes that a message may
have, and hundreds of bytes of memory for each of its values.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from msgspec import UNSET, Raw, Struct, UnsetType

from ..upstream.session import MAX_DEPTH, is_deeper
from .budget import Budget

__all__ = ["MAX_VALUES", "count_values", "read_message"]

MAX_VALUES = 200_000
"""The limit of a message: a list of 5,000 tools has as many."""
_LOG = "notifications/message"
_NULL = b"null"
T = TypeVar("T")


class _Envelope(Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(_NULL)
    result: Raw = Raw(_NULL)
    error: Raw = Raw(_NULL)


class _Error(Struct):
    code: int
    message: str
    data: Any = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_PARAMS = msgspec.json.Decoder(dict[str, Any] | None)
_RESULT = msgspec.json.Decoder(dict[str, Any])
_ERROR = msgspec.json.Decoder(_Error)


def read_message(
    data: bytes, budget: Budget, *, answers: RequestId | None = None
) -> JSONRPCMessage | None:
    """One message; None where it is dropped.

    Args:
        answers: the request for which it came. An answer is one to this, and what cannot be read
            becomes an error in its place.

    Raises:
        ValueError: it is not a message of JSON-RPC.
    """
    try:
        found = _decoded(_ENVELOPE, data)
    except ValueError as error:
        if answers is None:
            raise
        return _refusal(answers, str(error))
    if found.method is not UNSET:
        if not budget.takes("log" if found.method == _LOG else "event", len(data)):
            return None
        params = _decoded(_PARAMS, found.params)
        if found.id is UNSET or found.id is None:
            return JSONRPCNotification.model_construct(
                jsonrpc="2.0", method=found.method, params=params
            )
        return JSONRPCRequest.model_construct(
            jsonrpc="2.0", id=found.id, method=found.method, params=params
        )
    answered = answers if answers is not None else found.id
    is_error = bytes(found.error) != _NULL
    if answered is UNSET or (answered is None and not is_error):
        raise ValueError("neither a request nor an answer")
    values = count_values(data)
    budget.note_values(values)
    if values > MAX_VALUES:
        budget.drop("answer", len(data))
        return _refusal(answered, f"the answer has more than {MAX_VALUES:,} values")
    try:
        if answered is None or is_error:
            refused = _decoded(_ERROR, found.error)
            failure = ErrorData(code=refused.code, message=refused.message, data=refused.data)
            return JSONRPCError(jsonrpc="2.0", id=answered, error=failure)
        result = _decoded(_RESULT, found.result)
    except ValueError as error:
        return _refusal(answered, f"validation error: {error}")
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and is_deeper(result, MAX_DEPTH):
        return _refusal(answered, f"the answer is nested more than {MAX_DEPTH} levels deep")
    return JSONRPCResponse.model_construct(jsonrpc="2.0", id=answered, result=result)


def count_values(data: bytes) -> int:
    """How many values JSON has, without parsing it; a few more for each list and object.

    What is in strings is counted too, unless that makes a difference to `MAX_VALUES`.
    """
    marks = _marks(data)
    if marks <= MAX_VALUES:
        return marks
    bare = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 4 * MAX_VALUES:  # a key and a value each
        return marks
    return _marks(b"".join(bare.split(b'"')[::2]))


def _marks(data: bytes) -> int:
    return len(data) - len(data.translate(None, b",[{"))


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """What it decodes. Raises ValueError."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _refusal(request: RequestId | None, why: str) -> JSONRPCError:
    return JSONRPCError(
        jsonrpc="2.0", id=request, error=ErrorData(code=PARSE_ERROR, message=f"Not read: {why}")
    )
