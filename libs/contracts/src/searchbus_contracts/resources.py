"""Resources and prompts of a worker (proto/README.md §9).

`resource.<toolset>.{list,read,search,complete}` and `prompt.<toolset>.{get,complete}`.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from .catalog import EXPRESSION, PromptMessage, ResourceDescriptor
from .codec import doc
from .coverage import SourceCoverage
from .tools import Name, ResourceBody

MAX_CONTENTS = 1_000
"""Contents of a resource, and messages of a prompt: the edge looks at each."""
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

    contents: Annotated[tuple[ResourceBody, ...], Meta(max_length=MAX_CONTENTS)]
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


class UriTemplate:
    """A URI template of RFC 6570, to find the URIs that it gives.

    Each `{name}` stands for one path segment or a part of it, never for nothing; an expression with
    an operator (`{+name}`, `{?name}`) for whatever is in a line. A value ends where the text behind
    its expression comes first, and no other end is tried: matching asks a text two questions for
    each expression.
    """

    def __init__(self, template: str) -> None:
        self._start, *rest = EXPRESSION.split(template)
        # What each value must not have, its least length, and the text behind it.
        self._values = [
            ("\n", 0, text) if variable[:1] in _OPERATORS else ("/", 1, text)
            for variable, text in zip(rest[::2], rest[1::2], strict=True)
        ]

    def matches(self, uri: str) -> bool:
        """Whether the whole URI is one that the template gives."""
        if not self._values:
            return uri == self._start
        if not uri.startswith(self._start):
            return False
        at = len(self._start)
        for barred, least, text in self._values[:-1]:
            end = uri.find(text, at + least)
            if end < 0 or uri.find(barred, at, end) >= 0:
                return False
            at = end + len(text)
        barred, least, text = self._values[-1]
        end = len(uri) - len(text)
        return end >= at + least and uri.endswith(text) and uri.find(barred, at, end) < 0


_Values = dict[str, Annotated[str, Meta(max_length=100_000)]]


class PromptGetRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fill in a prompt."""

    prompt: Name
    arguments: _Values = {}


class PromptGetReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt with its arguments; one that is unknown is a Failure with not_found."""

    messages: Annotated[tuple[PromptMessage, ...], Meta(max_length=MAX_CONTENTS)] = ()
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
