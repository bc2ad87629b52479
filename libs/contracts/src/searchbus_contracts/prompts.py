"""Prompts that their worker fills in: `prompt.<toolset>.{get,complete}` (proto/README.md §9)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from .catalog import PromptMessage
from .tools import Name

__all__ = ["CompleteReply", "CompleteRequest", "PromptGetReply", "PromptGetRequest"]

_Values = dict[str, Annotated[str, Meta(max_length=100_000)]]


class PromptGetRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fill in a prompt."""

    prompt: Name
    arguments: _Values = {}


class PromptGetReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt with its arguments; one that is unknown is a Failure with not_found."""

    messages: tuple[PromptMessage, ...] = ()
    description: str | None = None
    meta: Annotated[dict[str, Any] | None, Meta(description="The result's _meta.")] = None


class CompleteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Suggest values of an argument of a prompt, or of a variable of a resource template."""

    name: Annotated[
        str, Meta(min_length=1, max_length=2048, description="The prompt, or the URI template.")
    ]
    argument: Annotated[str, Meta(min_length=1, max_length=256)]
    value: Annotated[str, Meta(max_length=10_000, description="What was typed so far.")] = ""
    arguments: Annotated[_Values, Meta(description="Those that have a value already.")] = {}


class CompleteReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Suggestions, best first."""

    values: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    total: int | None = None
    has_more: bool | None = None
