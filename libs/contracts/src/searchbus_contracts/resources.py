"""Resources read over the bus: `resource.<toolset>.{list,read,search}` (proto/README.md §9)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from .catalog import ResourceDescriptor
from .coverage import SourceCoverage
from .tools import ResourceBody

__all__ = [
    "ResourceListReply",
    "ResourceListRequest",
    "ResourceReadReply",
    "ResourceReadRequest",
    "ResourceSearchReply",
    "ResourceSearchRequest",
    "template_pattern",
]


_OPERATORS = frozenset("+#./;?&")


class ResourceListRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Get one page of the resources that are not in the catalogue, such as documents."""

    cursor: Annotated[str, Meta(max_length=1024)] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class ResourceListReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, and the cursor of the next one (`None` on the last page)."""

    resources: tuple[ResourceDescriptor, ...]
    next_cursor: str | None = None
    coverage: Annotated[
        tuple[SourceCoverage, ...], Meta(description="Of each part that cannot be listed.")
    ] = ()


class ResourceReadRequest(Struct, frozen=True, kw_only=True):
    """Read one resource by its URI."""

    uri: Annotated[str, Meta(min_length=1, max_length=2048)]


class ResourceReadReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resource's content; an unknown URI is a Failure with not_found."""

    contents: tuple[ResourceBody, ...]
    meta: Annotated[dict[str, Any] | None, Meta(description="The result's _meta.")] = None


class ResourceSearchRequest(Struct, frozen=True, kw_only=True):
    """Find resources by their content."""

    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 50


class ResourceSearchReply(Struct, frozen=True, kw_only=True):
    """Resources, best first; empty where none matches."""

    resources: tuple[ResourceDescriptor, ...] = ()
    coverage: Annotated[
        tuple[SourceCoverage, ...], Meta(description="What each part gave, where there are parts.")
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
