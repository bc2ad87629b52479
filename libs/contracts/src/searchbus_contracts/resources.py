"""Resources and prompts of a worker (proto/README.md §9).

`resource.<toolset>.{list,read,search,complete}` and `prompt.<toolset>.{get,complete}`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from .catalog import PromptMessage, ResourceDescriptor
from .codec import doc
from .coverage import SourceCoverage
from .tools import Name, ResourceBody

_OPERATORS = frozenset("+#./;?&")


class ResourceListRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Get one page of the resources that are not in the catalogue, such as documents."""

    cursor: Annotated[str, Meta(max_length=1024)] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class ResourceListReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, and the cursor of the next one (`None` on the last page)."""

    resources: tuple[ResourceDescriptor, ...]
    next_cursor: str | None = None
    coverage: Annotated[tuple[SourceCoverage, ...], doc("Parts that cannot be listed.")] = ()


class ResourceReadRequest(Struct, frozen=True, kw_only=True):
    """Read one resource by its URI."""

    uri: Annotated[str, Meta(min_length=1, max_length=2048)]


class ResourceReadReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resource's content; an unknown URI is a Failure with not_found."""

    contents: tuple[ResourceBody, ...]
    meta: Annotated[dict[str, Any] | None, doc("The result's _meta.")] = None


class ResourceSearchRequest(Struct, frozen=True, kw_only=True):
    """Find resources by their content."""

    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 50


class ResourceSearchReply(Struct, frozen=True, kw_only=True):
    """Resources, best first; empty where none matches."""

    resources: tuple[ResourceDescriptor, ...] = ()
    coverage: Annotated[
        tuple[SourceCoverage, ...], doc("What each part gave, where there are parts.")
    ] = ()


def template_pattern(template: str) -> re.Pattern[str]:
    """A URI template of RFC 6570 as a pattern.

    Each `{name}` matches one path segment; an expression with an operator (`{+name}`, `{?name}`)
    matches whatever is there. Matching takes time linear in the URI: a variable that is followed by
    a text ends where the text comes first, and is not tried again (an atomic group).
    """
    first, *rest = re.split(r"\{([^{}]*)\}", template)
    pattern = re.escape(first)
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    for number, (variable, text) in enumerate(pairs, start=1):
        value = ".*" if variable[:1] in _OPERATORS else "[^/]+"
        text = re.escape(text)
        pattern += f"{value}{text}" if number == len(pairs) else f"(?>{value}?{text})"
    return re.compile(pattern)


_Values = dict[str, Annotated[str, Meta(max_length=100_000)]]


class PromptGetRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fill in a prompt."""

    prompt: Name
    arguments: _Values = {}


class PromptGetReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt with its arguments; one that is unknown is a Failure with not_found."""

    messages: tuple[PromptMessage, ...] = ()
    description: str | None = None
    meta: Annotated[dict[str, Any] | None, doc("The result's _meta.")] = None


class CompleteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Suggest values of an argument of a prompt, or of a variable of a resource template."""

    name: Annotated[str, doc("The prompt, or the URI template.", min_length=1, max_length=2048)]
    argument: Annotated[str, Meta(min_length=1, max_length=256)]
    value: Annotated[str, doc("What was typed so far.", max_length=10_000)] = ""
    arguments: Annotated[_Values, doc("Those that have a value already.")] = {}


class CompleteReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Suggestions, best first."""

    values: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    total: int | None = None
    has_more: bool | None = None
