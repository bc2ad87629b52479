"""Descriptors and contents of the bus as types of MCP, and the lists of them, page by page."""

from __future__ import annotations

import logging
from typing import Annotated, Any, TypeVar

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from searchbus_contracts import (
    Actor,
    Content,
    PromptDescriptor,
    ResourceBody,
    ResourceDescriptor,
    ResourceTemplate,
)
from searchbus_contracts.tools import UNTRUSTED, EmbeddedResource

from ..auth.signing import UNKNOWN_CURSOR, CursorError, Cursors
from .view import ListedTool, View

log = logging.getLogger("searchbus.edge")
_block: TypeAdapter[types.ContentBlock] = TypeAdapter(
    Annotated[types.ContentBlock, Field(discriminator="type")]
)
ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Failure",
    "description": "With isError: what failed.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "retryable": {"type": "boolean"},
                "retry_after_ms": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["code", "message", "retryable"],
        }
    },
    "required": ["error"],
}


def output_schema(listed: ListedTool) -> dict[str, Any] | None:
    """The worker's schema or the failure's: some hosts validate failed results against it too."""
    if listed.output_schema is None:
        return None
    schema = dict(listed.output_schema)
    definitions = schema.pop("$defs", None)
    either: dict[str, Any] = {"type": "object", "anyOf": [schema, ERROR_SCHEMA]}
    if definitions:
        either["$defs"] = definitions  # "#/$defs/…" is resolved from the root
    return either


RESULTS_VIEW = "ui://searchbus/search-results.html"
VIEW_KEY = "dev.searchbus/view"
"""Key in the `_meta` of a tool of ours that has a view: its URI, for clients that show views."""


def tool(listed: ListedTool, *, views: bool = False) -> types.Tool:
    """A tool as tools/list shows it: its schemas and its view as clients read them."""
    descriptor = listed.descriptor
    meta = descriptor.meta
    if meta is not None and VIEW_KEY in meta:
        rest = {key: value for key, value in meta.items() if key != VIEW_KEY}
        meta = {**rest, "ui": {"resourceUri": meta[VIEW_KEY]}} if views else rest or None
    hints = descriptor.annotations
    return types.Tool(
        name=listed.name,
        title=descriptor.title,
        description=descriptor.description,
        input_schema=listed.input_schema,
        output_schema=output_schema(listed),
        annotations=msgspec.to_builtins(hints) if hints else None,
        _meta=meta,
    )


def content_block(block: Content) -> types.ContentBlock:
    """One content block: on the bus it has MCP's form."""
    shown = msgspec.to_builtins(block)
    shown["annotations"] = _annotations(block.annotations)
    if isinstance(block, EmbeddedResource):
        shown["resource"] = resource_contents(block.resource)
    return _block.validate_python(shown)


def _annotations(notes: dict[str, Any] | None) -> types.Annotations | None:
    """The annotations; none if a worker gave some unknown to MCP: they must not cost the list."""
    try:
        return types.Annotations.model_validate(notes) if notes else None
    except ValidationError as error:
        log.warning("annotations are left out: %s", error.errors(include_url=False)[0]["msg"])
        return None


def marked_untrusted(meta: dict[str, Any] | None) -> dict[str, Any]:
    """The `_meta` of what has text that others wrote."""
    return {**(meta or {}), UNTRUSTED: True}


def resource_contents(
    body: ResourceBody, *, untrusted: bool = False
) -> types.TextResourceContents | types.BlobResourceContents:
    """The content of a resource: text or base64."""
    shown = msgspec.to_builtins(body)
    if untrusted:
        shown["_meta"] = marked_untrusted(body.meta)
    if body.blob is not None:
        return types.BlobResourceContents.model_validate(shown)
    return types.TextResourceContents.model_validate({"text": "", **shown})


def resource(descriptor: ResourceDescriptor) -> types.Resource:
    """A resource as resources/list shows it."""
    return types.Resource(
        uri=descriptor.uri, size=descriptor.size_bytes, **_of_resources(descriptor)
    )


def template(descriptor: ResourceTemplate) -> types.ResourceTemplate:
    """A template as resources/templates/list shows it."""
    return types.ResourceTemplate(uri_template=descriptor.uri_template, **_of_resources(descriptor))


def _of_resources(descriptor: ResourceDescriptor | ResourceTemplate) -> dict[str, Any]:
    meta = descriptor.meta if isinstance(descriptor, ResourceDescriptor) else None
    return {
        "name": descriptor.name,
        "title": descriptor.title,
        "description": descriptor.description,
        "mime_type": descriptor.mime_type,
        "annotations": _annotations(descriptor.annotations),
        "_meta": marked_untrusted(meta) if descriptor.untrusted else meta,
    }


def prompt(name: str, descriptor: PromptDescriptor) -> types.Prompt:
    """A prompt as prompts/list shows it."""
    return types.Prompt(
        name=name,
        title=descriptor.title,
        description=descriptor.description,
        arguments=[
            types.PromptArgument(name=a.name, description=a.description, required=a.required)
            for a in descriptor.arguments
        ]
        or None,
        _meta=marked_untrusted(None) if descriptor.untrusted else None,
    )


T = TypeVar("T")


def read_cursor(cursors: Cursors, cursor: str | None, *bound_to: object) -> dict[str, Any]:
    """The state of a cursor, see Cursors.read; raises MCPError(-32602)."""
    try:
        return cursors.read(cursor, *bound_to)
    except CursorError:
        raise MCPError(types.INVALID_PARAMS, UNKNOWN_CURSOR) from None


class Pages:
    """Pages of what a view holds, `page_size` items each."""

    def __init__(self, cursors: Cursors, *, page_size: int) -> None:
        self._cursors = cursors
        self._page_size = page_size

    def tools(
        self, actor: Actor, view: View, cursor: str | None, *, views: bool = False
    ) -> types.ListToolsResult:
        """A page of the tools that the actor may call; `views`: the client shows views of tools."""
        page, following = self.listed_tools(actor, view, cursor)
        tools = [tool(t, views=views) for t in page]
        return types.ListToolsResult(tools=tools, next_cursor=following)

    def listed_tools(
        self, actor: Actor, view: View, cursor: str | None
    ) -> tuple[list[ListedTool], str | None]:
        """The same as the edge lists them, and the next cursor."""
        tools = [tool for tool in view.tools.values() if actor.holds(tool.required_roles)]
        return self.page(tools, cursor, "tools", view.toolset)

    def prompts(self, actor: Actor, view: View, cursor: str | None) -> types.ListPromptsResult:
        """A page of the prompts that the actor may use."""
        prompts = [(name, p) for name, p in view.prompts.items() if actor.holds(p.required_roles)]
        page, following = self.page(prompts, cursor, "prompts", view.toolset)
        return types.ListPromptsResult(
            prompts=[prompt(name, p) for name, p in page], next_cursor=following
        )

    def templates(
        self, actor: Actor, view: View, cursor: str | None
    ) -> types.ListResourceTemplatesResult:
        """A page of the resource templates that the actor may use."""
        templates = [t for _, t in view.templates if t.listed and actor.holds(t.required_roles)]
        page, following = self.page(templates, cursor, "templates", view.toolset)
        return types.ListResourceTemplatesResult(
            resource_templates=[template(t) for t in page], next_cursor=following
        )

    def page(
        self, items: list[T], cursor: str | None, *bound_to: object
    ) -> tuple[list[T], str | None]:
        """A page and the next cursor; where the list has changed, the position still counts."""
        start = int(read_cursor(self._cursors, cursor, *bound_to).get("o", 0))
        end = start + self._page_size
        following = self._cursors.issue({"o": end}, *bound_to) if end < len(items) else None
        return items[start:end], following
