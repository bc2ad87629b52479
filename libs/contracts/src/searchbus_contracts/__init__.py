"""The wire of searchbus: messages, subjects, headers, error codes and descriptors.

This package defines every message on the bus. proto/ is generated from it, and proto/README.md is
the normative text (§ numbers in the modules refer to it). It depends on msgspec only.
"""

from typing import TYPE_CHECKING

from .lazy import lazy_exports

if TYPE_CHECKING:
    from .catalog import (
        ACKS_KEY,
        CATALOG_KEY,
        CONTRACT_KEY,
        Catalog,
        CatalogEvent,
        CatalogPart,
        CatalogRequest,
        PromptArgument,
        PromptDescriptor,
        PromptMessage,
        Refusal,
        ResourceDescriptor,
        ResourceTemplate,
        decode_catalog,
    )
    from .codec import canonical, convert, decode, doc, encode
    from .errors import RETRYABLE, ErrorCode, Failure, Fault
    from .headers import Actor, Cancel, LivePart, Parts, Ping, Pong
    from .queries import check_query
    from .resources import (
        ResourceListReply,
        ResourceListRequest,
        ResourceReadReply,
        ResourceReadRequest,
        ResourceSearchReply,
        ResourceSearchRequest,
    )
    from .subjects import DEFAULT_PREFIX, Subjects, is_token
    from .tools import (
        AudioContent,
        Content,
        EmbeddedResource,
        ImageContent,
        InputRequired,
        Renderer,
        ResourceBody,
        ResourceLink,
        TextContent,
        ToolAnnotations,
        ToolCall,
        ToolDescriptor,
        ToolEvent,
        ToolReply,
        input_schema,
        json_schema,
    )

__all__ = [
    "ACKS_KEY", "CATALOG_KEY", "CONTRACT_KEY", "DEFAULT_PREFIX", "RETRYABLE", "VERSION",
    "Actor", "AudioContent", "Cancel", "Catalog", "CatalogEvent", "CatalogPart",
    "CatalogRequest", "Content", "EmbeddedResource", "ErrorCode", "Failure", "Fault",
    "ImageContent", "InputRequired", "LivePart", "Parts", "Ping", "Pong", "PromptArgument",
    "PromptDescriptor", "PromptMessage", "Refusal", "Renderer", "ResourceBody",
    "ResourceDescriptor", "ResourceLink", "ResourceListReply", "ResourceListRequest",
    "ResourceReadReply", "ResourceReadRequest", "ResourceSearchReply", "ResourceSearchRequest",
    "ResourceTemplate", "Subjects", "TextContent", "ToolAnnotations", "ToolCall",
    "ToolDescriptor", "ToolEvent", "ToolReply", "canonical", "check_query", "convert", "decode",
    "decode_catalog", "doc", "encode", "input_schema", "is_token", "json_schema",
]  # fmt: skip

VERSION = "0.1.0"
"""The version of all packages, which are released together; as in every pyproject.toml."""

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "catalog": (
            "ACKS_KEY", "CATALOG_KEY", "CONTRACT_KEY", "Catalog", "CatalogEvent", "CatalogPart",
            "CatalogRequest", "PromptArgument", "PromptDescriptor", "PromptMessage", "Refusal",
            "ResourceDescriptor", "ResourceTemplate", "decode_catalog",
        ),
        "codec": ("canonical", "convert", "decode", "doc", "encode"),
        "errors": ("RETRYABLE", "ErrorCode", "Failure", "Fault"),
        "headers": ("Actor", "Cancel", "LivePart", "Parts", "Ping", "Pong"),
        "queries": ("check_query",),
        "resources": (
            "ResourceListReply", "ResourceListRequest", "ResourceReadReply",
            "ResourceReadRequest", "ResourceSearchReply", "ResourceSearchRequest",
        ),
        "subjects": ("DEFAULT_PREFIX", "Subjects", "is_token"),
        "tools": (
            "AudioContent", "Content", "EmbeddedResource", "ImageContent",
            "InputRequired", "Renderer", "ResourceBody", "ResourceLink",
            "TextContent", "ToolAnnotations", "ToolCall", "ToolDescriptor",
            "ToolEvent", "ToolReply", "input_schema", "json_schema",
        ),
    },
)  # fmt: skip
