"""Tools: what a worker offers, how a tool is called, what it replies (proto/README.md §7).

A worker declares a tool as a typed method (`searchbus_bus.Toolset`). The schema in tools/list, the
check of the arguments and the entry in proto/ follow from the argument Struct.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta, Struct, field

from .codec import doc
from .errors import Credits
from .schemas import check_schema
from .subjects import TOKEN_PATTERN, check_tokens

Name = Annotated[str, doc("A subject token.", pattern=TOKEN_PATTERN)]
Renderer = Literal["content", "json", "results"]
Annotations = Annotated[
    dict[str, Any] | None, doc("MCP's hints: audience, priority, lastModified.")
]
_Meta = Annotated[dict[str, Any] | None, doc("For the host, not the model.")]
UNTRUSTED = "dev.searchbus/untrusted"
"""Key in MCP's `_meta` of what has text that others wrote; its value is `true`."""


class ToolAnnotations(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """MCP's hints about a tool's behaviour; `None` omits a hint."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
READ_ONLY_OUTSIDE = msgspec.structs.replace(READ_ONLY, open_world_hint=True)
"""The hints for tools that read the web, or tools of others."""


class ToolDescriptor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool as its worker declares it."""

    name: Name
    toolset: Name
    description: Annotated[str, Meta(min_length=1, max_length=8192)]
    input_schema: Annotated[
        dict[str, Any], doc("JSON Schema 2020-12 of an object: 'type' is 'object'.")
    ]
    title: Annotated[str, Meta(max_length=256)] | None = None
    qualified_name: Annotated[
        Name | None, doc("Its name beside other toolsets' tools; default: name.")
    ] = None
    aside: Annotated[
        bool,
        doc(
            "Listed and found on the endpoint of its toolset only: beside other "
            "toolsets' tools it would be there twice."
        ),
    ] = False
    output_schema: Annotated[dict[str, Any] | None, doc("JSON Schema of ToolReply.structured.")] = (
        None
    )
    annotations: ToolAnnotations | None = None
    required_roles: Annotated[
        tuple[str, ...], doc("A caller needs all of these to see and call the tool.")
    ] = ()
    renderer: Annotated[
        Renderer,
        doc(
            "The text that a client receives: 'content' = ToolReply.content as it is; "
            "'json' = structured as JSON; 'results' = structured['results'] as JSON."
        ),
    ] = "content"
    timeout_ms: Annotated[
        int, doc("The time limit of one call, set by the edge.", ge=1, le=600_000)
    ] = 30_000
    task_after_ms: (
        Annotated[
            int,
            doc(
                "A call that takes longer becomes a task, for clients that take tasks; 0: every "
                "call does. Default: the edge's setting.",
                ge=0,
            ),
        ]
        | None
    ) = None
    client_capabilities: Annotated[
        tuple[str, ...],
        doc("MCP capabilities and extensions that a client must declare to call, e.g. 'sampling'."),
    ] = ()
    costly: Annotated[
        bool,
        doc(
            "A call costs money: calls are limited per caller, and refused "
            "while the limit cannot be checked."
        ),
    ] = False
    max_request_bytes: Annotated[
        int, doc("The largest HTTP request of a call; 0: the edge's default.", ge=0)
    ] = 0
    untrusted: Annotated[
        bool, doc("Results have text that others wrote; the edge says so in their _meta.")
    ] = False
    in_prompts: Annotated[bool, doc("Prompts name the tool to callers who may call it.")] = False
    examples: Annotated[
        tuple[str, ...], doc("Requests that the tool serves; indexed.", max_length=50)
    ] = ()
    keywords: Annotated[tuple[str, ...], doc("Indexed words.", max_length=50)] = ()
    meta: Annotated[dict[str, Any] | None, doc("Copied into the tool's _meta by the edge.")] = None

    def __post_init__(self) -> None:
        check_tokens(self.name, self.toolset, self.qualified_name or self.name)
        # Clients refuse the whole tools/list because of one tool without this.
        if self.input_schema.get("type") != "object":
            raise ValueError("input_schema must have type 'object'")
        check_schema(self.input_schema)
        if self.output_schema is not None:
            check_schema(self.output_schema)
            if self.output_schema.get("type") != "object":
                raise ValueError("output_schema must have type 'object'")

    @property
    def may_repeat(self) -> bool:
        """Whether a call that may have been done can be made again."""
        hints = self.annotations
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


class ToolOptions(TypedDict, total=False):
    """The fields of a descriptor that a tool's method declares itself, by `@tool`."""

    annotations: ToolAnnotations | None
    required_roles: tuple[str, ...]
    timeout_ms: int
    task_after_ms: int | None
    client_capabilities: tuple[str, ...]
    costly: bool
    max_request_bytes: int
    untrusted: bool
    in_prompts: bool
    examples: tuple[str, ...]
    keywords: tuple[str, ...]
    meta: dict[str, Any] | None


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to `tool.<toolset>.<tool>`."""

    tool: Name
    arguments: Annotated[msgspec.Raw, doc("An object that fits input_schema.")] = field(
        default_factory=lambda: msgspec.Raw(b"{}")
    )
    input_responses: Annotated[
        dict[str, Any] | None, doc("The client's responses to InputRequired.requests.")
    ] = None
    state: Annotated[str | None, doc("The state of the earlier InputRequired.")] = None
    client_capabilities: Annotated[
        tuple[str, ...], doc("What the client declared: 'sampling', 'elicitation', …")
    ] = ()


class InputRequired(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Input that a tool needs from the client before it can reply (MCP 2026-07-28, SEP-2322).

    The client responds to `requests` and calls again. The edge signs `state` before it sends it to
    the client and verifies it afterwards, so a worker receives only a state that it wrote.
    """

    requests: Annotated[
        dict[str, dict[str, Any]],
        doc("Key → MCP request ('method', 'params') for the client to respond to."),
    ] = {}
    state: Annotated[str, Meta(max_length=65_536)] | None = None


class ResourceBody(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The content of one resource: text or base64 blob."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: _Meta = field(name="_meta", default=None)


class TextContent(Struct, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """Text for the model."""

    text: str
    annotations: Annotations = None
    meta: _Meta = field(name="_meta", default=None)


class ImageContent(
    Struct, frozen=True, kw_only=True, tag="image", omit_defaults=True, rename="camel"
):
    """A base64 image."""

    data: str
    mime_type: str
    annotations: Annotations = None
    meta: _Meta = field(name="_meta", default=None)


class AudioContent(
    Struct, frozen=True, kw_only=True, tag="audio", omit_defaults=True, rename="camel"
):
    """Base64 audio."""

    data: str
    mime_type: str
    annotations: Annotations = None
    meta: _Meta = field(name="_meta", default=None)


class EmbeddedResource(Struct, frozen=True, kw_only=True, tag="resource", omit_defaults=True):
    """A resource carried inside a reply."""

    resource: ResourceBody
    annotations: Annotations = None
    meta: _Meta = field(name="_meta", default=None)


class ResourceLink(
    Struct, frozen=True, kw_only=True, tag="resource_link", omit_defaults=True, rename="camel"
):
    """A pointer to a resource that the client may read."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Annotated[int | None, doc("In bytes.")] = None
    annotations: Annotations = None
    meta: _Meta = field(name="_meta", default=None)


Content = TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink


class ToolReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply of a tool. `is_error` marks a reply that describes the tool's own failure."""

    content: tuple[Content, ...] = ()
    structured: dict[str, Any] | None = None
    is_error: bool = False
    input_required: Annotated[
        InputRequired | None, doc("Instead of a result: the client must respond first.")
    ] = None
    meta: Annotated[
        dict[str, Any] | None, doc("The result's _meta: for the host, not the model.")
    ] = None
    credits: Credits = 0.0


class ToolEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sent while a request runs: progress, or a line for the client's log (§5.3)."""

    kind: Literal["progress", "log"]
    progress: Annotated[float, doc("Increases with every event of one request.")] = 0.0
    total: float | None = None
    message: str | None = None
    level: Literal[
        "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
    ] = "info"
    data: Any = None
    logger: str | None = None


def json_schema(kind: Any) -> dict[str, Any]:
    """JSON Schema of a type: its own definition at the top level, the others in $defs.

    MCP requires ``"type": "object"`` at the top level, where msgspec writes a ``$ref``.
    """
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    reference = schema.get("$ref")
    if reference is not None:
        schema = dict(definitions[reference.removeprefix("#/$defs/")])
        if reference not in str(definitions):  # not recursive: nothing points to it
            definitions = {k: v for k, v in definitions.items() if not reference.endswith(f"/{k}")}
    return {**schema, "$defs": definitions} if definitions else schema


def input_schema(arguments: type[Struct]) -> dict[str, Any]:
    """JSON Schema of a tool's arguments, without the Struct's name and docstring."""
    schema = json_schema(arguments)
    return {key: value for key, value in schema.items() if key not in ("title", "description")}
