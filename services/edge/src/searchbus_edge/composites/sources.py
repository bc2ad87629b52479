"""What a source of the composites is: it finds hits, reads passages, and fetches full texts.

Source
├── Documents   every collection that the caller may read     documents.py
└── Web         the web tools that the caller may use         web.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from searchbus_contracts import Actor, Failure
from searchbus_contracts.coverage import SourceCoverage

if TYPE_CHECKING:
    from .quoting import QuoteFound

__all__ = ["MAX_QUERY_CHARS", "Anchor", "Fetched", "Found", "Hit", "Quoted", "Source"]

MAX_QUERY_CHARS = 1000


class Anchor(NamedTuple):
    """Where a passage stands: characters `start` to `end` of the text with this hash."""

    start: int
    end: int
    content_hash: str | None


@dataclass(frozen=True, slots=True)
class Quoted:
    """A passage as it is shown; without an anchor where its text is not known whole.

    Args:
        sure: whether it answers, as far as its source can tell; else one of its sentences has to.
    """

    text: str
    anchor: Anchor | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """One result.

    Args:
        url: an address that a person can open.
        source: `documents/<collection>` or `web`.
        passages: those or the snippet that were found, best first.
        weight: the confidence of its source, 0 to 1.
    """

    id: str
    title: str
    url: str
    source: str
    passages: tuple[Quoted, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """Hits, best first.

    Args:
        failures: the parts of the source that failed, by name.
        parts: what each of the others gave; empty for a source without parts.
    """

    hits: list[Hit]
    failures: Mapping[str, Failure] = field(default_factory=dict)
    parts: Sequence[SourceCoverage] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document or page, or a part of it.

    Args:
        start: where the text begins in the whole text, in characters.
        length: of the whole text; None: the text is its rest.
        mark: of untrusted text, between which a page's text is shown.
    """

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str] = field(default_factory=dict)
    start: int = 0
    length: int | None = None
    content_hash: str | None = None
    mark: str | None = None

    @property
    def chars(self) -> int:
        """Length of the whole text."""
        return self.start + len(self.text) if self.length is None else self.length


class Source(Protocol):
    """A source of hits and of full texts. Its name is the first part of its hits' `source`."""

    name: str

    def absence(self, actor: Actor) -> Failure | None:
        """Why this caller cannot search the source now: `unavailable` or `forbidden`; or None."""

    async def search(
        self, query: str, limit: int, *, passages: int, actor: Actor, timeout_s: float
    ) -> Found:
        """Hits with at most so many passages each; raises Fault."""

    async def passages(
        self, question: str, hit: Hit, *, actor: Actor, timeout_s: float
    ) -> list[Quoted]:
        """The passages of one of its hits that answer the question; raises Fault."""

    async def fetch(
        self, hit_id: str, *, actor: Actor, timeout_s: float, start: int = 0, end: int | None = None
    ) -> Fetched | None:
        """The text behind an id, or a part of it that may end earlier.

        None for ids of other sources.

        Raises:
            Fault: not_found; invalid_argument, where the text ends before `start`.
        """

    async def quote(
        self, hit_id: str, quote: str, *, actor: Actor, timeout_s: float
    ) -> QuoteFound | None:
        """Where a quotation stands in the text behind an id; None for ids of other sources.

        Raises:
            Fault: not_found; invalid_argument, for a quotation that cannot be compared.
        """
