"""Descriptors from decorated methods, and the forms of a tool's reply."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from searchbus_contracts import (
    PromptArgument,
    PromptDescriptor,
    PromptMessage,
    Renderer,
    TextContent,
    ToolDescriptor,
    ToolReply,
    input_schema,
    json_schema,
)
from searchbus_contracts.channels import CHANNELS

from .toolset import Call, Declaration, DeclarationError, Toolset, WithMeta, declarations


def declared_tools(kind: type[Toolset]) -> list[ToolDescriptor]:
    """The tools of a toolset as declared, before `Toolset.configure`; sorted by name."""
    part: Any = kind  # mypy takes a type for something without a hash
    return [
        describe_method(part, name, declaration)[0]
        for name, declaration in declarations(kind)
        if declaration.kind == "tool"
    ]


def check_limits(descriptor: ToolDescriptor) -> ToolDescriptor:
    """Return the descriptor; raises msgspec.ValidationError where a field breaks its limit."""
    # Constructors do not check Meta limits, decoding does.
    return msgspec.convert(msgspec.to_builtins(descriptor), ToolDescriptor)


@lru_cache(512)
def describe_method(
    part: type[Toolset], name: str, declaration: Declaration
) -> tuple[ToolDescriptor, type[Struct], ReplyForm]:
    """The descriptor of a tool, the type of its arguments, the form of its reply; kept, so change a
    copy. Raises DeclarationError (signature, docstring), msgspec.ValidationError (a limit)."""
    arguments, reply = _request_and_reply(part, name)
    if not (isinstance(arguments, type) and issubclass(arguments, Struct)):
        raise _error(part, name, "the arguments must be one msgspec Struct")
    try:
        form = ReplyForm.of(reply, name)
    except TypeError as error:
        raise _error(part, name, str(error)) from None
    descriptor = ToolDescriptor(
        **described(part, name, declaration),
        input_schema=input_schema(arguments),
        output_schema=form.schema,
        renderer=form.renderer,
    )
    return check_limits(descriptor), arguments, form


def describe_prompt(part: Toolset, name: str, declaration: Declaration) -> PromptDescriptor:
    """The descriptor of a prompt; raises DeclarationError for a default other than None or ""."""
    method = getattr(part, name)
    hints = get_type_hints(method, include_extras=True)
    parameters = inspect.signature(method).parameters
    for parameter in parameters.values():
        if parameter.default not in (inspect.Parameter.empty, None, ""):
            raise _error(type(part), name, f"the default of {parameter.name} must be None or ''")
    body = method(**{key: f"{{{key}}}" for key in parameters})
    if isinstance(body, str):
        body = (PromptMessage(role="user", content=TextContent(text=body)),)
    return PromptDescriptor(
        **described(type(part), name, declaration),
        messages=body,
        arguments=tuple(
            _prompt_argument(key, hints[key], parameter.default is inspect.Parameter.empty)
            for key, parameter in parameters.items()
        ),
    )


def described(part: type[Toolset], name: str, declaration: Declaration) -> dict[str, Any]:
    """The fields that all descriptors share; raises DeclarationError (no toolset or docstring)."""
    if not part.toolset:
        raise DeclarationError(
            f"{part.__name__} has no name. Write class {part.__name__}(Toolset, name='…')."
        )
    return {
        "name": name,
        **declaration.options,
        "toolset": part.toolset,
        "description": _description(part, name),
    }


def endpoint_types(part: type, name: str, service: str) -> tuple[str, Any, Any]:
    """(verb, request type, reply type) of an endpoint; raises DeclarationError, by channels.py."""
    verb = name.rstrip("_")
    request, reply = _request_and_reply(part, name)
    for channel in CHANNELS:
        known = (channel.message, channel.reply)
        if channel.address == f"{service}.{verb}" and known != (request, reply):
            raise _error(part, name, f"the wire says {known[0].__name__} → {known[1].__name__}")
    return verb, request, reply


def _request_and_reply(part: type, name: str) -> tuple[Any, Any]:
    method = getattr(part, name)
    parameters = list(inspect.signature(method).parameters)[1:]
    hints = get_type_hints(method, include_extras=True)
    missing = [key for key in (*parameters, "return") if key not in hints]
    if len(parameters) != 2 or missing or hints[parameters[0]] is not Call:
        raise _error(part, name, "the signature must be (self, call: Call, request: …) -> reply")
    return hints[parameters[1]], hints["return"]


def _description(part: type, name: str) -> str:
    """The docstring with the lines of each paragraph joined; lists keep their lines."""
    text = inspect.getdoc(getattr(part, name))
    if not text:
        raise _error(part, name, "it has no docstring, which is its description")
    return re.sub(r"(?<!\n)\n(?![\n\s*-])", " ", text)


def _prompt_argument(name: str, hint: Any, required: bool) -> PromptArgument:
    meta = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, msgspec.Meta)), None)
    base = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    literals = [base, *get_args(base)]
    values = [v for kind in literals if get_origin(kind) is Literal for v in get_args(kind)]
    return PromptArgument(
        name=name,
        description=meta.description if meta is not None else None,
        required=required,
        values=tuple(values),
    )


def _error(part: type, name: str, reason: str) -> DeclarationError:
    return DeclarationError(f"{part.__name__}.{name}: {reason}.")


CHECK_REPLIES = os.environ.get("SEARCHBUS_CHECK_REPLIES") == "1"
"""Whether every field of every reply is validated. For tests: it costs as much as encoding.
The type of the reply itself is always checked."""


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """How the value that a method returns (`kind`) becomes a `ToolReply`; `renderer`: see
    `ToolDescriptor`, `schema`: None for a reply that is not structured."""

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
        """What the method returned as a reply; raises TypeError, msgspec.ValidationError."""
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
    """Check a reply (all of it: `CHECK_REPLIES`); raises TypeError, msgspec.ValidationError."""
    expected = get_origin(kind) or kind
    if isinstance(expected, type) and not isinstance(value, expected):
        raise TypeError(f"the reply is {type(value).__name__}, not {expected.__name__}")
    if CHECK_REPLIES:
        msgspec.convert(msgspec.to_builtins(value), kind)
