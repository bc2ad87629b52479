"""The forms of a tool's reply, read from its annotation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from searchbus_contracts import Renderer, TextContent, ToolReply, json_schema

__all__ = ["CHECK_REPLIES", "ReplyForm", "WithMeta", "check_type"]

T = TypeVar("T")

CHECK_REPLIES = os.environ.get("SEARCHBUS_CHECK_REPLIES") == "1"
"""Whether every field of every reply is validated. For tests: it costs as much as encoding.
The type of the reply itself is always checked."""


@dataclass(frozen=True, slots=True)
class WithMeta(Generic[T]):
    """A reply with metadata for the host, which the model does not read (`_meta` of the result)."""

    value: T
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """How the value that a method returns becomes a `ToolReply`.

    Args:
        kind: the annotated type, without `WithMeta`.
        renderer: the text that a client receives; see `ToolDescriptor.renderer`.
        schema: JSON Schema of the structured reply; None for a reply without one.
    """

    kind: Any
    renderer: Renderer
    schema: dict[str, Any] | None
    with_meta: bool = False

    @classmethod
    def of(cls, annotation: Any, tool: str) -> ReplyForm:
        """The form of an annotation; raises TypeError for one that is not a reply."""
        if get_origin(annotation) is WithMeta:
            form = cls.of(get_args(annotation)[0], tool)
            return cls(form.kind, form.renderer, form.schema, with_meta=True)
        if annotation in (str, ToolReply):
            return cls(annotation, "content", None)
        if get_origin(annotation) is list:
            title = f"{tool.title().replace('_', '')}Results"
            results = msgspec.defstruct(title, [("results", annotation)])
            return cls(annotation, "results", json_schema(results))
        if isinstance(annotation, type) and issubclass(annotation, Struct):
            return cls(annotation, "json", json_schema(annotation))
        raise TypeError(
            "a tool returns a Struct, a list of Structs, str or ToolReply, or WithMeta of those"
        )

    def reply(self, returned: Any) -> ToolReply:
        """Turn what the method returned into a reply.

        Raises:
            TypeError, msgspec.ValidationError: it does not fit the annotation.
        """
        value, meta = returned, None
        if self.with_meta:
            value, meta = returned.value, returned.meta
        check_type(value, self.kind)
        if isinstance(value, ToolReply):
            return value
        if isinstance(value, str):
            return ToolReply(content=(TextContent(text=value),), meta=meta)
        structured = msgspec.to_builtins(value)
        if self.renderer == "results":
            structured = {"results": structured}
        return ToolReply(structured=structured, meta=meta)


def check_type(value: Any, kind: Any) -> None:
    """Check a reply against its annotation; with `CHECK_REPLIES`, every field of it.

    Raises:
        TypeError, msgspec.ValidationError: it does not fit.
    """
    expected = get_origin(kind) or kind
    if isinstance(expected, type) and not isinstance(value, expected):
        raise TypeError(f"the reply is {type(value).__name__}, not {expected.__name__}")
    if CHECK_REPLIES:
        msgspec.convert(msgspec.to_builtins(value), kind)
