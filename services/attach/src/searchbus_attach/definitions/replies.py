"""A server's answer to tools/call as a reply of the bus, and its errors as failures."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, SERVER_INFO_META_KEY
from msgspec import Meta, Struct

from searchbus_contracts import (
    Content,
    ErrorCode,
    Fault,
    PromptMessage,
    ResourceBody,
    ResourceReadReply,
    ToolReply,
)
from searchbus_contracts.resources import MAX_CONTENTS, CompleteReply, PromptGetReply
from searchbus_contracts.tools import EmbeddedResource, ResourceLink

from .describe import content_annotations
from .text import clean, clean_line, sanitized, wrapped_link, wrapped_uri

MAX_ERROR_CHARS = 1_000
MAX_BLOCKS = 10_000
"""Content blocks of a tool's result: some servers send one for each row."""
_RESOURCE_NOT_FOUND = -32002


class _CallResult(Struct, rename="camel"):
    """The result of tools/call, of every revision."""

    content: Annotated[tuple[Content, ...], Meta(max_length=MAX_BLOCKS)] = ()
    structured_content: Any = None
    is_error: bool = False
    result_type: str = "complete"
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


def reply_of(server: str, raw: Any, *, links: bool = False) -> ToolReply:
    """The reply; content is passed on, with links as for `passed_on`. Raises Fault(upstream_failed)
    where the answer is not one of MCP, or asks for input."""
    found = parsed(server, raw, _CallResult)
    if found.result_type == "input_required":
        raise Fault(
            ErrorCode.UPSTREAM_FAILED,
            f"{server} asks for input of the client, which is not passed on. Use another tool.",
            retryable=False,
        )
    structured = found.structured_content
    if structured is not None and not isinstance(structured, dict):
        structured = {"result": structured}
    return ToolReply(
        content=tuple(passed_on(server, block, links=links) for block in found.content),
        structured=structured,
        is_error=found.is_error,
        meta=_without_stamp(found.meta),
    )


def _without_stamp(meta: dict[str, Any] | None) -> dict[str, Any] | None:
    """Without who the server is: the edge says who it is itself, and renders other keys of MCP's
    by the SDK, at several times the cost.
    """
    if meta is None or SERVER_INFO_META_KEY not in meta:
        return meta
    return {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY} or None


def failure_of(server: str, error: MCPError) -> Fault:
    """The failure for an error of JSON-RPC; the text is the server's."""
    if error.code == PARSE_ERROR and "validation error" in error.message:
        # The SDK's, with the names of its types and a piece of the answer.
        return Fault(
            ErrorCode.UPSTREAM_FAILED,
            f"{server} sent an answer that is not one of MCP. Use another tool.",
            retryable=False,
        )
    text = clean(error.message, MAX_ERROR_CHARS) or "no message"
    if error.code == INVALID_PARAMS:
        return Fault(ErrorCode.INVALID_ARGUMENT, f"{server} refused the call: {text}")
    if error.code in (METHOD_NOT_FOUND, _RESOURCE_NOT_FOUND):
        return Fault(ErrorCode.NOT_FOUND, f"{server} does not have it: {text}")
    return Fault(ErrorCode.UPSTREAM_FAILED, f"{server} failed: {text}")


MAX_COMPLETIONS = 100
T = TypeVar("T")


class _Read(Struct, rename="camel"):
    contents: Annotated[tuple[ResourceBody, ...], Meta(max_length=MAX_CONTENTS)] = ()
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Prompt(Struct, rename="camel"):
    messages: Annotated[tuple[PromptMessage, ...], Meta(max_length=MAX_CONTENTS)] = ()
    description: str | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Completion(Struct, rename="camel"):
    values: list[str] = []
    total: int | None = None
    has_more: bool | None = None


class _Completed(Struct):
    completion: _Completion


def parsed(server: str, raw: Any, kind: type[T]) -> T:
    """A result as one of MCP, sanitized; raises Fault(upstream_failed) where it is another."""
    try:
        return msgspec.convert(sanitized(raw), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Fault(
            ErrorCode.UPSTREAM_FAILED,
            # It can hold a name of the server's, as long as the answer.
            f"{server} sent an answer that is not one of MCP ({clean_line(str(error), 300)}). Use "
            "another tool.",
            retryable=False,
        ) from None


def passed_on(server: str, block: Content, *, links: bool) -> Content:
    """A content block of a server, for clients; where its resources can be read (`links`), its URIs
    become addresses of the bus."""
    if block.annotations is not None:
        block = msgspec.structs.replace(block, annotations=content_annotations(block.annotations))
    if not links:
        return block
    if isinstance(block, ResourceLink):
        return msgspec.structs.replace(block, uri=wrapped_link(server, block.uri))
    if isinstance(block, EmbeddedResource):
        body = block.resource
        body = msgspec.structs.replace(body, uri=wrapped_link(server, body.uri))
        return msgspec.structs.replace(block, resource=body)
    return block


def resource_of(server: str, raw: Any) -> ResourceReadReply:
    """The reply to resources/read."""
    found = parsed(server, raw, _Read)
    contents = tuple(
        msgspec.structs.replace(body, uri=wrapped_uri(server, body.uri)) for body in found.contents
    )
    return ResourceReadReply(contents=contents, meta=found.meta)


def prompt_of(server: str, raw: Any, *, links: bool) -> PromptGetReply:
    """The reply to prompts/get; `links` as for `passed_on`."""
    found = parsed(server, raw, _Prompt)
    messages = tuple(
        PromptMessage(role=message.role, content=passed_on(server, message.content, links=links))
        for message in found.messages
    )
    description = clean(found.description, 8_000) if found.description else None
    return PromptGetReply(messages=messages, description=description, meta=found.meta)


def completion_of(server: str, raw: Any) -> CompleteReply:
    """The reply to completion/complete: the first hundred values, as MCP allows."""
    found = parsed(server, raw, _Completed).completion
    cut = len(found.values) > MAX_COMPLETIONS
    return CompleteReply(
        values=tuple(found.values[:MAX_COMPLETIONS]),
        total=found.total,
        has_more=True if cut else found.has_more,
    )
