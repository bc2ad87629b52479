"""A server's results of resources/read, prompts/get and completion/complete as replies of the bus.

Text, binary content and MIME types pass through. The URIs of a server become addresses of the bus.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from searchbus_contracts import (
    Content,
    ErrorCode,
    Fault,
    PromptMessage,
    ResourceBody,
    ResourceReadReply,
)
from searchbus_contracts.resources import CompleteReply, PromptGetReply
from searchbus_contracts.tools import EmbeddedResource, ResourceLink

from .addresses import wrapped_link, wrapped_uri
from .describe_contents import content_annotations
from .text import clean, clean_line, sanitized

__all__ = ["completion_of", "parsed", "passed_on", "prompt_of", "resource_of"]

MAX_COMPLETIONS = 100
T = TypeVar("T")


class _Read(Struct, rename="camel"):
    contents: tuple[ResourceBody, ...] = ()
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Prompt(Struct, rename="camel"):
    messages: tuple[PromptMessage, ...] = ()
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
    """A content block of a server, for clients.

    Args:
        links: whether the server's resources can be read: its URIs become addresses of the bus.
    """
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
